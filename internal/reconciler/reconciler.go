// Package reconciler is the generic reconciler of all kinds. It reads the object, calls the controller of the kind, and writes
// the status at most once, if it changed.
package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/monitoring"
	"github.com/fettle-dev/fettle/internal/requeue"
)

// Object is a pointer to the Go type of a kind.
type Object[T any] interface {
	*T
	client.Object
	DeepCopy() *T
}

// Reconciler is a reconcile.Reconciler of the objects of one kind. Only Metrics and OnDeleted may be nil.
type Reconciler[T any, O Object[T]] struct {
	// Kind is the name of the kind in metrics and errors.
	Kind     string
	Client   client.Reader
	Applier  *apply.Applier
	Throttle *conditions.StatusThrottle
	Clock    clock.PassiveClock
	Metrics  *monitoring.Metrics

	// ReconcileObject applies the children of obj and sets obj's status in memory. The status is written also if ReconcileObject
	// returns an error.
	ReconcileObject func(ctx context.Context, obj O) (reconcile.Result, error)
	// Status returns obj's status, and whether obj is Ready.
	Status func(obj O) (status any, ready bool)
	// StatusDelay returns how long to wait before the changed status of obj is written; 0 writes it now.
	StatusDelay func(obj, before O) time.Duration
	// EmitEvents emits the events of a status that was just written.
	EmitEvents func(obj, before O)
	// OnDeleted drops the controller's state of a deleted object. If it returns false, the event that it waits for triggers another
	// reconcile.
	OnDeleted func(ctx context.Context, key types.NamespacedName) (done bool, err error)
}

// Reconcile implements reconcile.Reconciler.
func (f *Reconciler[T, O]) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	obj := O(new(T))
	if err := f.Client.Get(ctx, req.NamespacedName, obj); apierrors.IsNotFound(err) {
		return reconcile.Result{}, f.forget(ctx, req.NamespacedName)
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("get %s: %w", f.Kind, err)
	}
	if !f.Applier.Current(obj) {
		return reconcile.Result{}, nil // the watch brings what was last written
	}
	start, before := f.Clock.Now(), O(obj.DeepCopy())
	result, err := f.ReconcileObject(ctx, obj)
	err = retryable(ctx, err)
	wait, patchErr := f.report(ctx, obj, before)
	err = cmp.Or(patchErr, err)
	f.Metrics.Observe(f.Kind, req.NamespacedName, f.Clock.Since(start), err)
	if err != nil {
		return reconcile.Result{}, err
	}
	result.RequeueAfter = Sooner(result.RequeueAfter, wait)
	return result, nil
}

// report writes the status if it changed, and then emits its events and metrics. It returns how long to wait if the status is
// delayed.
func (f *Reconciler[T, O]) report(ctx context.Context, obj, before O) (time.Duration, error) {
	is, ready := f.Status(obj)
	was, _ := f.Status(before)
	if !equality.Semantic.DeepEqual(is, was) {
		if wait := f.StatusDelay(obj, before); wait > 0 {
			return wait, nil
		}
		wrote, err := f.Applier.PatchStatus(ctx, obj, before)
		switch {
		case apierrors.IsConflict(err), apierrors.IsNotFound(err):
			requeue.Request(ctx) // changed or gone since it was read, of which the watch may tell
			return 0, nil
		case err != nil:
			return 0, err
		case !wrote:
			return 0, nil
		}
		f.Throttle.Wrote(obj)
		f.EmitEvents(obj, before)
	}
	f.Metrics.Ready(f.Kind, client.ObjectKeyFromObject(obj), ready)
	return 0, nil
}

// retryable returns err, except for an error that only another client can resolve: an object with the name of a child, which is
// checked again later, or a namespace that is being deleted.
func retryable(ctx context.Context, err error) error {
	if _, conflict := errors.AsType[*apply.ConflictError](err); conflict {
		requeue.Request(ctx)
		return nil
	}
	if apply.NamespaceTerminates(err) {
		return nil
	}
	return err
}

func (f *Reconciler[T, O]) forget(ctx context.Context, key types.NamespacedName) error {
	if f.OnDeleted != nil {
		if done, err := f.OnDeleted(ctx, key); err != nil || !done {
			return err
		}
	}
	f.Applier.Forget(key)
	f.Metrics.Forget(f.Kind, key)
	return nil
}

// Sooner returns the shorter of two waiting times, where 0 is never.
func Sooner(a, b time.Duration) time.Duration {
	if a == 0 || b == 0 {
		return max(a, b)
	}
	return min(a, b)
}
