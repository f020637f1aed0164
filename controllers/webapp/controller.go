// Package webapp runs a WebApp as a Deployment and a Service and, if its spec asks for them, an Ingress or HTTPRoute, a
// HorizontalPodAutoscaler, a PodDisruptionBudget, a NetworkPolicy, a ServiceMonitor and a ControllerRevision.
//
// It owns these objects. It reads the pods to report why they are not available, the labels of the namespace for the security
// profile, and the ConfigMaps and Secrets of spec.configRefs: their metadata from the cache, their contents by name and only after a
// change. internal/rollout restarts the pods for them. An AppConfig or VoteConfig rolls out what it publishes itself.
package webapp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/monitoring"
	"github.com/fettle-dev/fettle/internal/optionalapi"
	"github.com/fettle-dev/fettle/internal/reconciler"
	"github.com/fettle-dev/fettle/internal/requeue"
	"github.com/fettle-dev/fettle/internal/rollout"
)

const (
	controllerName = "webapp"
	// replicasHandover is the field owner of spec.replicas of a Deployment while an autoscaler takes over from the spec.
	replicasHandover = "webapp-handover"
)

// +kubebuilder:rbac:groups=apps.fettle.dev,resources=webapps,verbs=get;list;watch
// +kubebuilder:rbac:groups=apps.fettle.dev,resources=webapps/status,verbs=patch
// +kubebuilder:rbac:groups=apps.fettle.dev,resources=webapps/finalizers,verbs=update
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=services,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingresses;networkpolicies,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=autoscaling,resources=horizontalpodautoscalers,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=httproutes,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=gateway.networking.k8s.io,resources=gateways,verbs=list;watch
// +kubebuilder:rbac:groups=networking.k8s.io,resources=ingressclasses,verbs=list;watch
// +kubebuilder:rbac:groups=cert-manager.io,resources=certificates,verbs=list;watch
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=servicemonitors,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups="",resources=pods;namespaces,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=configmaps;secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups=config.fettle.dev,resources=appconfigs,verbs=list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options of the controller.
type Options struct {
	reconciler.Options
	// RestartDelay is the time without a further change of a ConfigMap or Secret after which the first pods restart; 5 seconds if 0.
	RestartDelay time.Duration
	// Engine restarts pods.
	Engine *rollout.Engine
}

// Reconciler reconciles WebApps.
type Reconciler struct {
	reconciler.Tools
	config *configReader
	apis   *optionalapi.APIs
}

// Setup registers the controller with the manager.
func Setup(mgr ctrl.Manager, opts Options) error {
	tools, err := reconciler.New(mgr, monitoring.KindWebApp, &appsv1.WebAppList{}, opts.Options, indexes...)
	if err != nil {
		return err
	}
	r := &Reconciler{Tools: tools, config: newConfigReader(mgr, opts.WatchSecrets)}
	kind := &reconciler.Reconciler[appsv1.WebApp, *appsv1.WebApp]{
		Tools: tools, ReconcileObject: r.reconcile, Progress: progress, StatusDelay: r.statusDelay, ReadyNote: readyNote, Created: created,
	}
	r.apis = optionalapi.New(mgr, &appsv1.WebApp{}, r.optionalAPIs()...)
	c, err := kind.Setup(mgr, r.watch)
	if err != nil {
		return err
	}
	r.apis.WatchWith(c)
	restarts := &restarter{client: r.Client, config: r.config, engine: opts.Engine, metrics: r.Metrics, debounce: cmp.Or(opts.RestartDelay, debounce)}
	retried := requeue.WithBackoff(restarts)
	const workers = 1 // or two objects of one WebApp would write to its Deployment at once
	if err := restarts.watches(mgr, opts.WatchSecrets).WithOptions(retried.Options(workers)).Complete(retried); err != nil {
		return fmt.Errorf("set up the restarts of %s: %w", controllerName, err)
	}
	return nil
}

func (r *Reconciler) reconcile(ctx context.Context, app *appsv1.WebApp) (reconcile.Result, error) {
	if app.Spec.Paused {
		seen, err := r.observePods(ctx, app)
		if err == nil {
			setPaused(app, seen)
		}
		return reconcile.Result{}, err
	}
	in, err := r.resolve(ctx, app)
	if err != nil {
		return reconcile.Result{}, err
	}
	p := desired(app, in)
	applyErr := r.apply(ctx, app, in, p)
	switch {
	case errors.Is(applyErr, errPortsTaken):
		return reconcile.Result{}, nil // the watch of the Service triggers the next reconcile
	case apply.Transient(applyErr):
		return reconcile.Result{}, applyErr
	}
	seen, err := r.observePods(ctx, app)
	if err == nil {
		seen.publication, err = r.observePublication(ctx, app, in.apis.Missing)
	}
	if err != nil {
		return reconcile.Result{}, err
	}
	seen.applyErr = applyErr
	setStatus(app, in, p, seen)
	// Watched objects need no requeue.
	return reconcile.Result{RequeueAfter: cmp.Or(in.apis.Retry, r.config.resync(app))}, applyErr
}

