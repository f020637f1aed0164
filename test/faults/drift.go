package faults

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// Names under which the harness itself writes; what others manage belongs to the controller.
const (
	agentUser  = "faults-user"
	agentDrift = "faults-drift"
)

// ownerPointer is removed as a whole: a child that lost its owner would outlive it.
const ownerPointer = "/metadata/ownerReferences"

// drift is a change by someone else of a field that the controller manages.
type drift struct {
	pointer string // JSON pointer
	value   any    // nil removes the field
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

// findDrifts lists a change for each scalar that the controller manages in an object and that the API server would let
// others change.
func findDrifts(ctx context.Context, client dynamic.Interface, key Key, object *unstructured.Unstructured) ([]drift, error) {
	pointers, err := managedPointers(object)
	if err != nil {
		return nil, err
	}
	at := client.Resource(key.Resource).Namespace(object.GetNamespace())
	found := []drift{{pointer: ownerPointer}}
	for _, pointer := range pointers {
		value, ok := resolve(object.Object, pointer)
		if !ok {
			continue
		}
		for _, d := range candidates(pointer, value) {
			_, err := at.Patch(ctx, object.GetName(), types.JSONPatchType, d.patch(), metav1.PatchOptions{
				DryRun: []string{metav1.DryRunAll}, FieldManager: agentDrift,
			})
			if err == nil {
				found = append(found, d)
				break
			}
		}
	}
	return found, ctx.Err()
}

// managedPointers are the leaves under spec, data, labels and annotations that field managers other than the harness
// own, in a fixed order.
func managedPointers(object *unstructured.Unstructured) ([]string, error) {
	var pointers []string
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
				pointers = append(pointers, pointer)
			}
		}
	}
	slices.Sort(pointers)
	return slices.Compact(pointers), nil
}

// pointerTo resolves list elements that are chosen by key to their index. Elements of sets have no pointer of their own.
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
		if value, ok = child(value, strings.NewReplacer("~1", "/", "~0", "~").Replace(step)); !ok {
			return nil, false
		}
	}
	return value, true
}

// candidates are other values for a field, the likeliest to be valid first. Labels and annotations are also removed,
// every second one by its length, so that both happen.
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
			drifts = append(drifts, drift{pointer, other})
		}
	}
	return drifts
}
