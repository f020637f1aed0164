package webapp

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
)

func autoscaler(app *appsv1.WebApp) *autoscalingv2ac.HorizontalPodAutoscalerApplyConfiguration {
	a := app.Spec.Autoscaling
	spec := autoscalingv2ac.HorizontalPodAutoscalerSpec().
		WithScaleTargetRef(autoscalingv2ac.CrossVersionObjectReference().
			WithAPIVersion("apps/v1").WithKind("Deployment").WithName(app.Name)).
		WithMinReplicas(a.MinReplicas).
		WithMaxReplicas(a.MaxReplicas)
	for _, m := range []struct {
		resource corev1.ResourceName
		target   *int32
	}{
		{corev1.ResourceCPU, a.TargetCPUUtilizationPercentage},
		{corev1.ResourceMemory, a.TargetMemoryUtilizationPercentage},
	} {
		if m.target == nil {
			continue
		}
		spec.WithMetrics(autoscalingv2ac.MetricSpec().
			WithType(autoscalingv2.ResourceMetricSourceType).
			WithResource(autoscalingv2ac.ResourceMetricSource().
				WithName(m.resource).
				WithTarget(autoscalingv2ac.MetricTarget().
					WithType(autoscalingv2.UtilizationMetricType).
					WithAverageUtilization(*m.target))))
	}
	if a.Behavior != nil {
		spec.WithBehavior(mirror[autoscalingv2ac.HorizontalPodAutoscalerBehaviorApplyConfiguration](a.Behavior))
	}
	return autoscalingv2ac.HorizontalPodAutoscaler(app.Name, app.Namespace).
		WithLabels(labels(app)).
		WithSpec(spec)
}

// budgeted reports whether a PodDisruptionBudget is wanted: never by default for a single pod, which it could only get in the way of.
func budgeted(app *appsv1.WebApp) bool {
	d := app.Spec.Disruption
	if d != nil && d.Enabled != nil && !*d.Enabled {
		return false
	}
	if d != nil && (d.MinAvailable != nil || d.MaxUnavailable != nil) {
		return true
	}
	if a := app.Spec.Autoscaling; a != nil {
		return a.MaxReplicas > 1
	}
	return replicas(app) > 1
}

func disruptionBudget(app *appsv1.WebApp) *policyv1ac.PodDisruptionBudgetApplyConfiguration {
	spec := policyv1ac.PodDisruptionBudgetSpec().
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(selector(app))).
		// A pod that doesn't serve anyway never blocks the drain of a node.
		WithUnhealthyPodEvictionPolicy(policyv1.AlwaysAllow)
	switch d := app.Spec.Disruption; {
	case d != nil && d.MinAvailable != nil:
		spec.WithMinAvailable(*d.MinAvailable)
	case d != nil && d.MaxUnavailable != nil:
		spec.WithMaxUnavailable(*d.MaxUnavailable)
	default:
		spec.WithMaxUnavailable(intstr.FromInt32(1))
	}
	return policyv1ac.PodDisruptionBudget(app.Name, app.Namespace).
		WithLabels(labels(app)).
		WithSpec(spec)
}
