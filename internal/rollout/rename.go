package rollout

// refersTo maps a field of a pod spec to the kind that it refers to.
var refersTo = map[string]string{
	"configMapRef": ConfigMap, "configMapKeyRef": ConfigMap, "configMap": ConfigMap,
	"secretRef": Secret, "secretKeyRef": Secret, "secret": Secret,
}

// Rename replaces the names of ConfigMaps and Secrets in the JSON form of a pod spec, or of an object that contains one, by those that to
// returns.
func Rename(doc any, to func(kind, name string) string) {
	switch v := doc.(type) {
	case []any:
		for _, item := range v {
			Rename(item, to)
		}
	case map[string]any:
		for field, below := range v {
			if ref, ok := below.(map[string]any); ok && refersTo[field] != "" {
				renameOne(refersTo[field], ref, to)
			}
			Rename(below, to)
		}
	}
}

func renameOne(kind string, ref map[string]any, to func(kind, name string) string) {
	for _, field := range []string{"name", "secretName"} {
		if name, ok := ref[field].(string); ok {
			ref[field] = to(kind, name)
		}
	}
}
