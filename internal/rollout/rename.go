package rollout

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// operation of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

const podSpecPath = "/spec/template/spec"

// refersTo maps a field of a pod spec to the kind that it refers to.
var refersTo = map[string]string{
	"configMapRef": ConfigMap, "configMapKeyRef": ConfigMap, "configMap": ConfigMap,
	"secretRef": Secret, "secretKeyRef": Secret, "secret": Secret,
}

// Rename replaces the names of ConfigMaps and Secrets in the JSON form of a pod spec, or of an object that contains one, by those that to
// returns. path is the JSON pointer (RFC 6901) of doc; to gets the pointer of each name.
func Rename(doc any, path string, to func(path, kind, name string) string) {
	switch v := doc.(type) {
	case []any:
		for i, item := range v {
			Rename(item, fmt.Sprintf("%s/%d", path, i), to)
		}
	case map[string]any:
		for _, field := range slices.Sorted(maps.Keys(v)) {
			below := path + "/" + escape(field)
			if ref, ok := v[field].(map[string]any); ok && refersTo[field] != "" {
				renameOne(refersTo[field], ref, below, to)
			}
			Rename(v[field], below, to)
		}
	}
}

func renameOne(kind string, ref map[string]any, path string, to func(path, kind, name string) string) {
	for _, field := range []string{"name", "secretName"} {
		if name, ok := ref[field].(string); ok {
			ref[field] = to(path+"/"+field, kind, name)
		}
	}
}

// renameIn returns the operations that rename the references of a pod template.
func renameIn(pod *corev1.PodSpec, names map[rename]string) ([]operation, error) {
	doc, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
	if err != nil {
		return nil, fmt.Errorf("pod spec: %w", err)
	}
	var ops []operation
	Rename(doc, podSpecPath, func(path, kind, name string) string {
		if to, ok := names[rename{kind, name}]; ok {
			ops = append(ops, operation{"replace", path, to})
		}
		return name
	})
	return ops, nil
}

func escape(field string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(field) }

// annotate returns the operations that set an annotation of a map at path.
func annotate(path string, annotations map[string]string, key, value string) []operation {
	if annotations == nil {
		return []operation{{"add", path, map[string]string{key: value}}}
	}
	return []operation{{"add", path + "/" + escape(key), value}}
}
