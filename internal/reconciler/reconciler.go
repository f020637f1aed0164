// Package reconciler is the generic reconciler of all kinds. It reads the object, calls the controller of the kind, and writes
// the status at most once, if it changed.
package reconciler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/requeue"
)

// Object is a pointer to the Go type of a kind.
type Object[T any] interface {
	*T
	conditions.Object
	DeepCopy() *T
}

// Reconciler is a reconcile.Reconciler of the objects of one kind. ReconcileObject is required.
type Reconciler[T any, O Object[T]] struct {
	Tools

	// ReconcileObject applies the children of obj, which is not being deleted, and sets obj's status in memory. The status is written
	// also if ReconcileObject returns an error.
	ReconcileObject func(ctx context.Context, obj O) (reconcile.Result, error)
	// Finalize deletes what must be deleted before obj, which is being deleted, and removes the finalizer. done says that it did: the status
	// is not written any more. Nil for a kind without a finalizer, whose children are garbage-collected.
	Finalize func(ctx context.Context, obj O) (done bool, result reconcile.Result, err error)
	// OnDeleted drops the controller's state of a deleted object. If it returns false, the event that it waits for triggers another
	// reconcile.
	OnDeleted func(ctx context.Context, key types.NamespacedName) (done bool, err error)

	// Progress are the reasons of Ready that report work in progress: they have no event, and the status that reports them is delayed.
	Progress []string
	// StatusDelay returns how long to wait before the changed status of obj is written; 0 writes it now.
	StatusDelay func(obj, before O) time.Duration

	// Normal are the reasons of Ready, besides Ready, that are no problem.
	Normal []string
	// ReadyNote returns the note of the event of an object that became Ready; "" for no event. The default is the message of Ready.
	ReadyNote func(obj O) string
	// EmitEvents emits other events than that of Ready, for a status that was just written.
	EmitEvents func(obj, before O)
	// Created reports whether obj, which is Ready, was never Ready before.
	Created func(obj, before O) bool
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
	gone, result, err := f.reconcile(ctx, obj)
	err = retryable(ctx, err)
	var wait time.Duration
	if !gone {
		var patchErr error
		wait, patchErr = f.report(ctx, obj, before)
		err = cmp.Or(patchErr, err)
	}
	f.Metrics.Observe(f.Kind, req.NamespacedName, f.Clock.Since(start), err)
	if err != nil {
		return reconcile.Result{}, err
	}
	result.RequeueAfter = Sooner(result.RequeueAfter, wait)
	return result, nil
}

// reconcile reports whether obj has no finalizer of Fettle's any more, and so may be gone.
func (f *Reconciler[T, O]) reconcile(ctx context.Context, obj O) (gone bool, result reconcile.Result, err error) {
	switch {
	case obj.GetDeletionTimestamp() == nil:
		result, err = f.ReconcileObject(ctx, obj)
	case f.Finalize != nil:
		conditions.SetTerminating(obj)
		return f.Finalize(ctx, obj)
	default:
		conditions.SetTerminating(obj) // all that is owned is garbage-collected
	}
	return false, result, err
}

// report writes the status if it changed, and then emits its events and metrics. It returns how long to wait if the status is
// delayed.
func (f *Reconciler[T, O]) report(ctx context.Context, obj, before O) (time.Duration, error) {
	if !apply.SameStatus(obj, before) {
		if wait := f.statusDelay(obj, before); wait > 0 {
			return wait, nil
		}
		if wrote, err := f.Applier.PatchStatus(ctx, obj, before); !wrote {
			return 0, requeue.IfOutdated(ctx, err)
		}
		f.Throttle.Wrote(obj)
		f.announce(obj, before)
	}
	f.Metrics.Ready(f.Kind, client.ObjectKeyFromObject(obj), conditions.ReadyOf(obj).Status == metav1.ConditionTrue)
	return 0, nil
}

func (f *Reconciler[T, O]) statusDelay(obj, before O) time.Duration {
	if f.StatusDelay != nil {
		return f.StatusDelay(obj, before)
	}
	return f.Throttle.Delay(obj, slices.Contains(f.Progress, conditions.ReadyOf(obj).Reason), false)
}

// uneventful are the reasons of Ready that need no event, for every kind.
var uneventful = []string{fettlev1.ReasonReconciling, fettlev1.ReasonPaused, fettlev1.ReasonTerminating}

// announce emits one event for a change of Ready that a person should see, and counts a creation.
func (f *Reconciler[T, O]) announce(obj, before O) {
	if f.EmitEvents != nil {
		f.EmitEvents(obj, before)
	}
	is, was := conditions.ReadyOf(obj), conditions.ReadyOf(before)
	if is.Status == was.Status && is.Reason == was.Reason || slices.Contains(uneventful, is.Reason) || slices.Contains(f.Progress, is.Reason) {
		return
	}
	eventType, note, ready := corev1.EventTypeWarning, is.Message, is.Status == metav1.ConditionTrue
	if ready && (is.Reason == fettlev1.Ready || slices.Contains(f.Normal, is.Reason)) {
		eventType = corev1.EventTypeNormal
		if f.ReadyNote != nil {
			note = f.ReadyNote(obj)
		}
	}
	if note != "" {
		f.Events.Eventf(obj, nil, eventType, is.Reason, "Reconcile", "%s", note)
	}
	if ready && f.Created != nil && f.Created(obj, before) {
		f.Metrics.Created(f.Kind, client.ObjectKeyFromObject(obj), f.Clock.Since(obj.GetCreationTimestamp().Time))
	}
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
