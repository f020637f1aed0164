package podsecurity

import (
	"encoding/json"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
)

// evaluator is the evaluator of Pod Security admission.
var evaluator = sync.OnceValues(func() (policy.Evaluator, error) {
	return policy.NewEvaluator(policy.DefaultChecks(), nil)
})

// Violations returns the violations of the Pod Security level of the profile want by spec.securityContext and
// spec.podSecurityContext, one sentence each, on top of the values of the profile itself. It is empty if want requires nothing.
func Violations(app *appsv1.WebApp, want appsv1.SecurityProfile) ([]string, error) {
	level := api.LevelBaseline
	switch want {
	case appsv1.ProfileRestricted:
		level = api.LevelRestricted
	case appsv1.ProfileBaseline:
	default:
		return nil, nil
	}
	if app.Spec.SecurityContext == nil && app.Spec.PodSecurityContext == nil {
		return nil, nil
	}
	checks, err := evaluator()
	if err != nil {
		return nil, fmt.Errorf("set up the checks of Pod Security: %w", err)
	}
	pod, err := confined(app, want)
	if err != nil {
		return nil, err
	}
	var sentences []string
	latest := api.LevelVersion{Level: level, Version: api.LatestVersion()}
	for _, result := range checks.EvaluatePod(latest, &metav1.ObjectMeta{}, pod) {
		if !result.Allowed {
			sentences = append(sentences, result.ForbiddenReason+": "+result.ForbiddenDetail)
		}
	}
	return sentences, nil
}

// confined returns the part of app's pod that Pod Security checks: the values of the profile want, overridden by the fields of app.
func confined(app *appsv1.WebApp, want appsv1.SecurityProfile) (*corev1.PodSpec, error) {
	pod := &corev1.PodSecurityContext{SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}}
	container := &corev1.SecurityContext{AllowPrivilegeEscalation: new(false)}
	if want == appsv1.ProfileRestricted {
		pod.RunAsNonRoot = new(true)
		container.Capabilities = &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}
	}
	if err := mergeInto(pod, app.Spec.PodSecurityContext); err != nil {
		return nil, err
	}
	if err := mergeInto(container, app.Spec.SecurityContext); err != nil {
		return nil, err
	}
	return &corev1.PodSpec{
		SecurityContext: pod,
		Containers:      []corev1.Container{{Name: app.Name, SecurityContext: container}},
	}, nil
}

// mergeInto sets in base the fields of over, which may be nil.
func mergeInto[T any](base, over *T) error {
	if over == nil {
		return nil
	}
	raw, err := json.Marshal(over)
	if err != nil {
		return fmt.Errorf("read %T: %w", over, err)
	}
	if err := json.Unmarshal(raw, base); err != nil {
		return fmt.Errorf("read %T: %w", over, err)
	}
	return nil
}