// apply writes the desired children and deletes the others. A rejected child does not keep others from being written or deleted.
func (r *Reconciler) apply(ctx context.Context, app *appsv1.WebApp, in inputs, p plan) error {
	if err := r.holdReplicasForHPA(ctx, app, p, in.deployment); err != nil {
		return err
	}
	applyErr := r.Applier.Apply(ctx, app, p.objects...)
	if apply.Transient(applyErr) {
		return applyErr
	}
	if portTaken(applyErr) {
		if renumbered, err := r.renumberPorts(ctx, app, p); err != nil || renumbered {
			return cmp.Or(err, errPortsTaken)
		}
	}
	return cmp.Or(p.rejected, applyErr, r.Applier.Prune(ctx, app, toPrune(app, in, p)...))
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

// Server-side apply identifies ports by number and protocol. If a user changed one of these, the apply would add the desired port
// next to the changed one and be rejected, since both have the same name. These ports are corrected first.

// portTaken reports whether an apply was rejected only because two ports have the same name. Correcting ports for another reason
// would restart pods.
func portTaken(err error) bool {
	var several interface{ Unwrap() []error }
	if errors.As(err, &several) {
		return slices.ContainsFunc(several.Unwrap(), portTaken)
	}
	return apierrors.HasStatusCause(err, metav1.CauseTypeFieldValueDuplicate)
}

// renumberPorts corrects the ports of the children, and reports whether any was wrong.
func (r *Reconciler) renumberPorts(ctx context.Context, app *appsv1.WebApp, p plan) (bool, error) {
	renumbered := false
	for _, o := range p.objects {
		var live client.Object
		switch o.(type) {
		case *appsv1ac.DeploymentApplyConfiguration:
			live = &k8sappsv1.Deployment{}
		case *corev1ac.ServiceApplyConfiguration:
			live = &corev1.Service{}
		default:
			continue
		}
		if err := r.Client.Get(ctx, client.ObjectKeyFromObject(app), live); apierrors.IsNotFound(err) {
			continue
		} else if err != nil {
			return false, fmt.Errorf("get %T: %w", live, err)
		}
		patch := portsPatch(app, live)
		if patch == nil || !metav1.IsControlledBy(live, app) {
			continue
		}
		if err := r.Client.Patch(ctx, live, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(controllerName)); err != nil {
			return false, fmt.Errorf("renumber the ports of %T %q: %w", live, app.Name, err)
		}
		renumbered = true
	}
	return renumbered, nil
}

// errPortsTaken ends a reconcile that just renumbered ports. The watch triggers the next one.
var errPortsTaken = errors.New("ports were renumbered")

// resolve reads everything that determines the desired children, once.
func (r *Reconciler) resolve(ctx context.Context, app *appsv1.WebApp) (in inputs, err error) {
	if in.namespaceLabels, err = r.namespaceLabels(ctx, app.Namespace); err != nil {
		return in, err
	}
	if in.deployment, err = r.deployment(ctx, app); err != nil {
		return in, err
	}
	d := in.deployment
	if d != nil {
		in.ready, in.live = readyRevision(d), d.Spec.Template.Annotations
	}
	if in.revisions, err = r.revisions(ctx, app); err != nil {
		return in, err
	}
	if app.Spec.Rollout.AutoRollback {
		in.good = lastGood(in.revisions)
	}
	if in.apis, err = r.apis.Find(ctx, optionalKinds(app)); err != nil {
		return in, err
	}
	if in.versionedNames, err = r.config.versionedNames(ctx, app, in.deployment); err != nil {
		return in, err
	}
	if in.config, err = r.config.read(ctx, app); err != nil {
		return in, err
	}
	if in.foreign, err = r.foreignAutoscaler(ctx, app); err != nil {
		return in, err
	}
	if in.createdWith = createdWith(in.config); d != nil {
		in.createdWith = d.Annotations[rollout.CreatedWithAnnotation]
	}
	return in, nil
}

// deployment returns app's Deployment; nil if there is none, or if another owner has it.
func (r *Reconciler) deployment(ctx context.Context, app *appsv1.WebApp) (*k8sappsv1.Deployment, error) {
	d := &k8sappsv1.Deployment{}
	if err := r.Client.Get(ctx, client.ObjectKeyFromObject(app), d); apierrors.IsNotFound(err) {
		return nil, nil
	} else if err != nil {
		return nil, fmt.Errorf("get Deployment: %w", err)
	}
	if !metav1.IsControlledBy(d, app) {
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
		if metav1.IsControlledBy(&list.Items[i], app) {
			mine = append(mine, list.Items[i])
		}
	}
	return mine, nil
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

// observePods reads the Deployment and its pods from the cache.
func (r *Reconciler) observePods(ctx context.Context, app *appsv1.WebApp) (observed, error) {
	var seen observed
	var err error
	if seen.deployment, err = r.deployment(ctx, app); err != nil {
		return seen, err
	}
	seen.stale = seen.deployment != nil && !r.Applier.Current(seen.deployment)
	pods := &corev1.PodList{}
	if err := r.Client.List(ctx, pods, client.InNamespace(app.Namespace), client.MatchingFields{indexOwner: app.Name}); err != nil {
		return seen, fmt.Errorf("list pods: %w", err)
	}
	seen.pods = pods.Items
	return seen, nil
}

// Indexes of the WebApps that an event concerns.
const (
	indexConfigRefs = "spec.configRefs"
	indexOptional   = "optionalAPIs"
	indexOwner      = "owner"
	indexScales     = "scales"
	indexClass      = "spec.ingress.className"
	indexTLS        = "tlsSecret"
	indexGateways   = "spec.gateway.parentRefs"
)

// watch adds the triggers of the controller. Owned objects have no predicate, since readiness is in their status.
func (r *Reconciler) watch(b *builder.Builder) {
	b.Owns(&k8sappsv1.Deployment{}).
		Owns(&k8sappsv1.ControllerRevision{}).
		Owns(&corev1.Service{}).
		Owns(&networkingv1.Ingress{}).
		Owns(&networkingv1.NetworkPolicy{}).
		Owns(&autoscalingv2.HorizontalPodAutoscaler{}).
		Owns(&policyv1.PodDisruptionBudget{}).
		Watches(&autoscalingv1.HorizontalPodAutoscaler{}, handler.EnqueueRequestsFromMapFunc(webAppOfScaler), builder.WithPredicates(scalingChanged)).
		Watches(&corev1.Pod{}, r.EnqueueOwner()).
		WatchesMetadata(&corev1.ConfigMap{}, r.EnqueueBy(indexConfigRefs, kindConfigMap+"/")).
		Watches(&configv1.AppConfig{}, r.EnqueueBy(indexConfigRefs, kindAppConfig+"/"), builder.WithPredicates(publishedChanged)).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.webAppsInNamespace),
			builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WatchesMetadata(&networkingv1.IngressClass{}, handler.EnqueueRequestsFromMapFunc(r.webAppsOfClass), builder.WithPredicates(comesOrGoes))
	r.apis.Trigger(b, func(ctx context.Context, kind string) []reconcile.Request {
		return r.Requests(ctx, client.MatchingFields{indexOptional: kind})
	})
	if r.WatchSecrets {
		b.WatchesMetadata(&corev1.Secret{}, r.EnqueueBy(indexConfigRefs, kindSecret+"/")).
			WatchesMetadata(&corev1.Secret{}, r.EnqueueBy(indexTLS, ""), builder.WithPredicates(comesOrGoes))
	}
}

// indexes are those that the watches need.
var indexes = []reconciler.Index{
	{Object: &appsv1.WebApp{}, Field: indexConfigRefs, Values: func(o client.Object) []string {
		var keys []string
		for _, ref := range o.(*appsv1.WebApp).Spec.ConfigRefs {
			keys = append(keys, refKey(ref))
		}
		return keys
	}},
	{Object: &appsv1.WebApp{}, Field: indexOptional, Values: func(o client.Object) []string { return optionalKinds(o.(*appsv1.WebApp)) }},
	{Object: &appsv1.WebApp{}, Field: indexClass, Values: ofIngress(func(app *appsv1.WebApp) []string { return []string{app.Spec.Ingress.ClassName} })},
	{Object: &appsv1.WebApp{}, Field: indexTLS, Values: ofIngress(tlsSecrets)},
	{Object: &appsv1.WebApp{}, Field: indexGateways, Values: func(o client.Object) []string {
		app, keys := o.(*appsv1.WebApp), []string{}
		if app.Spec.Gateway != nil {
			for _, ref := range app.Spec.Gateway.ParentRefs {
				keys = append(keys, cmp.Or(ref.Namespace, app.Namespace)+"/"+ref.Name)
			}
		}
		return keys
	}},
	{Object: &corev1.Pod{}, Field: indexOwner, Values: reconciler.OwnerNames(ownerKind)},
	{Object: &autoscalingv1.HorizontalPodAutoscaler{}, Field: indexScales, Values: func(o client.Object) []string {
		if name := scaledDeployment(o.(*autoscalingv1.HorizontalPodAutoscaler)); name != "" {
			return []string{name}
		}
		return nil
	}},
}

// ofIngress indexes WebApps by the references of their Ingress.
func ofIngress(names func(*appsv1.WebApp) []string) client.IndexerFunc {
	return func(o client.Object) []string {
		app := o.(*appsv1.WebApp)
		if app.Spec.Ingress == nil {
			return nil
		}
		return slices.DeleteFunc(names(app), func(name string) bool { return name == "" })
	}
}

// comesOrGoes is for objects of which only the existence matters.
var comesOrGoes = predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}

