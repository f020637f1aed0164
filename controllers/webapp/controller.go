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
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/conditions"
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

	// coalescingWindow is how long a status that reports only progress is delayed. A creation or a change that succeeds within it
	// costs one status write.
	coalescingWindow = 3 * time.Second
)

// +kubebuilder:rbac:groups=apps.fettle.dev,resources=webapps,verbs=list;watch
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
	// Workers is how many WebApps are reconciled at once.
	Workers int
	// WatchSecrets is false if the role does not permit it. Secrets are then read periodically.
	WatchSecrets bool
	// RestartDelay is the time without a further change of a ConfigMap or Secret after which the first pods restart; 5 seconds if 0.
	RestartDelay time.Duration
	Metrics      *monitoring.Metrics
	// Engine restarts pods.
	Engine *rollout.Engine
}

// Reconciler reconciles WebApps.
type Reconciler struct {
	client         client.Client
	live           client.Reader
	applier        *apply.Applier
	statusThrottle *conditions.StatusThrottle
	clock          clock.PassiveClock
	events         events.EventRecorder
	metrics        *monitoring.Metrics
	config         *configReader
	apis           *optionalapi.APIs
}

// Setup registers the controller with the manager.
func Setup(mgr ctrl.Manager, opts Options) error {
	applier, err := apply.New(mgr, controllerName)
	if err != nil {
		return fmt.Errorf("set up controller %s: %w", controllerName, err)
	}
	//nolint:forbidigo // nothing is waited for before the manager starts
	if err := index(context.Background(), mgr.GetFieldIndexer()); err != nil {
		return fmt.Errorf("set up controller %s: %w", controllerName, err)
	}
	r := &Reconciler{
		client:         mgr.GetClient(),
		live:           mgr.GetAPIReader(),
		applier:        applier,
		statusThrottle: conditions.NewStatusThrottle(coalescingWindow, clock.RealClock{}),
		clock:          clock.RealClock{},
		events:         mgr.GetEventRecorder(controllerName),
		metrics:        opts.Metrics,
		config:         newConfigReader(mgr, opts.WatchSecrets),
	}
	r.apis = optionalapi.New(mgr, &appsv1.WebApp{}, r.optionalAPIs()...)
	retried := requeue.WithBackoff(r.kindReconciler())
	c, err := r.watches(mgr, opts).WithOptions(retried.Options(opts.Workers)).Build(retried)
	if err != nil {
		return fmt.Errorf("set up controller %s: %w", controllerName, err)
	}
	r.apis.WatchWith(c)
	restarts := &restarter{client: r.client, config: r.config, engine: opts.Engine, metrics: r.metrics, debounce: cmp.Or(opts.RestartDelay, debounce)}
	retried = requeue.WithBackoff(restarts)
	const workers = 1 // or two objects of one WebApp would write to its Deployment at once
	if err := restarts.watches(mgr, opts.WatchSecrets).WithOptions(retried.Options(workers)).Complete(retried); err != nil {
		return fmt.Errorf("set up the restarts of %s: %w", controllerName, err)
	}
	return nil
}

// kindReconciler is the reconciler of the kind.
func (r *Reconciler) kindReconciler() *reconciler.Reconciler[appsv1.WebApp, *appsv1.WebApp] {
	return &reconciler.Reconciler[appsv1.WebApp, *appsv1.WebApp]{
		Kind: monitoring.KindWebApp, Client: r.client, Applier: r.applier, Throttle: r.statusThrottle, Clock: r.clock, Metrics: r.metrics,
		ReconcileObject: r.reconcile, StatusDelay: r.statusDelay, EmitEvents: r.emitEvents,
		Status: func(app *appsv1.WebApp) (any, bool) {
			return app.Status, meta.IsStatusConditionTrue(app.Status.Conditions, fettlev1.Ready)
		},
	}
}

func (r *Reconciler) reconcile(ctx context.Context, app *appsv1.WebApp) (reconcile.Result, error) {
	switch {
	case app.DeletionTimestamp != nil:
		setTerminating(app)
		return reconcile.Result{}, nil // all that is owned is garbage-collected
	case app.Spec.Paused:
		seen, err := r.observePods(ctx, app)
		if err == nil {
			setPaused(app, seen)
		}
		return reconcile.Result{}, err
	}
	in, found, err := r.resolve(ctx, app)
	if err != nil {
		return reconcile.Result{}, err
	}
	p := desired(app, in)
	applyErr := r.apply(ctx, app, p, found)
	switch {
	case errors.Is(applyErr, errPortsTaken):
		return reconcile.Result{}, nil // the watch of the Service triggers the next reconcile
	case apply.Transient(applyErr):
		return reconcile.Result{}, applyErr
	}
	seen, err := r.observe(ctx, app, in.missing)
	if err != nil {
		return reconcile.Result{}, err
	}
	seen.applyErr = applyErr
	setStatus(app, in, p, seen)
	// Watched objects need no requeue.
	return reconcile.Result{RequeueAfter: cmp.Or(found.apis.Retry, r.config.resync(app))}, applyErr
}

// apply writes the desired children and deletes the others. A rejected child does not keep others from being written or deleted.
func (r *Reconciler) apply(ctx context.Context, app *appsv1.WebApp, p plan, found existing) error {
	if err := r.holdReplicasForHPA(ctx, app, p, found.deployment); err != nil {
		return err
	}
	applyErr := r.applier.Apply(ctx, app, p.objects...)
	if apply.Transient(applyErr) {
		return applyErr
	}
	if portTaken(applyErr) {
		if renumbered, err := r.renumberPorts(ctx, app, p); err != nil || renumbered {
			return cmp.Or(err, errPortsTaken)
		}
	}
	return cmp.Or(applyErr, r.applier.Prune(ctx, app, toPrune(app, p, found)...))
}

func (r *Reconciler) observe(ctx context.Context, app *appsv1.WebApp, missing map[string]bool) (observed, error) {
	seen, err := r.observePods(ctx, app)
	if err != nil {
		return seen, err
	}
	seen.publication, err = r.observePublication(ctx, app, missing)
	return seen, err
}

// observePods reads the Deployment and its pods from the cache.
func (r *Reconciler) observePods(ctx context.Context, app *appsv1.WebApp) (observed, error) {
	var seen observed
	var err error
	if seen.deployment, err = r.deployment(ctx, app); err != nil {
		return seen, err
	}
	seen.stale = seen.deployment != nil && !r.applier.Current(seen.deployment)
	pods := &corev1.PodList{}
	if err := r.client.List(ctx, pods, client.InNamespace(app.Namespace), client.MatchingFields{indexOwner: app.Name}); err != nil {
		return seen, fmt.Errorf("list pods: %w", err)
	}
	seen.pods = pods.Items
	return seen, nil
}
