package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// Field managers of the harness. Fields of other managers belong to the controller.
const (
	agentUser  = "faults-user"
	agentDrift = "faults-drift"
)

// ownerPointer is removed as a whole: a child without its owner would outlive it.
const ownerPointer = "/metadata/ownerReferences"

// drift is a change by another client of a field that the controller manages.
type drift struct {
	pointer string // JSON pointer
	value   any    // nil removes the field
	// key is true for a key field of list elements. Its change removes one element and adds another, foreign one, which may stay.
	key bool
}

func (d drift) patch() []byte {
	operation := map[string]any{"op": "replace", "path": d.pointer, "value": d.value}
	if d.value == nil {
		operation = map[string]any{"op": "remove", "path": d.pointer}
	}
	data, err := json.Marshal([]any{operation})
	if err != nil {
		panic(err) // strings, numbers and booleans
	}
	return data
}

// findDrifts returns changes of scalars that the controller manages in an object, if the API server allows other clients to change them
// and the change has an effect: at most that many, from the middle of the object on, because each attempt is a request.
func findDrifts(ctx context.Context, client dynamic.Interface, key Key, object *unstructured.Unstructured, most int) ([]drift, error) {
	leaves, err := managedLeaves(object)
	if err != nil {
		return nil, err
	}
	found := []drift{{pointer: ownerPointer}}
	middle := len(leaves) / 2
	for _, l := range slices.Concat(leaves[middle:], leaves[:middle]) {
		if len(found) >= most {
			break
		}
		value, ok := resolve(object.Object, l.pointer)
		if !ok {
			continue
		}
		for _, d := range candidates(l.pointer, value) {
			d.key = l.key
			if takesEffect(ctx, client, key, object, d) {
				found = append(found, d)
				break
			}
		}
	}
	return found, ctx.Err()
}

// takesEffect tries a change in a dry run.
func takesEffect(ctx context.Context, client dynamic.Interface, key Key, object *unstructured.Unstructured, d drift) bool {
	changed, err := client.Resource(key.Resource).Namespace(object.GetNamespace()).Patch(ctx, object.GetName(), types.JSONPatchType, d.patch(),
		metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: agentDrift})
	if err != nil {
		return false
	}
	before, after := object.DeepCopy(), changed.DeepCopy()
	for _, o := range []*unstructured.Unstructured{before, after} {
		o.SetManagedFields(nil)
		o.SetResourceVersion("")
		o.SetGeneration(0)
	}
	return !apiequality.Semantic.DeepEqual(before, after)
}

// withoutForeign removes the list element that a change of its key left behind.
func (d drift) withoutForeign(object *unstructured.Unstructured) *unstructured.Unstructured {
	element, field, _ := cutLast(d.pointer)
	list, _, ok := cutLast(element)
	if !d.key || !ok {
		return object
	}
	object = object.DeepCopy()
	at, field0 := object.Object, unescape(field)
	parent, name, _ := cutLast(list)
	if parent != "" {
		value, found := resolve(object.Object, parent)
		if at, ok = value.(map[string]any); !found || !ok {
			return object
		}
	}
	elements, _ := at[unescape(name)].([]any)
	foreign := slices.IndexFunc(elements, func(e any) bool {
		fields, _ := e.(map[string]any)
		return fields[field0] == d.value
	})
	if foreign >= 0 {
		at[unescape(name)] = slices.Delete(slices.Clone(elements), foreign, foreign+1)
	}
	return object
}

// cutLast splits a JSON pointer before its last step.
func cutLast(pointer string) (rest, last string, ok bool) {
	at := strings.LastIndex(pointer, "/")
	if at < 0 {
		return "", pointer, false
	}
	return pointer[:at], pointer[at+1:], true
}

func unescape(step string) string { return strings.NewReplacer("~1", "/", "~0", "~").Replace(step) }

// leaf is a scalar with a field manager.
type leaf struct {
	pointer string
	key     bool // it is a key of the elements of its list
}

// managedLeaves returns the leaves under spec, data, labels and annotations whose field manager is not the harness, in a fixed order.
func managedLeaves(object *unstructured.Unstructured) ([]leaf, error) {
	var leaves []leaf
	for _, entry := range object.GetManagedFields() {
		if entry.Subresource != "" || entry.FieldsV1 == nil || entry.Manager == agentUser || entry.Manager == agentDrift {
			continue
		}
		set := &fieldpath.Set{}
		if err := set.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return nil, fmt.Errorf("managed fields of %s: %w", object.GetName(), err)
		}
		for path := range set.Leaves().All() {
			pointer, ok := pointerTo(object.Object, path)
			if ok && !strings.HasPrefix(pointer, "/status/") && !strings.HasPrefix(pointer, ownerPointer) {
				leaves = append(leaves, leaf{pointer, isKey(path)})
			}
		}
	}
	slices.SortFunc(leaves, func(a, b leaf) int { return strings.Compare(a.pointer, b.pointer) })
	return slices.Compact(leaves), nil
}

func isKey(path fieldpath.Path) bool {
	if len(path) < 2 || path[len(path)-1].FieldName == nil || path[len(path)-2].Key == nil {
		return false
	}
	return slices.ContainsFunc(*path[len(path)-2].Key, func(f value.Field) bool { return f.Name == *path[len(path)-1].FieldName })
}

// pointerTo resolves list elements with a key to their index. Elements of sets have no pointer.
func pointerTo(value any, path fieldpath.Path) (string, bool) {
	var text strings.Builder
	for _, element := range path {
		var step string
		switch {
		case element.FieldName != nil:
			step = *element.FieldName
		case element.Key != nil:
			list, _ := value.([]any)
			at := slices.IndexFunc(list, func(item any) bool { return hasKey(item, element) })
			if at < 0 {
				return "", false
			}
			step = strconv.Itoa(at)
		default:
			return "", false
		}
		text.WriteString("/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(step))
		next, ok := child(value, step)
		if !ok {
			return "", false
		}
		value = next
	}
	return text.String(), true
}

func hasKey(item any, element fieldpath.PathElement) bool {
	fields, _ := item.(map[string]any)
	for _, key := range *element.Key {
		if fmt.Sprint(fields[key.Name]) != fmt.Sprint(key.Value.Unstructured()) {
			return false
		}
	}
	return true
}

func child(value any, step string) (any, bool) {
	switch at := value.(type) {
	case map[string]any:
		next, ok := at[step]
		return next, ok
	case []any:
		if i, err := strconv.Atoi(step); err == nil && i < len(at) {
			return at[i], true
		}
	}
	return nil, false
}

func resolve(value any, pointer string) (any, bool) {
	for step := range strings.SplitSeq(pointer[1:], "/") {
		var ok bool
		if value, ok = child(value, unescape(step)); !ok {
			return nil, false
		}
	}
	return value, true
}

// candidates are other values for a field, the likeliest to be valid first. Labels and annotations are also removed, selected by the parity
// of their length, so both kinds of change occur.
func candidates(pointer string, value any) []drift {
	var values []any
	switch v := value.(type) {
	case string:
		values = []any{v + "-drift", "drift", "7", "7m", "77Mi", "None", "Always", "ClientIP", "Prefix", "TCP", "UDP", nil}
		if strings.HasPrefix(pointer, "/metadata/") && len(pointer)%2 == 0 {
			values = []any{nil}
		}
	case int64:
		values = []any{v + 1, v - 1}
	case float64:
		values = []any{v + 1}
	case bool:
		values = []any{!v}
	}
	var drifts []drift
	for _, other := range values {
		if other != value {
			drifts = append(drifts, drift{pointer: pointer, value: other})
		}
	}
	return drifts
}
