package apply

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// A list item whose key another client changed (the port of a Service, for example) is another item to server-side apply: it stays beside
// the desired one, and both together may be invalid, since they have the same name. Such lists are replaced by the desired ones. As server-
// side apply cannot do that, a JSON patch does. The field owner then has the items by both operations, so a later apply does not remove
// them; it only replaces the list once more.

// operation is one of a JSON patch.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// replaceCollisions replaces lists in live whose foreign items made an apply of d fail with rejection. It reports whether it did.
func (a *Applier) replaceCollisions(ctx context.Context, d *desiredObject, t objectType, live client.Object, rejection error) (bool, error) {
	fields := rejectedFields(rejection)
	if len(fields) == 0 {
		return false, nil
	}
	have, err := valueOf(live)
	if err != nil {
		return false, err
	}
	operations := collisions{types: t, fields: fields}.inMap(t.resolve(t.root).Map, d.content, have.AsMap(), "")
	if len(operations) == 0 {
		return false, nil
	}
	patch, err := json.Marshal(append(operations, operation{"replace", "/metadata/resourceVersion", live.GetResourceVersion()}))
	if err != nil {
		return false, fmt.Errorf("encode a JSON patch: %w", err)
	}
	u := &unstructured.Unstructured{}
	u.SetGroupVersionKind(d.gvk)
	u.SetNamespace(d.name.Namespace)
	u.SetName(d.name.Name)
	if err := a.client.Patch(ctx, u, client.RawPatch(types.JSONPatchType, patch), client.FieldOwner(a.fieldOwner)); err != nil {
		return false, &WriteError{Verb: "patch", GVK: d.gvk, Namespace: d.name.Namespace, Name: d.name.Name, Err: err}
	}
	return true, nil
}

// indices of list items in the fields of an error: "[1]".
var indices = regexp.MustCompile(`\[\d+\]`)

// rejectedFields are the fields that the API server reports as invalid, as JSON pointers without the indices of list items.
func rejectedFields(rejection error) []string {
	status := apierrors.APIStatus(nil)
	if !apierrors.IsInvalid(rejection) || !errors.As(rejection, &status) || status.Status().Details == nil {
		return nil
	}
	var fields []string
	for _, cause := range status.Status().Details.Causes {
		if indices.MatchString(cause.Field) {
			fields = append(fields, "/"+strings.ReplaceAll(indices.ReplaceAllString(cause.Field, ""), ".", "/"))
		}
	}
	return fields
}

// collisions finds lists that have foreign items and an invalid field.
type collisions struct {
	types  objectType
	fields []string
}

func (c collisions) inMap(t *schema.Map, want map[string]any, have value.Map, at string) []operation {
	if t == nil || t.ElementRelationship == schema.Atomic {
		return nil
	}
	var found []operation
	for key, w := range want {
		live, ok := have.Get(key)
		if !ok {
			continue
		}
		found = append(found, c.in(fieldType(t, key), w, live, at+"/"+pointerEscapes.Replace(key))...)
	}
	return found
}

func (c collisions) in(t schema.TypeRef, want any, have value.Value, at string) []operation {
	switch want := want.(type) {
	case map[string]any:
		if have.IsMap() {
			return c.inMap(c.types.resolve(t).Map, want, have.AsMap(), at)
		}
	case []any:
		if list := c.types.resolve(t).List; have.IsList() && list != nil && list.ElementRelationship == schema.Associative && len(list.Keys) > 0 {
			return c.inList(list, want, have.AsList(), at)
		}
	}
	return nil
}

// inList prefers a list inside of an item to the whole list.
func (c collisions) inList(t *schema.List, want []any, have value.List, at string) []operation {
	keys := c.types.keys(t)
	desired := map[string]any{}
	for _, w := range want {
		desired[keys.wanted(w)] = w
	}
	var found []operation
	foreign := false
	for i := range have.Length() {
		w, ours := desired[keys.of(have.At(i))]
		foreign = foreign || !ours
		if ours {
			found = append(found, c.in(t.ElementType, w, have.At(i), at+"/"+strconv.Itoa(i))...)
		}
	}
	if len(found) == 0 && foreign && c.invalid(at) {
		return []operation{{"replace", at, plain(want)}}
	}
	return found
}

// numbers are indices of list items in JSON pointers.
var numbers = regexp.MustCompile(`/\d+(/|$)`)

// invalid reports whether one of the invalid fields is in the list.
func (c collisions) invalid(list string) bool {
	list = numbers.ReplaceAllString(list, "$1")
	for _, field := range c.fields {
		if strings.HasPrefix(field, list+"/") {
			return true
		}
	}
	return false
}
