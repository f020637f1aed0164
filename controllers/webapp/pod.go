package webapp

import (
	"cmp"
	"slices"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/podsecurity"
)

const (
	tmpVolume = "fettle-tmp"
	tmpPath   = "/tmp"
)

// podTemplate is the pod template of the spec, without its revision.
func podTemplate(app *appsv1.WebApp, in inputs) *corev1ac.PodTemplateSpecApplyConfiguration {
	s := &app.Spec
	profile := podsecurity.Effective(app, in.namespaceLabels)
	podContext, containerContext := podsecurity.Contexts(app, profile)
	spec := corev1ac.PodSpec().
		WithAutomountServiceAccountToken(s.AutomountServiceAccountToken).
		WithEnableServiceLinks(false).
		WithSecurityContext(podContext).
		WithContainers(container(app, profile).WithSecurityContext(containerContext))
	for _, ref := range s.ImagePullSecrets {
		spec.WithImagePullSecrets(corev1ac.LocalObjectReference().WithName(ref.Name))
	}
	for i := range s.Volumes {
		spec.WithVolumes(volume(&s.Volumes[i]))
	}
	if needsTmp(app, profile) {
		spec.WithVolumes(corev1ac.Volume().WithName(tmpVolume).WithEmptyDir(corev1ac.EmptyDirVolumeSource()))
	}
	placement(app, spec)
	return corev1ac.PodTemplateSpec().WithLabels(labels(app)).WithSpec(spec)
}

func placement(app *appsv1.WebApp, spec *corev1ac.PodSpecApplyConfiguration) {
	s := &app.Spec
	// Always set: the API server copies it to a deprecated field, which would restore a removed name.
	spec.WithServiceAccountName(cmp.Or(s.ServiceAccountName, "default"))
	if s.PriorityClassName != "" {
		spec.WithPriorityClassName(s.PriorityClassName)
	}
	if s.TerminationGracePeriodSeconds != nil {
		spec.WithTerminationGracePeriodSeconds(*s.TerminationGracePeriodSeconds)
	}
	spec.WithNodeSelector(s.NodeSelector)
	for _, t := range s.Tolerations {
		spec.WithTolerations(apply.Convert[corev1ac.TolerationApplyConfiguration](t))
	}
	if s.Affinity != nil {
		spec.WithAffinity(apply.Convert[corev1ac.AffinityApplyConfiguration](s.Affinity))
	}
	if s.TopologySpread == nil || *s.TopologySpread {
		for _, key := range []string{corev1.LabelHostname, corev1.LabelTopologyZone} {
			spec.WithTopologySpreadConstraints(corev1ac.TopologySpreadConstraint().
				WithMaxSkew(1).
				WithTopologyKey(key).
				WithWhenUnsatisfiable(corev1.ScheduleAnyway).
				WithLabelSelector(metav1ac.LabelSelector().WithMatchLabels(selector(app))).
				WithMatchLabelKeys(k8sappsv1.DefaultDeploymentUniqueLabelKey))
		}
	}
}

func container(app *appsv1.WebApp, profile appsv1.SecurityProfile) *corev1ac.ContainerApplyConfiguration {
	s := &app.Spec
	c := corev1ac.Container().
		WithName(mainContainer).
		WithImage(s.Image).
		WithCommand(s.Command...).
		WithArgs(s.Args...).
		// Always set: otherwise the default for the first image would stay when the tag changes.
		WithImagePullPolicy(cmp.Or(s.ImagePullPolicy, pullPolicy(s.Image)))
	for _, p := range containerPorts(app) {
		c.WithPorts(corev1ac.ContainerPort().WithName(p.name).WithProtocol("TCP").WithContainerPort(p.number))
	}
	for _, e := range s.Env {
		c.WithEnv(apply.Convert[corev1ac.EnvVarApplyConfiguration](e))
	}
	for _, e := range s.EnvFrom {
		c.WithEnvFrom(apply.Convert[corev1ac.EnvFromSourceApplyConfiguration](e))
	}
	if s.Resources.Requests != nil || s.Resources.Limits != nil || s.Resources.Claims != nil {
		c.WithResources(apply.Convert[corev1ac.ResourceRequirementsApplyConfiguration](s.Resources))
	}
	for _, m := range s.VolumeMounts {
		c.WithVolumeMounts(apply.Convert[corev1ac.VolumeMountApplyConfiguration](m))
	}
	if needsTmp(app, profile) {
		c.WithVolumeMounts(corev1ac.VolumeMount().WithName(tmpVolume).WithMountPath(tmpPath))
	}
	readiness := s.Probes.Readiness
	if readiness == nil {
		readiness = &appsv1.WebAppProbe{Type: "TCP"}
	}
	c.ReadinessProbe = probe(readiness, s.Port)
	c.LivenessProbe = probe(s.Probes.Liveness, s.Port)
	c.StartupProbe = probe(s.Probes.Startup, s.Port)
	return c
}

// probe returns nil for no probe. A gRPC probe needs a port number, the others use the name of the main port. Defaults inside a
// probe's action are set explicitly: defaults that the API server sets would stay when the type of the probe changes, and a probe
// with two actions is rejected.
func probe(p *appsv1.WebAppProbe, mainPortNumber int32) *corev1ac.ProbeApplyConfiguration {
	if p == nil || p.Type == "None" {
		return nil
	}
	ac := corev1ac.Probe()
	port := intstr.FromString(mainPort)
	if p.Port != 0 {
		port = intstr.FromInt32(p.Port)
	}
	switch {
	case p.Type == "GRPC":
		ac.WithGRPC(corev1ac.GRPCAction().WithPort(cmp.Or(p.Port, mainPortNumber)).WithService(""))
	case p.Path != "":
		ac.WithHTTPGet(corev1ac.HTTPGetAction().WithPath(p.Path).WithPort(port).
			WithScheme(cmp.Or(p.Scheme, corev1.URISchemeHTTP)))
	default:
		ac.WithTCPSocket(corev1ac.TCPSocketAction().WithPort(port))
	}
	for _, f := range []struct {
		value int32
		set   func(int32) *corev1ac.ProbeApplyConfiguration
	}{
		{p.InitialDelaySeconds, ac.WithInitialDelaySeconds},
		{p.PeriodSeconds, ac.WithPeriodSeconds},
		{p.TimeoutSeconds, ac.WithTimeoutSeconds},
		{p.FailureThreshold, ac.WithFailureThreshold},
	} {
		if f.value != 0 {
			f.set(f.value)
		}
	}
	return ac
}

// needsTmp reports whether the pod needs a writable /tmp because its root filesystem is read-only.
func needsTmp(app *appsv1.WebApp, profile appsv1.SecurityProfile) bool {
	return profile == appsv1.ProfileRestricted && !slices.ContainsFunc(app.Spec.VolumeMounts,
		func(m corev1.VolumeMount) bool { return m.MountPath == tmpPath })
}
