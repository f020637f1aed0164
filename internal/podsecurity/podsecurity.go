// Package podsecurity defines the security profiles of pods. It decides which one applies to a WebApp, and whether the WebApp's own
// security contexts comply with it.
package podsecurity

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/apply"
)

// firstUnprivilegedPort is the first port on which any user may listen.
const firstUnprivilegedPort = 1024

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

// Profile returns what a profile sets in the security contexts of a pod and of its containers. Custom sets nothing.
func Profile(profile appsv1.SecurityProfile) (*corev1ac.PodSecurityContextApplyConfiguration, *corev1ac.SecurityContextApplyConfiguration) {
	if profile == appsv1.ProfileCustom {
		return corev1ac.PodSecurityContext(), nil
	}
	pod := corev1ac.PodSecurityContext().WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))
	container := corev1ac.SecurityContext().WithAllowPrivilegeEscalation(false)
	if profile == appsv1.ProfileRestricted {
		pod.WithRunAsNonRoot(true)
		container.WithReadOnlyRootFilesystem(true).WithCapabilities(corev1ac.Capabilities().WithDrop("ALL"))
	}
	return pod, container
}

// Contexts returns the security contexts of app's pod and of its container: those of the profile, overridden by spec.podSecurityContext
// and spec.securityContext.
func Contexts(app *appsv1.WebApp, profile appsv1.SecurityProfile) (*corev1ac.PodSecurityContextApplyConfiguration, *corev1ac.SecurityContextApplyConfiguration) {
	pod, container := Profile(profile)
	if profile == appsv1.ProfileRestricted && privilegedPort(app) {
		// A safe sysctl, which the level restricted allows: a non-root user can listen on port 80.
		pod.WithSysctls(corev1ac.Sysctl().WithName("net.ipv4.ip_unprivileged_port_start").WithValue("0"))
	}
	if over := app.Spec.PodSecurityContext; over != nil {
		apply.MergeInto(pod, over)
	}
	if over := app.Spec.SecurityContext; over != nil {
		container = cmp.Or(container, corev1ac.SecurityContext())
		apply.MergeInto(container, over)
	}
	return pod, container
}

func privilegedPort(app *appsv1.WebApp) bool {
	return app.Spec.Port < firstUnprivilegedPort || slices.ContainsFunc(app.Spec.Service.ExtraPorts,
		func(p appsv1.WebAppPort) bool { return cmp.Or(p.TargetPort, p.Port) < firstUnprivilegedPort })
}
