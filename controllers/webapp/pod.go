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
	"github.com/fettle-dev/fettle/internal/podsecurity"
)

const (
	tmpVolume = "fettle-tmp"
	tmpPath   = "/tmp"
	// firstUnprivilegedPort is the first port on which any user may listen.
	firstUnprivilegedPort = 1024
)

// podTemplate is the pod template of the spec, without its revision.
func podTemplate(app *appsv1.WebApp, in inputs) *corev1ac.PodTemplateSpecApplyConfiguration {
	s := &app.Spec
	level := podsecurity.Effective(app, in.namespaceLabels)
	spec := corev1ac.PodSpec().
		WithAutomountServiceAccountToken(s.AutomountServiceAccountToken).
		WithEnableServiceLinks(false).
		WithSecurityContext(podSecurity(app, level)).
		WithContainers(container(app, level))
	for _, ref := range s.ImagePullSecrets {
		spec.WithImagePullSecrets(corev1ac.LocalObjectReference().WithName(ref.Name))
	}
	for i := range s.Volumes {
		spec.WithVolumes(volume(&s.Volumes[i]))
	}
	if needsTmp(app, level) {
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
		spec.WithTolerations(convert[corev1ac.TolerationApplyConfiguration](t))
	}
	if s.Affinity != nil {
		spec.WithAffinity(convert[corev1ac.AffinityApplyConfiguration](s.Affinity))
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

func container(app *appsv1.WebApp, level appsv1.SecurityProfile) *corev1ac.ContainerApplyConfiguration {
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
		c.WithEnv(convert[corev1ac.EnvVarApplyConfiguration](e))
	}
	for _, e := range s.EnvFrom {
		c.WithEnvFrom(convert[corev1ac.EnvFromSourceApplyConfiguration](e))
	}
	if s.Resources.Requests != nil || s.Resources.Limits != nil || s.Resources.Claims != nil {
		c.WithResources(convert[corev1ac.ResourceRequirementsApplyConfiguration](s.Resources))
	}
	for _, m := range s.VolumeMounts {
		c.WithVolumeMounts(convert[corev1ac.VolumeMountApplyConfiguration](m))
	}
	if needsTmp(app, level) {
		c.WithVolumeMounts(corev1ac.VolumeMount().WithName(tmpVolume).WithMountPath(tmpPath))
	}
	readiness := s.Probes.Readiness
	if readiness == nil {
		readiness = &appsv1.WebAppProbe{Type: "TCP"}
	}
	c.ReadinessProbe = probe(readiness, s.Port)
	c.LivenessProbe = probe(s.Probes.Liveness, s.Port)
	c.StartupProbe = probe(s.Probes.Startup, s.Port)
	if sc := containerSecurity(app, level); sc != nil {
		c.WithSecurityContext(sc)
	}
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

// podSecurity is the pod's security context of the profile, overridden by the user's fields.
func podSecurity(app *appsv1.WebApp, level appsv1.SecurityProfile) *corev1ac.PodSecurityContextApplyConfiguration {
	sc := corev1ac.PodSecurityContext()
	if level != appsv1.ProfileCustom {
		sc.WithSeccompProfile(corev1ac.SeccompProfile().WithType(corev1.SeccompProfileTypeRuntimeDefault))
	}
	if level == appsv1.ProfileRestricted {
		sc.WithRunAsNonRoot(true)
		if privilegedPort(app) {
			// A safe sysctl, which the level restricted allows: a non-root user can listen on port 80.
			sc.WithSysctls(corev1ac.Sysctl().WithName("net.ipv4.ip_unprivileged_port_start").WithValue("0"))
		}
	}
	if app.Spec.PodSecurityContext != nil {
		mergeInto(sc, app.Spec.PodSecurityContext)
	}
	return sc
}

// containerSecurity is the container's security context of the profile, overridden by the user's fields.
func containerSecurity(app *appsv1.WebApp, level appsv1.SecurityProfile) *corev1ac.SecurityContextApplyConfiguration {
	sc := corev1ac.SecurityContext()
	switch level {
	case appsv1.ProfileRestricted:
		sc.WithAllowPrivilegeEscalation(false).
			WithReadOnlyRootFilesystem(true).
			WithCapabilities(corev1ac.Capabilities().WithDrop("ALL"))
	case appsv1.ProfileBaseline:
		sc.WithAllowPrivilegeEscalation(false)
	default:
		if app.Spec.SecurityContext == nil {
			return nil
		}
	}
	if app.Spec.SecurityContext != nil {
		mergeInto(sc, app.Spec.SecurityContext)
	}
	return sc
}

func privilegedPort(app *appsv1.WebApp) bool {
	return slices.ContainsFunc(containerPorts(app), func(p namedPort) bool { return p.number < firstUnprivilegedPort })
}

// needsTmp reports whether the pod needs a writable /tmp because its root filesystem is read-only.
func needsTmp(app *appsv1.WebApp, level appsv1.SecurityProfile) bool {
	return level == appsv1.ProfileRestricted && !slices.ContainsFunc(app.Spec.VolumeMounts,
		func(m corev1.VolumeMount) bool { return m.MountPath == tmpPath })
}
