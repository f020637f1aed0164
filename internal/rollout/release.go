package rollout

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/requeue"
)

// ownersIn returns the names of the owners of records.
func ownersIn(records map[string]string, prefix string) []string {
	var owners []string
	for _, key := range slices.Sorted(maps.Keys(records)) {
		if name, ok := strings.CutPrefix(key, prefix+"/"); ok && key != UsesAnnotation {
			owners = append(owners, strings.TrimSuffix(name, "_"))
		}
	}
	return owners
}

// Release removes the owner's records from all workloads and keeps their pod templates. It does nothing in a namespace that is being
// deleted. It returns false if it must be called again, because the cache is behind or a workload differs from the cache. It then requests
// a requeue.
func (e *Engine) Release(ctx context.Context, owner Owner) (bool, error) {
	e.drift.forget(owner)
	gone, err := e.terminating(ctx, owner.Namespace)
	if gone || err != nil {
		return gone, err
	}
	found := map[apply.ObjectID]*Workload{}
	if err := e.workloads.list(ctx, owner.Namespace, client.MatchingFields{indexUsed: owner.annotation()}, found); err != nil {
		return false, err
	}
	done, err := e.caughtUp(ctx, owner)
	if err != nil {
		return false, err
	}
	for _, w := range slices.SortedFunc(maps.Values(found), compareWorkloads) {
		err := e.merge(ctx, owner, w, map[string]any{"metadata": map[string]any{
			"uid": w.UID, "annotations": map[string]any{owner.annotation(): nil},
		}})
		switch {
		case err == nil, apply.Rejected(err):
		case stale(err):
			done = false
		default:
			return false, fmt.Errorf("remove record: %w", err)
		}
	}
	if !done {
		requeue.Request(ctx)
	}
	return done, nil
}

// caughtUp reports whether the cache shows all recent writes.
func (e *Engine) caughtUp(ctx context.Context, owner Owner) (bool, error) {
	for _, id := range e.expectations.Recent(types.NamespacedName{Namespace: owner.Namespace}) {
		w, err := e.workloads.get(ctx, id)
		if err != nil {
			return false, err
		}
		if w != nil && e.cacheBehind(w) {
			return false, nil
		}
	}
	return true, nil
}

// terminating reports whether a namespace is being deleted or does not exist.
func (e *Engine) terminating(ctx context.Context, name string) (bool, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	err := e.client.Get(ctx, client.ObjectKey{Name: name}, namespace)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("get namespace %q: %w", name, err)
	}
	return namespace.DeletionTimestamp != nil, nil
}
