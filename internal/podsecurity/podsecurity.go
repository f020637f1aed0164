// Package profile says how strictly the pods of a WebApp are confined: which security profile holds for it, and whether
// its own security contexts keep what the profile promises.
package podsecurity

import (
	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
)

// enforceLabel is the label by which a namespace asks Pod Security admission to refuse pods below a level.
const (
	enforceLabel    = "pod-security.kubernetes.io/enforce"
	levelRestricted = "restricted"
)

// Effective returns the profile that holds for app: spec.securityProfile, else Restricted where the namespace enforces
// Pod Security "restricted", else Baseline. namespaceLabels are the labels of app's namespace.
func Effective(app *appsv1.WebApp, namespaceLabels map[string]string) appsv1.SecurityProfile {
	switch {
	case app.Spec.SecurityProfile != "":
		return app.Spec.SecurityProfile
	case namespaceLabels[enforceLabel] == levelRestricted:
		return appsv1.ProfileRestricted
	default:
		return appsv1.ProfileBaseline
	}
}

// Satisfies reports whether profile has is at least as strict as want. Custom promises nothing, so it satisfies none.
func Satisfies(has, want appsv1.SecurityProfile) bool {
	switch want {
	case appsv1.ProfileRestricted:
		return has == appsv1.ProfileRestricted
	case appsv1.ProfileBaseline:
		return has == appsv1.ProfileRestricted || has == appsv1.ProfileBaseline
	default:
		return true
	}
}
