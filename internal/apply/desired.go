package apply

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/value"
)

// hashAnnotation is on each applied object. It holds the hash of the applied object. A restarted operator compares it to find fields that
// are no longer desired.
const hashAnnotation = "fettle.dev/applied-hash"

// desiredObject is an object in the form in which it is applied.
type desiredObject struct {
	gvk  schema.GroupVersionKind
	name types.NamespacedName
	// content is the JSON that is sent: canonical, with the owner reference and the hash. Scalars that the kind's Go type would omit have
	// type zero.
	content map[string]any
	hash    string
	// own are the labels of the object without the inherited ones.
	own map[string]string
}

func (d *desiredObject) id() ObjectID {
	return ObjectID{d.gvk, d.name}
}

// render makes config the desired child of owner. The same input gives the same bytes.
func render(config runtime.ApplyConfiguration, owner ownerRef, scheme *runtime.Scheme) (*desiredObject, error) {
	raw, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("encode %T: %w", config, err)
	}
	var content map[string]any
	if err := utiljson.Unmarshal(raw, &content); err != nil {
		return nil, fmt.Errorf("decode %T: %w", config, err)
	}
	u := unstructured.Unstructured{Object: content}
	d := &desiredObject{
		gvk:  u.GroupVersionKind(),
		name: client.ObjectKeyFromObject(&u),
		own:  u.GetLabels(),
	}
	if d.gvk.Kind == "" || d.gvk.Version == "" || d.name.Name == "" {
		return nil, fmt.Errorf("%T needs an apiVersion, a kind and a name, it has %q, %q and %q",
			config, u.GetAPIVersion(), d.gvk.Kind, d.name.Name)
	}
	if err := owner.check(d.gvk, d.name); err != nil {
		return nil, err
	}
	if d.content, err = canonical(content, d.gvk, scheme); err != nil {
		return nil, fmt.Errorf("%s %q: %w", d.gvk.Kind, d.name.Name, err)
	}
	if err := owner.addTo(d.content); err != nil {
		return nil, fmt.Errorf("%s %q: %w", d.gvk.Kind, d.name.Name, err)
	}
	if err := owner.pass(d.content); err != nil {
		return nil, fmt.Errorf("%s %q: %w", d.gvk.Kind, d.name.Name, err)
	}
	return d, d.seal()
}

// seal adds the hash of the content.
func (d *desiredObject) seal() error {
	unstructured.RemoveNestedField(d.content, "metadata", "annotations", hashAnnotation)
	raw, err := json.Marshal(d.content) // sorts the keys
	if err != nil {
		return fmt.Errorf("encode %s %q: %w", d.gvk.Kind, d.name.Name, err)
	}
	sum := sha256.Sum256(raw)
	d.hash = hex.EncodeToString(sum[:16])
	return unstructured.SetNestedField(d.content, d.hash, "metadata", "annotations", hashAnnotation)
}

// zero is a desired scalar that the kind's Go type omits, such as hostNetwork: false. The live object has the same value or none.
type zero struct {
	value any // "", false, int64(0) or float64(0)
}

// MarshalJSON writes the scalar.
func (z zero) MarshalJSON() ([]byte, error) { return json.Marshal(z.value) }

// plain returns a copy of JSON content with a scalar in place of each zero.
func plain(content any) any {
	switch content := content.(type) {
	case map[string]any:
		out := make(map[string]any, len(content))
		for key, c := range content {
			out[key] = plain(c)
		}
		return out
	case []any:
		out := make([]any, len(content))
		for i, c := range content {
			out[i] = plain(c)
		}
		return out
	case zero:
		return content.value
	default:
		return content
	}
}

// canonical returns content as the Go type of its kind would encode it: quantities in canonical form, without the empty lists and maps that
// the type omits, and with no additions. Content of kinds without a Go type is unchanged.
func canonical(content map[string]any, gvk schema.GroupVersionKind, scheme *runtime.Scheme) (map[string]any, error) {
	if !scheme.Recognizes(gvk) {
		return content, nil
	}
	obj, err := scheme.New(gvk)
	if err != nil {
		return nil, err
	}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(content, obj); err != nil {
		return nil, fmt.Errorf("does not have the form of its kind: %w", err)
	}
	form, err := value.NewValueReflect(obj)
	if err != nil {
		return nil, err
	}
	return projectMap(content, form.AsMap()), nil
}

// project returns the values of form, the Go value, at the places that content mentions.
func project(content any, form value.Value) any {
	switch content := content.(type) {
	case map[string]any:
		if form.IsMap() && !form.IsNull() {
			return projectMap(content, form.AsMap())
		}
	case []any:
		if form.IsList() && !form.IsNull() && form.AsList().Length() == len(content) {
			items := form.AsList()
			out := make([]any, len(content))
			for i := range content {
				out[i] = project(content[i], items.At(i))
			}
			return out
		}
	}
	return form.Unstructured()
}

func projectMap(content map[string]any, form value.Map) map[string]any {
	out := make(map[string]any, len(content))
	for key, c := range content {
		if c == nil {
			continue // null has no meaning in an apply configuration
		}
		if f, ok := form.Get(key); ok {
			out[key] = project(c, f)
		} else if isZero(c) {
			out[key] = zero{c}
		}
	}
	return out
}

func isZero(scalar any) bool {
	return scalar == "" || scalar == false || scalar == int64(0) || scalar == float64(0)
}
