package apply

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/structured-merge-diff/v6/schema"
)

// objectType is what is known of the structure of a kind.
type objectType struct {
	schema *schema.Schema
	// root is the type of the object; the zero value when only metadata is known.
	root schema.TypeRef
	// metadata is the type of metadata, the same for all kinds.
	metadata schema.TypeRef
}

func (t objectType) field(key string) schema.TypeRef {
	if key == "metadata" {
		return t.metadata
	}
	m := t.resolve(t.root).Map
	if m == nil {
		return schema.TypeRef{}
	}
	return fieldType(m, key)
}

// resolve returns what ref refers to; nothing for the zero reference.
func (t objectType) resolve(ref schema.TypeRef) schema.Atom {
	if ref.NamedType == nil && ref.Inlined == (schema.Atom{}) {
		return schema.Atom{}
	}
	atom, _ := t.schema.Resolve(ref)
	return atom
}

// keys returns what tells the items of an associative list apart.
func (t objectType) keys(list *schema.List) itemKeys {
	k := itemKeys{names: list.Keys, defaults: make([]any, len(list.Keys))}
	item := t.resolve(list.ElementType).Map
	if item == nil {
		return k
	}
	for i, name := range list.Keys {
		if f, ok := item.FindField(name); ok {
			k.defaults[i] = f.Default
		}
	}
	return k
}

func fieldType(m *schema.Map, key string) schema.TypeRef {
	if f, ok := m.FindField(key); ok {
		return f.Type
	}
	return m.ElementType
}

// builtin reads the schema that client-go carries, once: it takes some time and memory.
var builtin = sync.OnceValues(func() (managedfields.TypeConverter, error) {
	converter := applyconfigurations.NewTypeConverter(clientscheme.Scheme)
	_, err := converter.ObjectToTyped(&corev1.ConfigMap{})
	return converter, err
})

// typeOf returns the type of obj, an empty object; a kind that is not built in has the type of
// its metadata only.
func typeOf(obj runtime.Object) (objectType, error) {
	converter, err := builtin()
	if err != nil {
		return objectType{}, fmt.Errorf("read the schema of the built-in kinds: %w", err)
	}
	known, err := converter.ObjectToTyped(&corev1.ConfigMap{})
	if err != nil {
		return objectType{}, fmt.Errorf("read the schema of ConfigMap: %w", err)
	}
	t := objectType{schema: known.Schema(), root: known.TypeRef()}
	t.metadata = fieldType(t.resolve(t.root).Map, "metadata")
	t.root = schema.TypeRef{}
	if _, _, err := clientscheme.Scheme.ObjectKinds(obj); err != nil {
		return t, nil //nolint:nilerr // not built in
	}
	typed, err := converter.ObjectToTyped(obj)
	if err != nil {
		return objectType{}, fmt.Errorf("read the schema of %T: %w", obj, err)
	}
	t.root = typed.TypeRef()
	return t, nil
}
