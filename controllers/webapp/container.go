package webapp

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	"github.com/distribution/reference"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/apply"
)

// fileMode is Kubernetes' default mode for files of ConfigMaps and Secrets.
const fileMode int32 = 0o644

// namedPort is a port of the container.
type namedPort struct {
	name   string
	number int32
}

// containerPorts are the main port and the extra ports, each number once: a container can't list a number twice.
func containerPorts(app *appsv1.WebApp) []namedPort {
	ports := []namedPort{{mainPort, app.Spec.Port}}
	for _, p := range app.Spec.Service.ExtraPorts {
		number := cmp.Or(p.TargetPort, p.Port)
		if !slices.ContainsFunc(ports, func(q namedPort) bool { return q.number == number }) {
			ports = append(ports, namedPort{p.Name, number})
		}
	}
	return ports
}

// targetPort is the name of the container port of an extra port of the Service.
func targetPort(app *appsv1.WebApp, p appsv1.WebAppPort) string {
	number := cmp.Or(p.TargetPort, p.Port)
	ports := containerPorts(app)
	return ports[slices.IndexFunc(ports, func(q namedPort) bool { return q.number == number })].name
}

// pullPolicy is Always for the tag latest, which is the default, as in Kubernetes.
func pullPolicy(image string) corev1.PullPolicy {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return corev1.PullIfNotPresent // the kubelet rejects the image
	}
	_, digested := named.(reference.Digested)
	tagged, ok := reference.TagNameOnly(named).(reference.Tagged)
	if !digested && ok && tagged.Tag() == "latest" {
		return corev1.PullAlways
	}
	return corev1.PullIfNotPresent
}

// volume sets its defaults explicitly. Defaults that the API server sets would stay when the source of the volume changes, and a
// volume with two sources is rejected.
func volume(v *appsv1.WebAppVolume) *corev1ac.VolumeApplyConfiguration {
	ac := apply.Convert[corev1ac.VolumeApplyConfiguration](v)
	switch {
	case ac.ConfigMap != nil && ac.ConfigMap.DefaultMode == nil:
		ac.ConfigMap.WithDefaultMode(fileMode)
	case ac.Secret != nil && ac.Secret.DefaultMode == nil:
		ac.Secret.WithDefaultMode(fileMode)
	case ac.Projected != nil && ac.Projected.DefaultMode == nil:
		ac.Projected.WithDefaultMode(fileMode)
	}
	return ac
}
