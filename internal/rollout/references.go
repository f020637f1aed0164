package rollout

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// Reference of a pod template to a ConfigMap or Secret, or to a key of it.
type Reference struct {
	Kind string
	Name string
	// Key is "" for all keys.
	Key string
	// Optional references may name a missing object.
	Optional bool
	// Mounted is true if only volumes refer whose files the kubelet refreshes.
	Mounted bool
}

// ReferencesOf returns the pod's references to ConfigMaps and Secrets, each once, in order. Pull secrets and volumes that only their driver
// reads are left out: a restart does not help them.
func ReferencesOf(pod *corev1.PodSpec) []Reference {
	var refs []Reference
	stale := map[string]bool{} // volumes with a file that a container mounts and the kubelet does not refresh
	for _, containers := range [][]corev1.Container{pod.InitContainers, pod.Containers} {
		for i := range containers {
			refs = append(refs, ofContainer(&containers[i])...)
			for _, m := range containers[i].VolumeMounts {
				stale[m.Name] = stale[m.Name] || m.SubPath != "" || m.SubPathExpr != ""
			}
		}
	}
	for i := range pod.Volumes {
		for _, ref := range ofVolume(&pod.Volumes[i]) {
			ref.Mounted = !stale[pod.Volumes[i].Name]
			refs = append(refs, ref)
		}
	}
	return compact(refs)
}

// compact sorts references and merges duplicates. A merged reference is optional only if all are, and mounted only if all are.
func compact(refs []Reference) []Reference {
	slices.SortFunc(refs, func(a, b Reference) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
	})
	out := refs[:0]
	for _, ref := range refs {
		if n := len(out) - 1; n >= 0 && out[n].Kind == ref.Kind && out[n].Name == ref.Name && out[n].Key == ref.Key {
			out[n].Optional = out[n].Optional && ref.Optional
			out[n].Mounted = out[n].Mounted && ref.Mounted
			continue
		}
		out = append(out, ref)
	}
	return out
}

func ofContainer(c *corev1.Container) []Reference {
	var refs []Reference
	for _, from := range c.EnvFrom {
		if r := from.ConfigMapRef; r != nil {
			refs = append(refs, Reference{Kind: ConfigMap, Name: r.Name, Optional: isTrue(r.Optional)})
		}
		if r := from.SecretRef; r != nil {
			refs = append(refs, Reference{Kind: Secret, Name: r.Name, Optional: isTrue(r.Optional)})
		}
	}
	for _, env := range c.Env {
		if env.ValueFrom == nil {
			continue
		}
		if r := env.ValueFrom.ConfigMapKeyRef; r != nil {
			refs = append(refs, Reference{Kind: ConfigMap, Name: r.Name, Key: r.Key, Optional: isTrue(r.Optional)})
		}
		if r := env.ValueFrom.SecretKeyRef; r != nil {
			refs = append(refs, Reference{Kind: Secret, Name: r.Name, Key: r.Key, Optional: isTrue(r.Optional)})
		}
	}
	return refs
}

func ofVolume(v *corev1.Volume) []Reference {
	var refs []Reference
	if m := v.ConfigMap; m != nil {
		refs = append(refs, ofItems(ConfigMap, m.Name, m.Items, m.Optional)...)
	}
	if s := v.Secret; s != nil {
		refs = append(refs, ofItems(Secret, s.SecretName, s.Items, s.Optional)...)
	}
	if v.Projected == nil {
		return refs
	}
	for _, source := range v.Projected.Sources {
		if m := source.ConfigMap; m != nil {
			refs = append(refs, ofItems(ConfigMap, m.Name, m.Items, m.Optional)...)
		}
		if s := source.Secret; s != nil {
			refs = append(refs, ofItems(Secret, s.Name, s.Items, s.Optional)...)
		}
	}
	return refs
}

func ofItems(kind, name string, items []corev1.KeyToPath, optional *bool) []Reference {
	if len(items) == 0 {
		return []Reference{{Kind: kind, Name: name, Optional: isTrue(optional)}}
	}
	refs := make([]Reference, 0, len(items))
	for _, item := range items {
		refs = append(refs, Reference{Kind: kind, Name: name, Key: item.Key, Optional: isTrue(optional)})
	}
	return refs
}

func isTrue(b *bool) bool { return b != nil && *b }

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

// Names are the name, and the target that it looks like a version of.
func (r Reference) Names() []string {
	if base, ok := BaseOf(r.Name); ok {
		return []string{r.Name, base}
	}
	return []string{r.Name}
}
