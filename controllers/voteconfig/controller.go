// Package voteconfig publishes the options of a VoteConfig in a ConfigMap, and restarts the workloads that use it.
//
// It owns the ConfigMap. The workloads have other owners: internal/rollout reads and restarts them. It leaves annotations on them,
// which are removed after the VoteConfig is deleted.
package voteconfig

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	votingv1alpha1 "github.com/fettle-dev/fettle/api/voting/v1alpha1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/monitoring"
	"github.com/fettle-dev/fettle/internal/reconciler"
	"github.com/fettle-dev/fettle/internal/rollout"
)

const controllerName = "voteconfig"

// +kubebuilder:rbac:groups=voting.fettle.dev,resources=voteconfigs,verbs=get;list;watch
// +kubebuilder:rbac:groups=voting.fettle.dev,resources=voteconfigs/status,verbs=patch
// +kubebuilder:rbac:groups=voting.fettle.dev,resources=voteconfigs/finalizers,verbs=update
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=apps,resources=deployments;statefulsets;daemonsets,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options of the controller.
type Options struct {
	reconciler.Options
	// Engine restarts the workloads.
	Engine *rollout.Engine
}

// Reconciler reconciles VoteConfigs.
type Reconciler struct {
	reconciler.Tools
	engine *rollout.Engine
}

// Setup registers the controller with the manager.
func Setup(mgr ctrl.Manager, opts Options) error {
	tools, err := reconciler.New(mgr, monitoring.KindVoteConfig, &votingv1alpha1.VoteConfigList{}, opts.Options, indexes...)
	if err != nil {
		return err
	}
	r := &Reconciler{Tools: tools, engine: opts.Engine}
	kind := &reconciler.Reconciler[votingv1alpha1.VoteConfig, *votingv1alpha1.VoteConfig]{
		Tools: tools, ReconcileObject: r.reconcile, OnDeleted: r.onDeleted, Progress: progress, ReadyNote: readyNote, Created: created,
	}
	_, err = kind.Setup(mgr, r.watch)
	return err
}

func (r *Reconciler) reconcile(ctx context.Context, vc *votingv1alpha1.VoteConfig) (reconcile.Result, error) {
	r.engine.BeginReconcile(owner(vc))
	if vc.Spec.Paused {
		setPaused(vc)
		return reconcile.Result{}, nil
	}
	live, publishErr := r.publish(ctx, vc)
	switch {
	case apply.Transient(publishErr), publishErr == nil && live == nil:
		return reconcile.Result{}, publishErr // or the watch brings what was written
	case publishErr != nil:
		setPublishFailed(vc, publishErr)
		return reconcile.Result{}, publishErr
	}
	report, err := r.engine.Roll(ctx, owner(vc), policy(vc), []rollout.Object{object(vc, live)})
	r.Restarted(vc, report.Restarted, report.Event)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("restart what uses ConfigMap %q: %w", live.Name, err)
	}
	hidden, err := r.hidden(ctx, vc, report)
	if err != nil {
		return reconcile.Result{}, err
	}
	setStatus(vc, live, report, hidden)
	return reconcile.Result{RequeueAfter: report.RequeueAfter}, nil
}

// onDeleted removes the annotations of a deleted VoteConfig from the workloads that it restarted. The ConfigMap is deleted by its
// owner reference. There is no finalizer: annotations that stay while Fettle does not run have no effect, and are removed when it
// runs.
func (r *Reconciler) onDeleted(ctx context.Context, key types.NamespacedName) (done bool, err error) {
	done, err = r.engine.Release(ctx, rollout.Owner{Prefix: rollout.VotingPrefix, Namespace: key.Namespace, Name: key.Name})
	if err != nil {
		return false, fmt.Errorf("take the notes of VoteConfig %q from workloads: %w", key.Name, err)
	}
	return done, nil
}

// publish applies the ConfigMap and returns it; nil if the cache does not show it yet. The engine records what runs with the ConfigMap
// before it changes.
func (r *Reconciler) publish(ctx context.Context, vc *votingv1alpha1.VoteConfig) (*corev1.ConfigMap, error) {
	live, current, err := r.look(ctx, vc)
	if err != nil || !current {
		return nil, err
	}
	data, operation := published(&vc.Spec), "updated"
	if live == nil {
		operation = "created"
	}
	differs := live == nil || changes(live, data)
	if differs {
		if ok, err := r.engine.RecordBaseline(ctx, owner(vc), policy(vc), []rollout.Object{object(vc, live)}); err != nil || !ok {
			return nil, err // or the watch triggers the next reconcile
		}
	}
	if err := r.Applier.Apply(ctx, vc, configMap(vc, data, live, r.Clock.Now())); err != nil {
		return nil, err
	}
	live, current, err = r.look(ctx, vc)
	if err != nil {
		return nil, err
	}
	settled := current && holds(live, data)
	if differs && (settled || !current) {
		log.FromContext(ctx).Info("ConfigMap reconciled", "configMap", configMapName(vc), "operation", operation)
	}
	if !settled {
		return nil, nil // the watch triggers the next reconcile, also when it is being deleted
	}
	return live, nil
}

// look returns the VoteConfig's ConfigMap from the cache, nil if there is none of its own, and whether the cache shows the last
// write to it.
func (r *Reconciler) look(ctx context.Context, vc *votingv1alpha1.VoteConfig) (*corev1.ConfigMap, bool, error) {
	live := &corev1.ConfigMap{}
	live.Namespace, live.Name = vc.Namespace, configMapName(vc)
	found, current, err := r.Applier.Get(ctx, live)
	if err != nil {
		return nil, false, fmt.Errorf("get ConfigMap %q: %w", configMapName(vc), err)
	}
	if !found || !owned(vc, live) {
		return nil, current, nil
	}
	return live, current, nil
}

// hidden says which options a dependent does not show; "" if all show all.
func (r *Reconciler) hidden(ctx context.Context, vc *votingv1alpha1.VoteConfig, report rollout.Report) (string, error) {
	ids := unsupportedOptions(vc.Spec.Options)
	if len(ids) == 0 {
		return "", nil
	}
	for _, d := range report.Dependents {
		images, err := r.engine.Images(ctx, vc.Namespace, d)
		if err != nil {
			return "", fmt.Errorf("read the images of what uses ConfigMap %q: %w", configMapName(vc), err)
		}
		if text := hiddenOptions(ids, d, images); text != "" {
			return text, nil
		}
	}
	return "", nil
}
