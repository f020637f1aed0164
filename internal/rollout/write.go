package rollout

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// stale reports whether the live workload differs from the evaluated one. The watch may not report the change, so callers request a
// requeue.
func stale(err error) bool { return apierrors.IsConflict(err) || apierrors.IsNotFound(err) }

type annotations map[string]string

// writeRecord writes the record alone, for the evaluated version of w.
func (e *Engine) writeRecord(ctx context.Context, owner Owner, w *Workload, n record) error {
	return e.merge(ctx, owner, w, map[string]any{"metadata": map[string]any{
		"resourceVersion": w.ResourceVersion, "annotations": annotations{owner.annotation(): n.String()},
	}})
}

// restart writes the record and the template's annotation, for the evaluated version of w.
func (e *Engine) restart(ctx context.Context, owner Owner, w *Workload, a action) error {
	if len(a.renames) > 0 {
		return e.restartWithRenames(ctx, owner, w, a)
	}
	key := owner.annotation()
	return e.merge(ctx, owner, w, map[string]any{
		"metadata": map[string]any{
			"resourceVersion": w.ResourceVersion, "annotations": annotations{key: a.record.String()},
		},
		"spec": map[string]any{"template": map[string]any{"metadata": map[string]any{"annotations": annotations{key: a.record.Hash}}}},
	})
}

func (e *Engine) merge(ctx context.Context, owner Owner, w *Workload, patch map[string]any) error {
	raw, err := json.Marshal(patch)
	if err != nil {
		return fmt.Errorf("patch of %s: %w", w, err)
	}
	return e.send(ctx, owner, w, client.RawPatch(types.MergePatchType, raw))
}

// restartWithRenames also renames the references. The cache does not hold the template: the patch replaces it as the API server has it.
func (e *Engine) restartWithRenames(ctx context.Context, owner Owner, w *Workload, a action) error {
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(k8sappsv1.SchemeGroupVersion.WithKind(w.Kind))
	if err := e.live.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: w.Name}, live); err != nil {
		return fmt.Errorf("read %s: %w", w, err)
	}
	if live.GetResourceVersion() != w.ResourceVersion || live.GetUID() != w.UID {
		return apierrors.NewConflict(k8sappsv1.Resource(w.Kind), w.Name, fmt.Errorf("the workload has changed since it was evaluated"))
	}
	raw, err := patchWithRenames(live, owner.annotation(), a)
	if err != nil {
		return fmt.Errorf("patch of %s: %w", w, err)
	}
	return e.send(ctx, owner, w, client.RawPatch(types.JSONPatchType, raw))
}

// patchWithRenames returns the JSON patch (RFC 6902) of live, which it changes.
func patchWithRenames(live *unstructured.Unstructured, key string, a action) ([]byte, error) {
	version := live.GetResourceVersion()
	if err := unstructured.SetNestedField(live.Object, a.record.String(), "metadata", "annotations", key); err != nil {
		return nil, err
	}
	if err := unstructured.SetNestedField(live.Object, a.record.Hash, "spec", "template", "metadata", "annotations", key); err != nil {
		return nil, err
	}
	template, _, err := unstructured.NestedFieldNoCopy(live.Object, "spec", "template")
	if err != nil {
		return nil, err
	}
	Rename(template, func(kind, name string) string { return cmp.Or(a.renames[rename{kind, name}], name) })
	return json.Marshal([]struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value"`
	}{
		// Not a test operation: the API server reports a failed test as an invalid request, not as a conflict.
		{"replace", "/metadata/resourceVersion", version},
		{"add", "/metadata/annotations", live.GetAnnotations()},
		{"replace", "/spec/template", template},
	})
}

// send patches w and remembers the write.
func (e *Engine) send(ctx context.Context, owner Owner, w *Workload, patch client.Patch) error {
	obj := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: w.Name}}
	obj.SetGroupVersionKind(k8sappsv1.SchemeGroupVersion.WithKind(w.Kind))
	if err := e.client.Patch(ctx, obj, patch, client.FieldOwner(fieldOwner)); err != nil {
		return fmt.Errorf("patch %s: %w", w, err)
	}
	e.expectations.Wrote(types.NamespacedName{Namespace: w.Namespace}, idOf(w), w.UID, obj.ResourceVersion)
	e.recorded.Add(recordID{w.UID, owner.annotation()}, e.clock.Now())
	return nil
}

// maxRecorded bounds how many records have their times remembered. Without it, a record that another client removes may be written again
// at once.
const maxRecorded = 10_000

// recordID names an owner's record on a workload.
type recordID struct {
	workload   types.UID
	annotation string
}

// lastWrite is what this process remembers of its writes to a workload.
type lastWrite struct {
	// cacheBehind is true if the cache does not show the last write.
	cacheBehind bool
	// recordedAt is when the owner's record was last written; zero if unknown.
	recordedAt time.Time
}

func (e *Engine) lastWrites(owner Owner) func(*Workload) lastWrite {
	return func(w *Workload) lastWrite {
		last, _ := e.recorded.Get(recordID{w.UID, owner.annotation()})
		at, _ := last.(time.Time)
		return lastWrite{cacheBehind: e.cacheBehind(w), recordedAt: at}
	}
}

func (e *Engine) cacheBehind(w *Workload) bool {
	return !e.expectations.Current(idOf(w), w.UID, w.ResourceVersion)
}
