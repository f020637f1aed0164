package webapp

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	k8sappsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	autoscalingv2ac "k8s.io/client-go/applyconfigurations/autoscaling/v2"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	policyv1ac "k8s.io/client-go/applyconfigurations/policy/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/apply"
)

// bounds are the minimum and the maximum number of pods under an autoscaler.
type bounds struct{ least, most int32 }

// scalingBounds are the bounds of the WebApp's own autoscaler, otherwise of the foreign one; nil while spec.replicas sets the
// number.
func scalingBounds(app *appsv1.WebApp, foreign *autoscalingv1.HorizontalPodAutoscaler) *bounds {
	switch a := app.Spec.Autoscaling; {
	case a != nil:
		return &bounds{a.MinReplicas, a.MaxReplicas}
	case foreign != nil:
		return &bounds{*cmp.Or(foreign.Spec.MinReplicas, new(int32(1))), foreign.Spec.MaxReplicas}
	}
	return nil
}

// foreignAutoscaler returns another owner's HorizontalPodAutoscaler that scales app's Deployment, the first by name. KEDA creates
// one for each ScaledObject. An autoscaler of the WebApp itself writes spec.replicas, and is not included.
func (r *Reconciler) foreignAutoscaler(ctx context.Context, app *appsv1.WebApp) (*autoscalingv1.HorizontalPodAutoscaler, error) {
	list := &autoscalingv1.HorizontalPodAutoscalerList{}
	if err := r.Client.List(ctx, list, client.InNamespace(app.Namespace), client.MatchingFields{indexScales: app.Name}); err != nil {
		return nil, fmt.Errorf("list HorizontalPodAutoscalers: %w", err)
	}
	if len(list.Items) == 0 {
		return nil, nil
	}
	first := slices.MinFunc(list.Items, func(a, b autoscalingv1.HorizontalPodAutoscaler) int { return cmp.Compare(a.Name, b.Name) })
	return &first, nil
}

// scaledDeployment is the name of the Deployment that another owner's HorizontalPodAutoscaler scales; "" if there is none.
func scaledDeployment(scaler *autoscalingv1.HorizontalPodAutoscaler) string {
	target := scaler.Spec.ScaleTargetRef
	group, err := schema.ParseGroupVersion(target.APIVersion)
	if err != nil || group.Group != k8sappsv1.GroupName || target.Kind != "Deployment" {
		return ""
	}
	if owner := metav1.GetControllerOf(scaler); owner != nil && owner.Kind == ownerKind {
		if by, err := schema.ParseGroupVersion(owner.APIVersion); err == nil && by.Group == appsv1.GroupVersion.Group {
			return ""
		}
	}
	return target.Name
}

// webAppOfScaler returns a request for the WebApp whose Deployment a HorizontalPodAutoscaler scales.
func webAppOfScaler(_ context.Context, scaler client.Object) []reconcile.Request {
	name := scaledDeployment(scaler.(*autoscalingv1.HorizontalPodAutoscaler))
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: scaler.GetNamespace(), Name: name}}}
}

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
		spec.WithBehavior(apply.Convert[autoscalingv2ac.HorizontalPodAutoscalerBehaviorApplyConfiguration](a.Behavior))
	}
	return autoscalingv2ac.HorizontalPodAutoscaler(app.Name, app.Namespace).
		WithLabels(labels(app)).
		WithSpec(spec)
}

// wantsPDB reports whether a PodDisruptionBudget is desired. By default a single pod has none, since it would block node drains.
func wantsPDB(app *appsv1.WebApp, p plan) bool {
	d := app.Spec.Disruption
	if d != nil && d.Enabled != nil && !*d.Enabled {
		return false
	}
	if d != nil && (d.MinAvailable != nil || d.MaxUnavailable != nil) {
		return true
	}
	if p.autoscaled != nil {
		return p.autoscaled.most > 1
	}
	return replicas(app) > 1
}

func disruptionBudget(app *appsv1.WebApp) *policyv1ac.PodDisruptionBudgetApplyConfiguration {
	spec := policyv1ac.PodDisruptionBudgetSpec().
		WithSelector(metav1ac.LabelSelector().WithMatchLabels(selector(app))).
		// An unready pod never blocks a node drain.
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
