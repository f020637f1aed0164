// Package appconfig renders an AppConfig and publishes the result as a ConfigMap, and as a Secret for values from Secrets. It keeps
// earlier revisions as immutable copies. internal/rollout restarts the workloads that use a changed key.
//
// It owns these ConfigMaps and Secrets. Of workloads it changes only annotations and, in mode Versioned, the names of the published
// objects. There is no finalizer: the owned objects are garbage-collected. Annotations that stay on workloads if Fettle does not run
// during a deletion have no effect, and are correct again for an AppConfig of the same name.
package appconfig

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/digest"
	"github.com/fettle-dev/fettle/internal/monitoring"
	"github.com/fettle-dev/fettle/internal/reconciler"
	"github.com/fettle-dev/fettle/internal/requeue"
	"github.com/fettle-dev/fettle/internal/rollout"
)

const (
	controllerName = "appconfig"
	// coalescingWindow is how long a status that reports only progress is delayed. A change that succeeds within it costs one status
	// write.
	coalescingWindow = 3 * time.Second
	// cacheWait is when to check the published objects again if no event comes.
	cacheWait = time.Second
)

// +kubebuilder:rbac:groups=config.fettle.dev,resources=appconfigs,verbs=list;watch
// +kubebuilder:rbac:groups=config.fettle.dev,resources=appconfigs/status,verbs=patch
// +kubebuilder:rbac:groups=config.fettle.dev,resources=appconfigs/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=configmaps;secrets,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=apps,resources=statefulsets;daemonsets,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=apps,resources=replicasets,verbs=list
// +kubebuilder:rbac:groups=apps,resources=controllerrevisions,verbs=get;list;watch;create;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options of the controller.
type Options struct {
	// Workers is how many AppConfigs are reconciled at once.
	Workers int
	// WatchSecrets is false if the role does not permit it. Secrets are then read periodically.
	WatchSecrets bool
	Metrics      *monitoring.Metrics
	// Engine restarts dependents.
	Engine *rollout.Engine
	// Keys has the key of digests.
	Keys *digest.Keyring
}

// Reconciler reconciles AppConfigs.
type Reconciler struct {
	client         client.Client
	applier        *apply.Applier
	statusThrottle *conditions.StatusThrottle
	clock          clock.PassiveClock
	events         events.EventRecorder
	metrics        *monitoring.Metrics
	engine         *rollout.Engine
	sources        *sourceReader
	digests        *digest.Keyring
	renderCache    *renderCache
	// wrote has the objects of the last plan, by AppConfig. Nothing is decided before the cache shows them.
	wrote sync.Map
	// throttle limits an AppConfig whose contents keep changing.
	throttle throttle
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
		applier:        applier,
		statusThrottle: conditions.NewStatusThrottle(coalescingWindow, clock.RealClock{}),
		clock:          clock.RealClock{},
		events:         mgr.GetEventRecorder(controllerName),
		metrics:        opts.Metrics,
		engine:         opts.Engine,
		sources:        newSourceReader(mgr, opts.WatchSecrets),
		digests:        opts.Keys,
		renderCache:    newRenderCache(),
	}
	retried := requeue.WithBackoff(r.kindReconciler())
	if err := r.watches(mgr, opts).WithOptions(retried.Options(opts.Workers)).Complete(retried); err != nil {
		return fmt.Errorf("set up controller %s: %w", controllerName, err)
	}
	return nil
}

// kindReconciler is the reconciler of the kind.
func (r *Reconciler) kindReconciler() *reconciler.Reconciler[configv1.AppConfig, *configv1.AppConfig] {
	return &reconciler.Reconciler[configv1.AppConfig, *configv1.AppConfig]{
		Kind: monitoring.KindAppConfig, Client: r.client, Applier: r.applier, Throttle: r.statusThrottle, Clock: r.clock, Metrics: r.metrics,
		ReconcileObject: r.reconcile, StatusDelay: r.statusDelay, EmitEvents: r.emitEvents, OnDeleted: r.onDeleted,
		Status: func(cfg *configv1.AppConfig) (any, bool) {
			return cfg.Status, meta.IsStatusConditionTrue(cfg.Status.Conditions, fettlev1.Ready)
		},
	}
}

func (r *Reconciler) reconcile(ctx context.Context, cfg *configv1.AppConfig) (reconcile.Result, error) {
	switch {
	case cfg.DeletionTimestamp != nil:
		setTerminating(cfg)
		return reconcile.Result{}, nil
	case cfg.Spec.Paused:
		r.engine.BeginReconcile(ownerOf(cfg))
		setPaused(cfg)
		return reconcile.Result{}, nil
	}
	if shown, err := r.cacheCurrent(ctx, cfg); err != nil || !shown {
		return reconcile.Result{}, err // else the watch brings what was last written
	}
	r.engine.BeginReconcile(ownerOf(cfg))
	if conflict, err := r.conflict(ctx, cfg); err != nil {
		return reconcile.Result{}, err
	} else if conflict != nil {
		setConflict(cfg, *conflict)
		requeue.Request(ctx) // its end may go unnoticed
		return reconcile.Result{}, nil
	}
	return r.publish(ctx, cfg)
}

