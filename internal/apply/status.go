package apply

import (
	"context"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Current reports whether obj, a copy from the cache, is at least as new as the last write that
// this Applier made to it. A controller returns at once, without an error, when its object is
// not current: the watch will wake it.
func (a *Applier) Current(obj client.Object) bool {
	id, err := a.idOf(obj)
	if err != nil {
		return true // never written by this Applier
	}
	return a.expectations.current(id, cacheState{uid: obj.GetUID(), version: obj.GetResourceVersion()})
}

// PatchStatus writes obj's status if it differs from before's, in one merge patch that fails
// with a conflict when the object has changed since before was read, and reports whether it
// wrote. obj then holds the API server's answer.
func (a *Applier) PatchStatus(ctx context.Context, obj, before client.Object) (bool, error) {
	id, err := a.idOf(obj)
	if err != nil {
		return false, fmt.Errorf("patch the status of %q: %w", obj.GetName(), err)
	}
	if sameStatus(obj, before) {
		return false, nil
	}
	patch, err := statusPatch(obj, before)
	if err != nil {
		return false, fmt.Errorf("compare the status of %s %q: %w", id.kind.Kind, id.name.Name, err)
	}
	if patch == nil {
		return false, nil
	}
	if err := a.client.Status().Patch(ctx, obj, patch, client.FieldOwner(a.fieldOwner)); err != nil {
		return false, fmt.Errorf("patch the status of %s %q: %w", id.kind.Kind, id.name.Name, err)
	}
	a.expectations.wrote(id.name, id, obj.GetUID(), obj.GetResourceVersion())
	return true, nil
}

// sameStatus reports whether the two are known to have the same status. It takes a fraction of
// the time of making a patch, which decides when they are not.
func sameStatus(obj, before client.Object) bool {
	statusOf := func(o client.Object) (value.Value, bool) {
		v, err := valueOf(o)
		if err != nil || !v.IsMap() {
			return nil, false
		}
		return v.AsMap().Get("status")
	}
	a, ok := statusOf(obj)
	b, okBefore := statusOf(before)
	return ok && okBefore && value.Equals(a, b)
}

// statusPatch returns the merge patch that makes before's status obj's, for before's version of
// the object only; nil when they are equal. It has nothing else in it: some kinds let labels
// change with the status.
func statusPatch(obj, before client.Object) (client.Patch, error) {
	raw, err := client.MergeFrom(before).Data(obj)
	if err != nil {
		return nil, err
	}
	var patch struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Status json.RawMessage `json:"status,omitempty"`
	}
	if err := json.Unmarshal(raw, &patch); err != nil {
		return nil, err
	}
	if patch.Status == nil {
		return nil, nil // nothing to write is an answer
	}
	patch.Metadata.ResourceVersion = before.GetResourceVersion()
	if raw, err = json.Marshal(patch); err != nil {
		return nil, err
	}
	return client.RawPatch(types.MergePatchType, raw), nil
}

// Forget drops what is remembered about the objects of an owner that is gone. Not calling it
// does no harm: what is remembered is bounded in time and number.
func (a *Applier) Forget(owner client.ObjectKey) {
	a.expectations.forget(owner)
}

func (a *Applier) idOf(obj client.Object) (objectID, error) {
	gvk, err := apiutil.GVKForObject(obj, a.scheme)
	if err != nil {
		return objectID{}, err
	}
	return objectID{kind: gvk.GroupKind(), name: client.ObjectKeyFromObject(obj)}, nil
}
