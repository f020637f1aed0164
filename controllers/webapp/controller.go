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
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
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
	applyErr := r.Applier.Apply(ctx, app, p.objects...)
	if apply.Transient(applyErr) {
		return applyErr
	}
	if portTaken(applyErr) {
		if renumbered, err := r.renumberPorts(ctx, app, p); err != nil || renumbered {
			return cmp.Or(err, errPortsTaken)
		}
	}
	return cmp.Or(applyErr, r.Applier.Prune(ctx, app, toPrune(app, p, found)...))
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
	seen.stale = seen.deployment != nil && !r.Applier.Current(seen.deployment)
	pods := &corev1.PodList{}
	if err := r.Client.List(ctx, pods, client.InNamespace(app.Namespace), client.MatchingFields{indexOwner: app.Name}); err != nil {
		return seen, fmt.Errorf("list pods: %w", err)
	}
	seen.pods = pods.Items
	return seen, nil
}
