package apply

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-dev/fettle/internal/requeue"
)

// Create creates obj, controlled by owner, if it does not exist. Use it for objects that must not be written twice, such as password
// Secrets, Jobs and ControllerRevisions. It never updates. An existing object that owner does not control is a [ConflictError]. obj gets
// the owner reference, and after a creation the API server's response.
func (a *Applier) Create(ctx context.Context, owner, obj client.Object) error {
	o, err := ownerOf(owner, a.scheme)
	if err != nil {
		return err
	}
	id, err := a.idOf(obj)
	if err != nil {
		return fmt.Errorf("create %q: %w", obj.GetName(), err)
	}
	if err := o.check(id.GroupVersionKind, id.NamespacedName); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	live, current, err := a.cached(ctx, id)
	switch {
	case err != nil:
		return fmt.Errorf("create %s %q: %w", id.Kind, id.Name, err)
	case !current, live != nil && o.isFormerOwners(live):
		return nil
	case live != nil && !o.controls(live):
		return o.conflict(id.GroupVersionKind, live)
	case live != nil:
		return nil
	}
	if !o.adopt(obj) {
		return fmt.Errorf("create %s %q: already has another controller", id.Kind, id.Name)
	}
	return a.createOnce(ctx, o, id, obj)
}

// createOnce creates obj, which the cache does not hold.
func (a *Applier) createOnce(ctx context.Context, o ownerRef, id ObjectID, obj client.Object) error {
	err := a.client.Create(ctx, obj, client.FieldOwner(a.fieldOwner))
	if err == nil {
		a.expectations.Wrote(o.name, id, obj.GetUID(), obj.GetResourceVersion())
		return nil
	}
	if apierrors.IsAlreadyExists(err) {
		live, readErr := a.conflictingObject(ctx, o, id.GroupVersionKind, id.NamespacedName)
		if readErr != nil {
			return readErr
		}
		if live != nil {
			a.expectations.Wrote(o.name, id, live.UID, live.ResourceVersion)
			return nil
		} // else deleted again: retry
	}
	return &WriteError{Verb: "create", GVK: id.GroupVersionKind, Namespace: id.Namespace, Name: id.Name, Err: err}
}

// Prune deletes the named objects if they exist, are controlled by owner and have not changed since the cached copy. objs carry only type,
// namespace and name, typed or unstructured. With labels, Prune also deletes an object that Apply labelled so and that has lost its owner
// reference. An object that the cache does not hold, or whose kind the API server does not serve, costs no request.
func (a *Applier) Prune(ctx context.Context, owner client.Object, objs ...client.Object) error {
	return a.prune(ctx, owner, metav1.DeletePropagationBackground, objs) // the default for Jobs leaves their Pods behind
}

// PruneForeground is Prune for objects that are to exist until the garbage collector has deleted all that they control.
func (a *Applier) PruneForeground(ctx context.Context, owner client.Object, objs ...client.Object) error {
	return a.prune(ctx, owner, metav1.DeletePropagationForeground, objs)
}

func (a *Applier) prune(ctx context.Context, owner client.Object, propagation metav1.DeletionPropagation, objs []client.Object) error {
	o, err := ownerOf(owner, a.scheme)
	if err != nil {
		return err
	}
	for _, obj := range objs {
		if err := a.pruneOne(ctx, o, obj, propagation); err != nil {
			return err
		}
	}
	return nil
}

func (a *Applier) pruneOne(ctx context.Context, o ownerRef, obj client.Object, propagation metav1.DeletionPropagation) error {
	id, err := a.idOf(obj)
	if err != nil {
		return fmt.Errorf("delete %q: %w", obj.GetName(), err)
	}
	live, current, err := a.cached(ctx, id)
	switch {
	case meta.IsNoMatchError(err):
		return nil
	case err != nil:
		return fmt.Errorf("delete %s %q: %w", id.Kind, id.Name, err)
	case live == nil || !current || live.GetDeletionTimestamp() != nil, !o.controls(live) && !isOrphan(live, obj.GetLabels()):
		return nil
	}
	uid := live.GetUID()
	version := live.GetResourceVersion()
	target := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: id.Namespace, Name: id.Name}}
	target.SetGroupVersionKind(id.GroupVersionKind)
	err = a.client.Delete(ctx, target,
		client.Preconditions{UID: &uid, ResourceVersion: &version},
		client.PropagationPolicy(propagation))
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		requeue.Request(ctx) // deleted or changed; the watch may not report it
		return nil
	case err != nil:
		return &WriteError{Verb: "delete", GVK: id.GroupVersionKind, Namespace: id.Namespace, Name: id.Name, Err: err}
	}
	a.expectations.deleted(id, uid)
	return nil
}
