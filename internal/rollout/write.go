package rollout

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

// restartWithRenames also renames the references. The cache does not hold their places in the template.
func (e *Engine) restartWithRenames(ctx context.Context, owner Owner, w *Workload, a action) error {
	live, err := emptyOf(w.Kind)
	if err != nil {
		return err
	}
	if err := e.live.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: w.Name}, live); err != nil {
		return fmt.Errorf("read %s: %w", w, err)
	}
	template := templateOf(live)
	key := owner.annotation()
	renames, err := renameIn(&template.Spec, a.renames)
	if err != nil {
		return fmt.Errorf("rename references of %s: %w", w, err)
	}
	// Not a test operation: the API server reports a failed test as an invalid request, not as a conflict.
	ops := []operation{{"replace", "/metadata/resourceVersion", w.ResourceVersion}}
	ops = append(ops, renames...)
	ops = append(ops, annotate("/metadata/annotations", live.GetAnnotations(), key, a.record.String())...)
	ops = append(ops, annotate("/spec/template/metadata/annotations", template.Annotations, key, a.record.Hash)...)
	raw, err := json.Marshal(ops)
	if err != nil {
		return fmt.Errorf("patch of %s: %w", w, err)
	}
	if live.GetResourceVersion() != w.ResourceVersion || live.GetUID() != w.UID {
		return apierrors.NewConflict(k8sappsv1.Resource(w.Kind), w.Name, fmt.Errorf("the workload has changed since it was evaluated"))
	}
	return e.send(ctx, owner, w, client.RawPatch(types.JSONPatchType, raw))
}

func templateOf(obj client.Object) *corev1.PodTemplateSpec {
	switch o := obj.(type) {
	case *k8sappsv1.Deployment:
		return &o.Spec.Template
	case *k8sappsv1.StatefulSet:
		return &o.Spec.Template
	case *k8sappsv1.DaemonSet:
		return &o.Spec.Template
	default:
		return &corev1.PodTemplateSpec{}
	}
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
