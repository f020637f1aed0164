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

// Current reports whether obj, a copy from the cache, is at least as new as this Applier's last write to it. A controller returns
// immediately, without an error, if its object is not current: the watch will wake it.
func (a *Applier) Current(obj client.Object) bool {
	id, err := a.idOf(obj)
	return err != nil || a.expectations.Current(id, obj.GetUID(), obj.GetResourceVersion()) // of another kind: never written
}

// PatchStatus writes obj's status if it differs from before's. It sends one merge patch, which fails with a conflict if the object has
// changed since before was read, and reports whether it wrote. obj then holds the API server's response.
func (a *Applier) PatchStatus(ctx context.Context, obj, before client.Object) (bool, error) {
	id, err := a.idOf(obj)
	if err != nil {
		return false, fmt.Errorf("patch status of %q: %w", obj.GetName(), err)
	}
	if SameStatus(obj, before) {
		return false, nil
	}
	patch, err := statusPatch(obj, before)
	if err != nil {
		return false, fmt.Errorf("compare status of %s %q: %w", id.Kind, id.Name, err)
	}
	if patch == nil {
		return false, nil
	}
	if err := a.client.Status().Patch(ctx, obj, patch, client.FieldOwner(a.fieldOwner)); err != nil {
		return false, fmt.Errorf("patch status of %s %q: %w", id.Kind, id.Name, err)
	}
	a.expectations.Wrote(id.NamespacedName, id, obj.GetUID(), obj.GetResourceVersion())
	return true, nil
}

// SameStatus reports whether the two are known to have the same status. It is much faster than computing a patch, which decides if they are
// not.
func SameStatus(obj, before client.Object) bool {
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

// statusPatch returns the merge patch from before's status to obj's, for before's version of the object; nil if they are equal. It contains
// no other field, because some kinds let labels change with the status.
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
		return nil, nil // nil means no change
	}
	patch.Metadata.ResourceVersion = before.GetResourceVersion()
	if raw, err = json.Marshal(patch); err != nil {
		return nil, err
	}
	return client.RawPatch(types.MergePatchType, raw), nil
}

func (a *Applier) idOf(obj client.Object) (ObjectID, error) {
	gvk, err := apiutil.GVKForObject(obj, a.scheme)
	if err != nil {
		return ObjectID{}, err
	}
	return ObjectID{gvk, client.ObjectKeyFromObject(obj)}, nil
}
