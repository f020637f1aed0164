package apply

import (
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
)

// objectType describes the structure of a kind.
type objectType struct {
	schema *smd.Schema
	// root is the type of the object; the zero value if only metadata is known.
	root smd.TypeRef
	// metadata is the type of metadata, the same for all kinds.
	metadata smd.TypeRef
}

func (t objectType) field(key string) smd.TypeRef {
	if key == "metadata" {
		return t.metadata
	}
	m := t.resolve(t.root).Map
	if m == nil {
		return smd.TypeRef{}
	}
	return fieldType(m, key)
}

// resolve returns the atom that ref refers to; an empty atom for the zero reference.
func (t objectType) resolve(ref smd.TypeRef) smd.Atom {
	if ref.NamedType == nil && ref.Inlined == (smd.Atom{}) {
		return smd.Atom{}
	}
	atom, _ := t.schema.Resolve(ref)
	return atom
}

// keys returns the item keys of an associative list.
func (t objectType) keys(list *smd.List) itemKeys {
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

func fieldType(m *smd.Map, key string) smd.TypeRef {
	if f, ok := m.FindField(key); ok {
		return f.Type
	}
	return m.ElementType
}

// builtin reads client-go's schema once, because that takes time and memory.
var builtin = sync.OnceValues(func() (objectType, error) {
	return builtinType(corev1.SchemeGroupVersion.WithKind("ConfigMap"), &corev1.ConfigMap{})
})

var converter = sync.OnceValue(func() managedfields.TypeConverter {
	return applyconfigurations.NewTypeConverter(clientscheme.Scheme)
})

func builtinType(gvk schema.GroupVersionKind, obj runtime.Object) (objectType, error) {
	obj.GetObjectKind().SetGroupVersionKind(gvk)
	typed, err := converter().ObjectToTyped(obj)
	if err != nil {
		return objectType{}, fmt.Errorf("read schema of %s: %w", gvk, err)
	}
	t := objectType{schema: typed.Schema(), root: typed.TypeRef()}
	t.metadata = fieldType(t.resolve(t.root).Map, "metadata")
	return t, nil
}

// typeOf returns the type of a kind; obj is an empty object of it. For a kind that is not built in, only the type of its metadata is known.
func typeOf(gvk schema.GroupVersionKind, obj runtime.Object) (objectType, error) {
	if clientscheme.Scheme.Recognizes(gvk) {
		return builtinType(gvk, obj)
	}
	t, err := builtin()
	t.root = smd.TypeRef{}
	return t, err
}
