package voteconfig

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	votingv1alpha1 "github.com/fettle-dev/fettle/api/voting/v1alpha1"
	"github.com/fettle-dev/fettle/internal/recheck"
)

const (
	// finalizer lets the notes on workloads of others be taken away before the VoteConfig goes.
	finalizer = "voting.fettle.dev/finalizer"
	// patience is how long a deletion waits for that: notes that stay behind do no harm, an object that never goes does.
	patience = time.Minute
)

// hold sets the finalizer, and reports whether it was there already. Nothing is written on workloads before.
func (r *reconciler) hold(ctx context.Context, vc *votingv1alpha1.VoteConfig) (bool, error) {
	if controllerutil.ContainsFinalizer(vc, finalizer) {
		return true, nil
	}
	with := vc.DeepCopy()
	controllerutil.AddFinalizer(with, finalizer)
	if err := r.patchFinalizers(ctx, with, vc); err != nil {
		return false, fmt.Errorf("set the finalizer: %w", err)
	}
	return false, nil // the watch brings it
}

// finalize takes away what Fettle wrote on workloads, and then the finalizer. What can't be taken away is left behind after a
// while.
func (r *reconciler) finalize(ctx context.Context, vc *votingv1alpha1.VoteConfig) (reconcile.Result, error) {
	if !controllerutil.ContainsFinalizer(vc, finalizer) {
		setTerminating(vc) // somebody else's finalizer is waited for
		return reconcile.Result{}, nil
	}
	done, err := r.engine.Release(ctx, owner(vc))
	late := r.clock.Since(vc.DeletionTimestamp.Time) >= patience
	switch {
	case (err != nil || !done) && late:
		log.FromContext(ctx).Error(err, "workloads keep annotations of this VoteConfig, which do no harm", "waited", patience)
	case err != nil:
		setTerminating(vc)
		return reconcile.Result{}, fmt.Errorf("remove the annotations from workloads: %w", err)
	case !done:
		return reconcile.Result{}, nil // the engine has the pass repeated
	}
	without := vc.DeepCopy()
	controllerutil.RemoveFinalizer(without, finalizer)
	if err := r.patchFinalizers(ctx, without, vc); err != nil {
		return reconcile.Result{}, fmt.Errorf("remove the finalizer: %w", err)
	}
	return reconcile.Result{}, nil
}

// patchFinalizers writes obj's finalizers in the place of before's. An object that was changed or is gone meanwhile is left to
// the next pass.
func (r *reconciler) patchFinalizers(ctx context.Context, obj, before *votingv1alpha1.VoteConfig) error {
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	err := r.client.Patch(ctx, obj, patch, client.FieldOwner(controllerName))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		recheck.Ask(ctx)
		return nil
	}
	return err
}