// scalingChanged drops the bookkeeping of an autoscaler, which changes every few seconds.
var scalingChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	was, is := e.ObjectOld.(*autoscalingv1.HorizontalPodAutoscaler), e.ObjectNew.(*autoscalingv1.HorizontalPodAutoscaler)
	return !equality.Semantic.DeepEqual(was.Spec, is.Spec) || !equality.Semantic.DeepEqual(was.OwnerReferences, is.OwnerReferences)
}}

// webAppOfScaler returns a request for the WebApp whose Deployment a HorizontalPodAutoscaler scales.
func webAppOfScaler(_ context.Context, scaler client.Object) []reconcile.Request {
	name := scaledDeployment(scaler.(*autoscalingv1.HorizontalPodAutoscaler))
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: scaler.GetNamespace(), Name: name}}}
}

func (r *Reconciler) webAppsOfClass(ctx context.Context, class client.Object) []reconcile.Request {
	return r.Requests(ctx, client.MatchingFields{indexClass: class.GetName()})
}

// webAppsOfCertificate uses the name of the Secret, which is that of the Certificate.
func (r *Reconciler) webAppsOfCertificate(ctx context.Context, certificate *unstructured.Unstructured) []reconcile.Request {
	return r.RequestsBy(ctx, certificate.GetNamespace(), indexTLS, certificate.GetName())
}

