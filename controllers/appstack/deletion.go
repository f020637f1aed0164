package appstack

import (
	"context"
	"fmt"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
	"github.com/fettle-dev/fettle/internal/requeue"
	"github.com/fettle-dev/fettle/internal/stack"
	"github.com/fettle-dev/fettle/internal/stack/server"
)

// deleteRemoved deletes the components that nothing depends on any more. It returns when to look again although nothing happens.
func (r *Reconciler) deleteRemoved(ctx context.Context, s *platformv1.AppStack, removed, children []stack.Child) (time.Duration, error) {
	deletable, next := stack.Deletable(removed, children, r.Clock.Now())
	for _, child := range deletable {
		if err := r.deleteChild(ctx, s, child); err != nil {
			return 0, fmt.Errorf("component %s: %w", child.Component, err)
		}
	}
	return next, nil
}

// deleteChild deletes the objects of a component. The main object stays until the garbage collector has deleted all that it controls, pods
// included: then the components that it depends on are deleted.
func (r *Reconciler) deleteChild(ctx context.Context, s *platformv1.AppStack, child stack.Child) error {
	set, ok := child.Object.(*k8sappsv1.StatefulSet)
	if !ok {
		return r.Applier.PruneForeground(ctx, s, child.Object)
	}
	if child.Kind == stack.KindMySQL {
		if err := r.deleteRetained(ctx, set); err != nil { // before the StatefulSet, which knows that its volume is deleted
			return err
		}
	}
	if err := r.Applier.PruneForeground(ctx, s, set); err != nil {
		return err
	}
	named := metav1.ObjectMeta{Namespace: set.Namespace, Name: set.Name}
	return r.Applier.Prune(ctx, s, &backupv1alpha1.Backup{ObjectMeta: named}, &networkingv1.NetworkPolicy{ObjectMeta: named}, &corev1.Service{ObjectMeta: named},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace, Name: server.SecretName(set.Name)}}) // a cache's: a MySQL's has no owner
}

// finalize deletes the components of an AppStack in order, and then removes its finalizer.
func (r *Reconciler) finalize(ctx context.Context, s *platformv1.AppStack) (done bool, result reconcile.Result, err error) {
	if !controllerutil.ContainsFinalizer(s, stack.Finalizer) {
		return true, reconcile.Result{}, nil
	}
	terminating, err := r.namespaceTerminates(ctx, s.Namespace)
	if err != nil {
		return false, reconcile.Result{}, err
	}
	orphaned := controllerutil.ContainsFinalizer(s, metav1.FinalizerOrphanDependents) // kubectl delete --cascade=orphan
	if terminating || orphaned {                                                      // everything is deleted at once, or nothing is
		return r.removeFinalizer(ctx, s)
	}
	children, current, err := r.children(ctx, s)
	if err != nil || !current {
		return false, reconcile.Result{}, err
	}
	if !anyLeft(children, r.Clock.Now()) {
		return r.removeFinalizer(ctx, s)
	}
	next, err := r.deleteRemoved(ctx, s, children, children)
	setDeleting(s, children)
	return false, reconcile.Result{RequeueAfter: next}, err
}

// anyLeft reports whether a component still exists whose deletion does not take too long.
func anyLeft(children []stack.Child, now time.Time) bool {
	for _, c := range children {
		if deleting := c.Object.GetDeletionTimestamp(); deleting == nil || now.Before(deleting.Add(stack.DeletionTimeout)) {
			return true
		}
	}
	return false
}

func (r *Reconciler) namespaceTerminates(ctx context.Context, name string) (bool, error) {
	namespace := &metav1.PartialObjectMetadata{}
	namespace.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Namespace"))
	if err := r.Client.Get(ctx, client.ObjectKey{Name: name}, namespace); client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("get Namespace: %w", err)
	}
	return namespace.Name == "" || namespace.DeletionTimestamp != nil, nil
}

// removeFinalizer lets the AppStack go. What is left has an owner reference, and is garbage-collected.
func (r *Reconciler) removeFinalizer(ctx context.Context, s *platformv1.AppStack) (bool, reconcile.Result, error) {
	changed := s.DeepCopy()
	controllerutil.RemoveFinalizer(changed, stack.Finalizer)
	patch := client.MergeFromWithOptions(s.DeepCopy(), client.MergeFromWithOptimisticLock{})
	err := r.Client.Patch(ctx, changed, patch, client.FieldOwner(fieldOwner))
	switch {
	case apierrors.IsNotFound(err):
		return true, reconcile.Result{}, nil // another client removed it
	case apierrors.IsConflict(err):
		requeue.Request(ctx)
		return true, reconcile.Result{}, nil
	case err != nil:
		return false, reconcile.Result{}, fmt.Errorf("remove the finalizer of AppStack %q: %w", s.Name, err)
	}
	return true, reconcile.Result{}, nil
}
