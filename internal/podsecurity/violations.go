package podsecurity

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/podtemplate"
)

// evaluator is the evaluator of Pod Security admission.
var evaluator = sync.OnceValues(func() (policy.Evaluator, error) {
	return policy.NewEvaluator(policy.DefaultChecks(), nil)
})

// Confined returns the part of app's pod under the profile that spec.podSecurityContext and spec.securityContext can weaken.
func Confined(app *appsv1.WebApp, profile appsv1.SecurityProfile) *corev1.PodSpec {
	return apply.Convert[corev1.PodSpec](confined(app, profile).Spec)
}

// WithPodTemplate returns [Confined] with spec.podTemplate, which can weaken it too.
func WithPodTemplate(app *appsv1.WebApp, profile appsv1.SecurityProfile) (*corev1.PodSpec, error) {
	_, added := Profile(profile)
	merged, err := podtemplate.Merge(confined(app, profile), app.Spec.PodTemplate, added)
	if err != nil {
		return nil, fmt.Errorf("spec.podTemplate: %w", err)
	}
	return apply.Convert[corev1.PodSpec](merged.Spec), nil
}

func confined(app *appsv1.WebApp, profile appsv1.SecurityProfile) *corev1ac.PodTemplateSpecApplyConfiguration {
	pod, container := Contexts(app, profile)
	main := corev1ac.Container().WithName(appsv1.MainContainer)
	main.SecurityContext = container
	return corev1ac.PodTemplateSpec().WithSpec(corev1ac.PodSpec().WithSecurityContext(pod).WithContainers(main))
}

// Violations returns how a pod violates the Pod Security level of the profile want, one sentence for each check. It is empty if want
// requires nothing.
func Violations(pod *corev1.PodSpec, want appsv1.SecurityProfile) ([]string, error) {
	level := api.LevelBaseline
	switch want {
	case appsv1.ProfileRestricted:
		level = api.LevelRestricted
	case appsv1.ProfileBaseline:
	default:
		return nil, nil
	}
	checks, err := evaluator()
	if err != nil {
		return nil, fmt.Errorf("set up the checks of Pod Security: %w", err)
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
