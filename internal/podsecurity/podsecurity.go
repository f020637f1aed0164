// Package podsecurity decides which security profile applies to a WebApp, and whether the WebApp's own security contexts comply with
// it.
package podsecurity

import (
	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
)

// enforceLabel is the namespace label that makes Pod Security admission reject pods below a level.
const (
	enforceLabel    = "pod-security.kubernetes.io/enforce"
	levelRestricted = "restricted"
)

// Effective returns the profile of app: spec.securityProfile, otherwise Restricted if the namespace enforces the Pod Security level
// restricted, otherwise Baseline. namespaceLabels are the labels of app's namespace.
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

// Satisfies reports whether the profile has is at least as strict as want. Custom satisfies no profile.
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
