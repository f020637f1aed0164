package apply

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cached returns the cached copy of an object, nil if there is none, and whether the cache shows the last write to it. The copy is shared:
// it must not be modified.
func (a *Applier) cached(ctx context.Context, id ObjectID) (client.Object, bool, error) {
	obj, err := a.newObject(id.GroupVersionKind)
	if err != nil {
		return nil, false, err
	}
	var s cacheState
	if a.expectations.pending(id) {
		// Before the copy: if the store is past a version now, so is the copy that Get returns.
		if s.store, err = a.storeVersion(ctx, obj); err != nil {
			return nil, false, err
		}
	}
	err = a.cache.Get(ctx, id.NamespacedName, obj, client.UnsafeDisableDeepCopy)
	if apierrors.IsNotFound(err) {
		return nil, a.expectations.current(id, s), nil
	}
	if err != nil {
		return nil, false, fmt.Errorf("read from cache: %w", err)
	}
	s.uid, s.version = obj.GetUID(), obj.GetResourceVersion()
	return obj, a.expectations.current(id, s), nil
}

// Get reads obj by namespace and name from the cache, for controllers whose decisions depend on the contents of a child. found is false if
// the object does not exist, whoever owns it. current is false while the cache does not show the last write to it. The controller then
// returns without an error, because the watch will wake it.
func (a *Applier) Get(ctx context.Context, obj client.Object) (found, current bool, err error) {
	id, err := a.idOf(obj)
	if err != nil {
		return false, false, err
	}
	live, current, err := a.cached(ctx, id)
	if err != nil || live == nil {
		return false, current, err
	}
	// The same copy or a newer one: a current copy does not become outdated.
	if err := a.cache.Get(ctx, client.ObjectKeyFromObject(obj), obj); err != nil {
		return false, current, client.IgnoreNotFound(err)
	}
	return true, current, nil
}

// CacheCurrent reports whether the cache shows every object that Apply, Create or PatchStatus wrote for owner. A controller that lists its
// children returns without an error while it does not, because the watch will wake it.
func (a *Applier) CacheCurrent(ctx context.Context, owner client.Object) (bool, error) {
	for _, id := range a.expectations.Recent(client.ObjectKeyFromObject(owner)) {
		if _, current, err := a.cached(ctx, id); err != nil || !current {
			return false, err
		}
	}
	return true, nil
}

// newObject returns an empty object of the kind, in the form in which controllers watch it.
func (a *Applier) newObject(gvk schema.GroupVersionKind) (client.Object, error) {
	if !a.scheme.Recognizes(gvk) {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(gvk)
		return u, nil
	}
	obj, err := a.scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	o, ok := obj.(client.Object)
	if !ok {
		return nil, fmt.Errorf("%s is not the kind of an object", gvk)
	}
	return o, nil
}

// storeVersion returns the version of the cache's store for obj's kind, "" if unknown. A cache that is limited to several namespaces does
// not report a version. Neither does one that reads the kind from the API server each time because watches are forbidden.
func (a *Applier) storeVersion(ctx context.Context, obj client.Object) (string, error) {
	informer, err := a.cache.GetInformer(ctx, obj)
	if apierrors.IsForbidden(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("informer: %w", err)
	}
	if i, ok := informer.(interface{ GetIndexer() toolscache.Indexer }); ok {
		return i.GetIndexer().LastStoreSyncResourceVersion(), nil
	}
	return "", nil
}

// conflictingObject reads, from the API server, the metadata of an object that exists but is not in the cache. It returns nil if the object
// is deleted or about to be deleted, and a ConflictError if o does not control it.
func (a *Applier) conflictingObject(
	ctx context.Context, o ownerRef, gvk schema.GroupVersionKind, name types.NamespacedName,
) (*metav1.PartialObjectMetadata, error) {
	live := &metav1.PartialObjectMetadata{}
	live.SetGroupVersionKind(gvk)
	err := a.live.Get(ctx, name, live)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil // not found is a valid result
	case err != nil:
		return nil, fmt.Errorf("read owner of %s %q: %w", gvk.Kind, name.Name, err)
	case o.isFormerOwners(live):
		return nil, nil // about to be deleted
	case !o.controls(live):
		return nil, o.conflict(gvk, live)
	}
	return live, nil
}

// isGone reports whether a missing child was deleted with its owner. The cache may not show the deletion of the owner yet, and what a
// re-created child leads to, such as the volumes of a StatefulSet, would be left over.
func (a *Applier) isGone(ctx context.Context, o ownerRef) (bool, error) {
	if !o.reconciled {
		return false, nil
	}
	owner := &metav1.PartialObjectMetadata{}
	owner.SetGroupVersionKind(o.gvk)
	err := a.live.Get(ctx, o.name, owner)
	switch {
	case apierrors.IsNotFound(err):
		return true, nil // not found is a valid result
	case err != nil:
		return false, fmt.Errorf("read owner %s %q: %w", o.gvk.Kind, o.name.Name, err)
	}
	return owner.UID != o.uid, nil
}

// typeOf returns the type of a kind, read once.
func (a *Applier) typeOf(gvk schema.GroupVersionKind) (objectType, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if t, ok := a.types[gvk]; ok {
		return t, nil
	}
	obj, err := a.newObject(gvk)
	if err != nil {
		return objectType{}, err
	}
	t, err := typeOf(gvk, obj)
	if err == nil {
		a.types[gvk] = t
	}
	return t, err
}
