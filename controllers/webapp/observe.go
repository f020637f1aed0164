package webapp

import (
	"context"
	"fmt"

	k8sappsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/optionalapi"
	"github.com/fettle-dev/fettle/internal/rollout"
)

// existing are the children that were found before they are written.
type existing struct {
	// deployment is nil if there is none, or if another owner has it.
	deployment *k8sappsv1.Deployment
	revisions  []k8sappsv1.ControllerRevision
	apis       optionalapi.Served
}

// resolve reads everything that determines the desired children, once.
func (r *Reconciler) resolve(ctx context.Context, app *appsv1.WebApp) (inputs, existing, error) {
	var in inputs
	var found existing
	var err error
	if in.namespaceLabels, err = r.namespaceLabels(ctx, app.Namespace); err != nil {
		return in, found, err
	}
	if found.deployment, err = r.deployment(ctx, app); err != nil {
		return in, found, err
	}
	d := found.deployment
	if d != nil {
		in.ready, in.live = readyRevision(d), d.Spec.Template.Annotations
	}
	if found.revisions, err = r.revisions(ctx, app); err != nil {
		return in, found, err
	}
	if app.Spec.Rollout.AutoRollback {
		in.good = lastGood(found.revisions)
	}
	if found.apis, err = r.apis.Find(ctx, optionalKinds(app)); err != nil {
		return in, found, err
	}
	in.missing = found.apis.Missing
	if in.versionedNames, err = r.config.versionedNames(ctx, app, found.deployment); err != nil {
		return in, found, err
	}
	if in.config, err = r.config.read(ctx, app); err != nil {
		return in, found, err
	}
	if in.foreign, err = r.foreignAutoscaler(ctx, app); err != nil {
		return in, found, err
	}
	if in.createdWith = createdWith(in.config); d != nil {
		in.createdWith = d.Annotations[rollout.CreatedWithAnnotation]
	}
	return in, found, nil
}

// deployment returns app's Deployment; nil if there is none, or if another owner has it.
func (r *Reconciler) deployment(ctx context.Context, app *appsv1.WebApp) (*k8sappsv1.Deployment, error) {
	d := &k8sappsv1.Deployment{}
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(app), d); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("get Deployment: %w", err)
	}
	if !owned(app, d) {
		return nil, nil
	}
	return d, nil
}

func (r *Reconciler) namespaceLabels(ctx context.Context, name string) (map[string]string, error) {
	ns := &metav1.PartialObjectMetadata{}
	ns.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, ns); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get Namespace: %w", err)
	}
	return ns.Labels, nil
}

func (r *Reconciler) revisions(ctx context.Context, app *appsv1.WebApp) ([]k8sappsv1.ControllerRevision, error) {
	list := &k8sappsv1.ControllerRevisionList{}
	if err := r.Client.List(ctx, list, client.InNamespace(app.Namespace), client.MatchingLabels(selector(app))); err != nil {
		return nil, fmt.Errorf("list ControllerRevisions: %w", err)
	}
	var mine []k8sappsv1.ControllerRevision
	for i := range list.Items {
		if owned(app, &list.Items[i]) {
			mine = append(mine, list.Items[i])
		}
	}
	return mine, nil
}

// toPrune returns the children that may exist and are not desired.
func toPrune(app *appsv1.WebApp, p plan, found existing) []client.Object {
	meta := metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name, Labels: selector(app)}
	var out []client.Object
	for _, child := range []struct {
		wanted bool
		object client.Object
	}{
		{wantsPDB(app, p), &policyv1.PodDisruptionBudget{ObjectMeta: meta}},
		{app.Spec.Autoscaling != nil, &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: meta}},
		{app.Spec.Ingress != nil, &networkingv1.Ingress{ObjectMeta: meta}},
		{wantsNetworkPolicy(app), &networkingv1.NetworkPolicy{ObjectMeta: meta}},
		{app.Spec.Gateway != nil || found.apis.Missing[optionalapi.HTTPRoute.Kind], optionalapi.HTTPRoute.Object(app)},
		{app.Spec.Monitoring != nil || found.apis.Missing[optionalapi.ServiceMonitor.Kind], optionalapi.ServiceMonitor.Object(app)},
	} {
		if !child.wanted {
			out = append(out, child.object)
		}
	}
	keep := map[string]bool{}
	for _, o := range p.objects {
		if rev, ok := o.(*appsv1ac.ControllerRevisionApplyConfiguration); ok {
			keep[*rev.Name] = true
		}
	}
	for i := range found.revisions {
		if !keep[found.revisions[i].Name] {
			out = append(out, &found.revisions[i])
		}
	}
	return out
}

// holdReplicasForHPA writes only the number of pods, as another field owner, if the Deployment is not applied or is applied without
// it.
func (r *Reconciler) holdReplicasForHPA(ctx context.Context, app *appsv1.WebApp, p plan, d *k8sappsv1.Deployment) error {
	n := scaledTo(app, p, d)
	if n == nil || !r.Applier.Current(d) {
		return nil
	}
	hold := appsv1ac.Deployment(d.Name, d.Namespace).
		WithUID(d.UID).
		WithSpec(appsv1ac.DeploymentSpec().WithReplicas(*n))
	if err := r.Client.Apply(ctx, hold, client.FieldOwner(replicasHandover), client.ForceOwnership); err != nil {
		return fmt.Errorf("set the replicas of Deployment %q: %w", d.Name, err)
	}
	return nil
}

// scaledTo returns the number of pods that holdReplicasForHPA writes; nil for none. When an autoscaler takes over, it is the current
// number: a field without an owner would fall back to its default of one pod. While a reference is missing and the pod template does
// not change, it is the number in the spec.
func scaledTo(app *appsv1.WebApp, p plan, d *k8sappsv1.Deployment) *int32 {
	switch {
	case d == nil:
		return nil
	case p.waitingForRefs && p.autoscaled == nil && wanted(d) != replicas(app):
		return new(replicas(app))
	case !p.waitingForRefs && p.autoscaled != nil && d.Annotations[annotationReplicas] != "":
		return new(wanted(d))
	default:
		return nil
	}
}

func owned(app *appsv1.WebApp, child metav1.Object) bool { return metav1.IsControlledBy(child, app) }