func (r *Reconciler) webAppsOfGateway(ctx context.Context, gateway *unstructured.Unstructured) []reconcile.Request {
	return r.Requests(ctx, client.MatchingFields{indexGateways: gateway.GetNamespace() + "/" + gateway.GetName()})
}

func (r *Reconciler) webAppsInNamespace(ctx context.Context, ns client.Object) []reconcile.Request {
	return r.Requests(ctx, client.InNamespace(ns.GetName()))
}

// optionalAPIs are the APIs that a cluster may lack. HTTPRoutes and ServiceMonitors are children.
func (r *Reconciler) optionalAPIs() []optionalapi.API {
	certificate, gateway := optionalapi.Certificate, optionalapi.Gateway
	certificate.Concerned, gateway.Concerned = r.webAppsOfCertificate, r.webAppsOfGateway
	gateway.Predicates = []predicate.TypedPredicate[*unstructured.Unstructured]{gatewayChanged}
	return []optionalapi.API{optionalapi.HTTPRoute, optionalapi.ServiceMonitor, certificate, gateway}
}

// optionalKinds are the kinds of optional APIs that app uses.
func optionalKinds(app *appsv1.WebApp) []string {
	var kinds []string
	if app.Spec.Gateway != nil {
		kinds = append(kinds, optionalapi.HTTPRoute.Kind, optionalapi.Gateway.Kind)
	}
	if app.Spec.Monitoring != nil {
		kinds = append(kinds, optionalapi.ServiceMonitor.Kind)
	}
	if app.Spec.Ingress != nil && app.Spec.Ingress.CertIssuer != nil {
		kinds = append(kinds, optionalapi.Certificate.Kind)
	}
	return kinds
}

// gatewayChanged drops updates of a Gateway that only change the number of attached routes in its status.
var gatewayChanged = predicate.TypedFuncs[*unstructured.Unstructured]{
	UpdateFunc: func(e event.TypedUpdateEvent[*unstructured.Unstructured]) bool {
		was, _, _ := unstructured.NestedSlice(e.ObjectOld.Object, "status", "addresses")
		is, _, _ := unstructured.NestedSlice(e.ObjectNew.Object, "status", "addresses")
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || !equality.Semantic.DeepEqual(was, is)
	},
}
