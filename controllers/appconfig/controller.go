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
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/digest"
	"github.com/fettle-dev/fettle/internal/monitoring"
	"github.com/fettle-dev/fettle/internal/reconciler"
	"github.com/fettle-dev/fettle/internal/requeue"
	"github.com/fettle-dev/fettle/internal/rollout"
)

const (
	controllerName = "appconfig"
	// cacheWait is when to check the published objects again if no event comes.
	cacheWait = time.Second
)

// +kubebuilder:rbac:groups=config.fettle.dev,resources=appconfigs,verbs=get;list;watch
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
	reconciler.Options
	// Engine restarts dependents.
	Engine *rollout.Engine
	// Keys has the key of digests.
	Keys *digest.Keyring
}

// Reconciler reconciles AppConfigs.
type Reconciler struct {
	reconciler.Tools
	engine      *rollout.Engine
	sources     *sourceReader
	digests     *digest.Keyring
	renderCache *renderCache
	// throttle limits an AppConfig whose contents keep changing.
	throttle throttle
}

// Setup registers the controller with the manager.
func Setup(mgr ctrl.Manager, opts Options) error {
	tools, err := reconciler.New(mgr, monitoring.KindAppConfig, &configv1.AppConfigList{}, opts.Options, indexes...)
	if err != nil {
		return err
	}
	r := &Reconciler{
		Tools: tools, engine: opts.Engine, sources: newSourceReader(mgr, opts.WatchSecrets), digests: opts.Keys, renderCache: newRenderCache(),
	}
	kind := &reconciler.Reconciler[configv1.AppConfig, *configv1.AppConfig]{
		Tools: tools, ReconcileObject: r.reconcile, OnDeleted: r.onDeleted, Progress: progress, StatusDelay: r.statusDelay,
		Normal: []string{configv1.ReasonPreview}, ReadyNote: readyNote, EmitEvents: r.emitEvents, Created: created,
	}
	_, err = kind.Setup(mgr, r.watch)
	return err
}

func (r *Reconciler) reconcile(ctx context.Context, cfg *configv1.AppConfig) (reconcile.Result, error) {
	if cfg.Spec.Paused {
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
	p := desired(cfg, choose(cfg, out, found), found, r.Clock.Now())
	policy, policyErr := policyOf(cfg)
	if adopted, err := r.adopt(ctx, cfg, policy, p, found); err != nil || !adopted {
		return reconcile.Result{}, err
	}
	key, now := client.ObjectKeyFromObject(cfg), r.Clock.Now()
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
	r.Restarted(cfg, report.Restarted, report.Event)
	if err != nil {
		return report, fmt.Errorf("restart dependents: %w", err)
	}
	return report, nil
}

// apply writes the desired objects and deletes the others.
func (r *Reconciler) apply(ctx context.Context, cfg *configv1.AppConfig, p plan, found existing) error {
	if err := r.Applier.Apply(ctx, cfg, p.objects...); err != nil {
		return err
	}
	if live := found.live(cfg.Spec.Target.Mode); p.changes && live != nil && live.hash != p.revision.hash {
		r.Metrics.AppConfigChanged(client.ObjectKeyFromObject(cfg))
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
		r.throttle.forget(key)
	}
	return done, nil
}