// publish applies the spec of an AppConfig that has the name of its target.
func (r *Reconciler) publish(ctx context.Context, cfg *configv1.AppConfig) (reconcile.Result, error) {
	found, err := r.find(ctx, cfg)
	if err != nil {
		return reconcile.Result{}, err
	}
	out, err := r.render(ctx, cfg, found)
	if err != nil {
		return reconcile.Result{}, err
	}
	p := desired(cfg, choose(cfg, out, found), found, r.clock.Now())
	policy, policyErr := policyOf(cfg)
	if adopted, err := r.adopt(ctx, cfg, policy, p, found); err != nil || !adopted {
		return reconcile.Result{}, err
	}
	key, now := client.ObjectKeyFromObject(cfg), r.clock.Now()
	if p.changes && !r.throttle.allow(key, now) {
		setThrottled(cfg, out)
		return reconcile.Result{RequeueAfter: publishEvery}, nil
	}
	seen := observed{policyErr: policyErr, throttled: r.throttle.limited(key, now), applyErr: r.apply(ctx, cfg, p, found)}
	switch {
	case apply.Transient(seen.applyErr):
		return reconcile.Result{}, seen.applyErr
	case seen.applyErr == nil && p.changes:
		// Only what the cache shows is rolled out: an apply that met a newer object changed nothing. The watch triggers the next
		// reconcile.
		return reconcile.Result{RequeueAfter: cacheWait}, nil
	case seen.applyErr == nil:
		if seen.report, err = r.roll(ctx, cfg, policy, p); err != nil {
			return reconcile.Result{}, err
		}
	}
	setStatus(cfg, out, p, found, seen)
	return r.outcome(ctx, cfg, p, seen)
}

// adopt makes the engine record what the pods of dependents run, before it is replaced. It returns false if it is too early.
func (r *Reconciler) adopt(ctx context.Context, cfg *configv1.AppConfig, policy rollout.Policy, p plan, found existing) (bool, error) {
	if !p.changes {
		return true, nil
	}
	return r.engine.RecordBaseline(ctx, ownerOf(cfg), policy, objectsOf(cfg, found.live(cfg.Spec.Target.Mode), found))
}

// roll restarts the dependents that may restart now, and reports on all of them.
func (r *Reconciler) roll(ctx context.Context, cfg *configv1.AppConfig, policy rollout.Policy, p plan) (rollout.Report, error) {
	report, err := r.engine.Roll(ctx, ownerOf(cfg), policy, p.published)
	for range report.Restarted {
		r.metrics.ConfigChanged(monitoring.KindAppConfig, client.ObjectKeyFromObject(cfg))
	}
	if report.Event != "" {
		r.events.Eventf(cfg, nil, corev1.EventTypeNormal, rollout.EventRestarted, "Reconcile", "%s", report.Event)
	}
	if err != nil {
		return report, fmt.Errorf("restart dependents: %w", err)
	}
	return report, nil
}

// apply writes the desired objects and deletes the others.
func (r *Reconciler) apply(ctx context.Context, cfg *configv1.AppConfig, p plan, found existing) error {
	r.recordWrites(cfg, p)
	if err := r.applier.Apply(ctx, cfg, p.objects...); err != nil {
		return err
	}
	if live := found.live(cfg.Spec.Target.Mode); p.changes && live != nil && live.hash != p.revision.hash {
		r.metrics.AppConfigChanged(client.ObjectKeyFromObject(cfg))
	}
	return r.prune(ctx, cfg, p)
}

// outcome says when to reconcile again. Watched objects need no requeue.
func (r *Reconciler) outcome(ctx context.Context, cfg *configv1.AppConfig, p plan, seen observed) (reconcile.Result, error) {
	if seen.applyErr != nil {
		return reconcile.Result{}, seen.applyErr
	}
	wait, err := r.collect(ctx, cfg, p, seen)
	if err != nil {
		return reconcile.Result{}, err
	}
	if seen.throttled {
		wait = reconciler.Sooner(wait, publishEvery)
	}
	return reconcile.Result{RequeueAfter: reconciler.Sooner(reconciler.Sooner(wait, seen.report.RequeueAfter), r.sources.resync(cfg))}, nil
}

// onDeleted drops the state of an AppConfig and removes its annotations from the workloads that it restarted. If that is not
// possible yet, the engine triggers another reconcile.
func (r *Reconciler) onDeleted(ctx context.Context, key types.NamespacedName) (done bool, err error) {
	done, err = r.engine.Release(ctx, rollout.Owner{Prefix: rollout.ConfigPrefix, Namespace: key.Namespace, Name: key.Name})
	if err != nil {
		return false, fmt.Errorf("take the notes of AppConfig %q from workloads: %w", key.Name, err)
	}
	if done {
		r.wrote.Delete(key)
		r.throttle.forget(key)
	}
	return done, nil
}
