package podtemplate

import (
	"cmp"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

// fileMode is Kubernetes' default mode for files of a volume.
const fileMode int32 = 0o644

// setDefaults sets the defaults of the API server inside fields of which only one may be set. The API server's own would stay when the
// overlay changes to another field: a volume with two sources, a probe with two actions and a variable with two sources are rejected.
func setDefaults(t *corev1ac.PodTemplateSpecApplyConfiguration) {
	for i := range t.Spec.Volumes {
		setVolumeDefaults(&t.Spec.Volumes[i])
	}
	for _, list := range [][]corev1ac.ContainerApplyConfiguration{t.Spec.InitContainers, t.Spec.Containers} {
		for i := range list {
			setContainerDefaults(&list[i])
		}
	}
}

func setVolumeDefaults(v *corev1ac.VolumeApplyConfiguration) {
	mode := new(fileMode)
	switch {
	case v.ConfigMap != nil:
		v.ConfigMap.DefaultMode = cmp.Or(v.ConfigMap.DefaultMode, mode)
	case v.Secret != nil:
		v.Secret.DefaultMode = cmp.Or(v.Secret.DefaultMode, mode)
	case v.Projected != nil:
		v.Projected.DefaultMode = cmp.Or(v.Projected.DefaultMode, mode)
	case v.DownwardAPI != nil:
		v.DownwardAPI.DefaultMode = cmp.Or(v.DownwardAPI.DefaultMode, mode)
	}
}

func setContainerDefaults(c *corev1ac.ContainerApplyConfiguration) {
	for _, p := range []*corev1ac.ProbeApplyConfiguration{c.StartupProbe, c.ReadinessProbe, c.LivenessProbe} {
		if p != nil {
			setHTTPDefaults(p.HTTPGet)
		}
		if p != nil && p.GRPC != nil {
			p.GRPC.Service = cmp.Or(p.GRPC.Service, new(""))
		}
	}
	if c.Lifecycle != nil {
		for _, h := range []*corev1ac.LifecycleHandlerApplyConfiguration{c.Lifecycle.PostStart, c.Lifecycle.PreStop} {
			if h != nil {
				setHTTPDefaults(h.HTTPGet)
			}
		}
	}
	for i := range c.Env {
		if from := c.Env[i].ValueFrom; from != nil && from.FieldRef != nil {
			from.FieldRef.APIVersion = cmp.Or(from.FieldRef.APIVersion, new("v1"))
		}
	}
}

func setHTTPDefaults(get *corev1ac.HTTPGetActionApplyConfiguration) {
	if get != nil {
		get.Path, get.Scheme = cmp.Or(get.Path, new("/")), cmp.Or(get.Scheme, new(corev1.URISchemeHTTP))
	}
}
