package voteconfig

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	votingv1alpha1 "github.com/fettle-dev/fettle/api/voting/v1alpha1"
	"github.com/fettle-dev/fettle/internal/requeue"
)

// formerFinalizer is set by development versions. Without the operator, it blocked the deletion of VoteConfigs and their namespaces.
const formerFinalizer = "voting.fettle.dev/finalizer"

// release removes the finalizer of development versions, and reports whether vc did not have it.
func (r *Reconciler) release(ctx context.Context, vc *votingv1alpha1.VoteConfig) (bool, error) {
	without := vc.DeepCopy()
	if !controllerutil.RemoveFinalizer(without, formerFinalizer) {
		return true, nil
	}
	patch := client.MergeFromWithOptions(vc, client.MergeFromWithOptimisticLock{})
	err := r.client.Patch(ctx, without, patch, client.FieldOwner(controllerName))
	switch {
	case apierrors.IsConflict(err), apierrors.IsNotFound(err):
		requeue.Request(ctx) // changed or gone since it was read, of which the watch may tell
	case err != nil:
		return false, fmt.Errorf("remove the finalizer: %w", err)
	}
	return false, nil // the watch brings the object without it
}
