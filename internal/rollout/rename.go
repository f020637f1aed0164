package rollout

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// operation of a JSON patch (RFC 6902).
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

const podSpecPath = "/spec/template/spec"

// renaming collects the operations that give references of a pod template other names.
type renaming struct {
	names map[rename]string
	ops   []operation
}

// renameIn returns the operations that rename the references of a pod template.
func renameIn(pod *corev1.PodSpec, names map[rename]string) []operation {
	r := &renaming{names: names}
	r.containers(podSpecPath+"/initContainers", pod.InitContainers)
	r.containers(podSpecPath+"/containers", pod.Containers)
	for i := range pod.Volumes {
		r.volume(fmt.Sprintf("%s/volumes/%d", podSpecPath, i), &pod.Volumes[i])
	}
	return r.ops
}

func (r *renaming) name(kind, name, path string) {
	if to, ok := r.names[rename{kind, name}]; ok {
		r.ops = append(r.ops, operation{"replace", path, to})
	}
}

func (r *renaming) containers(path string, containers []corev1.Container) {
	for i := range containers {
		c := &containers[i]
		for j, from := range c.EnvFrom {
			at := fmt.Sprintf("%s/%d/envFrom/%d", path, i, j)
			if from.ConfigMapRef != nil {
				r.name(ConfigMap, from.ConfigMapRef.Name, at+"/configMapRef/name")
			}
			if from.SecretRef != nil {
				r.name(Secret, from.SecretRef.Name, at+"/secretRef/name")
			}
		}
		for j, env := range c.Env {
			at := fmt.Sprintf("%s/%d/env/%d/valueFrom", path, i, j)
			if env.ValueFrom != nil && env.ValueFrom.ConfigMapKeyRef != nil {
				r.name(ConfigMap, env.ValueFrom.ConfigMapKeyRef.Name, at+"/configMapKeyRef/name")
			}
			if env.ValueFrom != nil && env.ValueFrom.SecretKeyRef != nil {
				r.name(Secret, env.ValueFrom.SecretKeyRef.Name, at+"/secretKeyRef/name")
			}
		}
	}
}

func (r *renaming) volume(path string, v *corev1.Volume) {
	if v.ConfigMap != nil {
		r.name(ConfigMap, v.ConfigMap.Name, path+"/configMap/name")
	}
	if v.Secret != nil {
		r.name(Secret, v.Secret.SecretName, path+"/secret/secretName")
	}
	if v.Projected == nil {
		return
	}
	for i, source := range v.Projected.Sources {
		at := fmt.Sprintf("%s/projected/sources/%d", path, i)
		if source.ConfigMap != nil {
			r.name(ConfigMap, source.ConfigMap.Name, at+"/configMap/name")
		}
		if source.Secret != nil {
			r.name(Secret, source.Secret.Name, at+"/secret/name")
		}
	}
}

// annotate returns the operations that set an annotation of a map at path.
func annotate(path string, annotations map[string]string, key, value string) []operation {
	if annotations == nil {
		return []operation{{"add", path, map[string]string{key: value}}}
	}
	return []operation{{"add", path + "/" + strings.NewReplacer("~", "~0", "/", "~1").Replace(key), value}}
}
