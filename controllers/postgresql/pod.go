package postgresql

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/podsecurity"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// The pod, as the agent expects it.
const (
	mainContainer = databasev1alpha1.MainContainer
	initContainer = databasev1alpha1.InstallContainer

	portPostgres = 5432
	portProbes   = 8080
	portMetrics  = 9187

	volumeBin         = "bin"
	volumeRun         = "run"
	volumeTmp         = "tmp"
	volumeMemory      = "memory"
	volumeServer      = "server-certificate"
	volumeReplication = "replication-certificate"
	volumeSource      = "source"

	// secretMode lets the group of the pod read, as PostgreSQL wants of a key that root owns.
	secretMode = 0o440
)

// podTemplate of an instance. What of the spec is in it needs another pod where it changes, and is in [asking] too.
func podTemplate(pg *databasev1alpha1.PostgreSQL, agentImage string, volumeSet int) *corev1ac.PodTemplateSpecApplyConfiguration {
	id := user(pg)
	podContext, containerContext := podsecurity.Profile(appsv1.ProfileRestricted)
	containerContext.WithRunAsNonRoot(true)
	spec := corev1ac.PodSpec().
		WithServiceAccountName(pg.Name).
		WithAutomountServiceAccountToken(true).
		WithEnableServiceLinks(false).
		WithTerminationGracePeriodSeconds(*pg.Spec.TerminationGracePeriodSeconds).
		WithSecurityContext(podContext.WithRunAsUser(id).WithRunAsGroup(id).WithFSGroup(id).
			WithFSGroupChangePolicy(corev1.FSGroupChangeOnRootMismatch)).
		WithInitContainers(install(pg, agentImage).WithSecurityContext(containerContext)).
		WithContainers(postgres(pg, volumeSet).WithSecurityContext(containerContext)).
		WithVolumes(volumes(pg)...)
	placement(pg, spec)
	for _, ref := range pg.Spec.ImagePullSecrets {
		spec.WithImagePullSecrets(corev1ac.LocalObjectReference().WithName(ref.Name))
	}
	annotations := map[string]string{"kubectl.kubernetes.io/default-container": mainContainer}
	if at := pg.Annotations[databasev1alpha1.AnnotationRestart]; at != "" {
		annotations[databasev1alpha1.AnnotationRestart] = at
	}
	return overlaid(pg, corev1ac.PodTemplateSpec().WithLabels(labels(pg)).WithAnnotations(annotations).WithSpec(spec))
}

func placement(pg *databasev1alpha1.PostgreSQL, spec *corev1ac.PodSpecApplyConfiguration) {
	if pg.Spec.PriorityClassName != "" {
		spec.WithPriorityClassName(pg.Spec.PriorityClassName)
	}
	if len(pg.Spec.NodeSelector) > 0 {
		spec.WithNodeSelector(pg.Spec.NodeSelector)
	}
	for _, t := range pg.Spec.Tolerations {
		spec.WithTolerations(apply.Convert[corev1ac.TolerationApplyConfiguration](t))
	}
	if pg.Spec.Affinity != nil {
		spec.WithAffinity(apply.Convert[corev1ac.AffinityApplyConfiguration](pg.Spec.Affinity))
	}
	if pg.Spec.TopologySpreadConstraints == nil {
		spread(pg, spec)
	}
	for _, c := range pg.Spec.TopologySpreadConstraints {
		if c.LabelSelector == nil {
			c.LabelSelector = &metav1.LabelSelector{MatchLabels: selector(pg)}
		}
		spec.WithTopologySpreadConstraints(apply.Convert[corev1ac.TopologySpreadConstraintApplyConfiguration](c))
	}
}

// spread keeps instances on different nodes and then in different zones, as far as there are such. Nothing of it keeps a pod from
// a node. On nodes without a zone's label, a constraint that names the zone has the scheduler ignore all constraints, so that only
// nodes are named there; zones are kept apart by affinity. Each of the two weighs 200 points for a free node against one with an
// instance, where the images, free resources and balance of a node, all together, weigh 300.
func spread(pg *databasev1alpha1.PostgreSQL, spec *corev1ac.PodSpecApplyConfiguration) {
	instances := metav1ac.LabelSelector().WithMatchLabels(selector(pg))
	spec.WithTopologySpreadConstraints(corev1ac.TopologySpreadConstraint().
		WithMaxSkew(1).WithTopologyKey(corev1.LabelHostname).WithWhenUnsatisfiable(corev1.ScheduleAnyway).WithLabelSelector(instances))
	if spec.Affinity == nil {
		spec.WithAffinity(corev1ac.Affinity())
	}
	if spec.Affinity.PodAntiAffinity == nil {
		spec.Affinity.WithPodAntiAffinity(corev1ac.PodAntiAffinity())
	}
	apart := func(key string, weight int32) *corev1ac.WeightedPodAffinityTermApplyConfiguration {
		return corev1ac.WeightedPodAffinityTerm().WithWeight(weight).
			WithPodAffinityTerm(corev1ac.PodAffinityTerm().WithTopologyKey(key).WithLabelSelector(instances))
	}
	spec.Affinity.PodAntiAffinity.WithPreferredDuringSchedulingIgnoredDuringExecution(
		apart(corev1.LabelHostname, 100), apart(corev1.LabelTopologyZone, 50))
}

// install copies the agent into the pod, so that the image of PostgreSQL can be any.
func install(pg *databasev1alpha1.PostgreSQL, agentImage string) *corev1ac.ContainerApplyConfiguration {
	c := corev1ac.Container().
		WithName(initContainer).
		WithImage(agentImage).
		WithCommand("/fettle", "install", "/fettle-bin").
		WithResources(corev1ac.ResourceRequirements().
			WithRequests(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("10m"), corev1.ResourceMemory: resource.MustParse("32Mi")}).
			WithLimits(corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("128Mi")})).
		WithVolumeMounts(corev1ac.VolumeMount().WithName(volumeBin).WithMountPath("/fettle-bin"))
	if pg.Spec.ImagePullPolicy != "" {
		c.WithImagePullPolicy(pg.Spec.ImagePullPolicy)
	}
	return c
}

func postgres(pg *databasev1alpha1.PostgreSQL, volumeSet int) *corev1ac.ContainerApplyConfiguration {
	c := corev1ac.Container().
		WithName(mainContainer).
		WithImage(pg.Spec.EffectiveImage()).
		WithCommand("/fettle-bin/fettle", "agent").
		WithEnv(
			corev1ac.EnvVar().WithName("CLUSTER_NAME").WithValue(pg.Name),
			fromField("POD_NAME", "metadata.name"), fromField("POD_UID", "metadata.uid"), fromField("POD_NAMESPACE", "metadata.namespace"),
			corev1ac.EnvVar().WithName("PGHOST").WithValue("/run/fettle"), // for psql in the pod
			corev1ac.EnvVar().WithName("PGUSER").WithValue("postgres"),
		).
		WithPorts(port("postgres", portPostgres), port("agent", agentapi.Port), port("probes", portProbes), port("metrics", portMetrics)).
		WithStartupProbe(probe("/startupz", 1, 3, 120)).
		WithReadinessProbe(probe("/readyz", 2, 2, 1)).
		WithLivenessProbe(probe("/livez", 5, 5, 3).WithTerminationGracePeriodSeconds(10)).
		WithVolumeMounts(
			mount(agentapi.ClaimTemplate(volumeSet), "/data"), mount(volumeBin, "/fettle-bin").WithReadOnly(true), mount(volumeRun, "/run/fettle"),
			mount(volumeTmp, "/tmp"), mount(volumeMemory, "/dev/shm"),
			mount(volumeServer, "/etc/fettle/tls/server").WithReadOnly(true),
			mount(volumeReplication, "/etc/fettle/tls/replication").WithReadOnly(true),
		)
	if pg.Spec.Bootstrap.PgBasebackup != nil {
		c.WithVolumeMounts(mount(volumeSource, "/etc/fettle/source").WithReadOnly(true))
	}
	if len(pg.Spec.Resources.Limits)+len(pg.Spec.Resources.Requests)+len(pg.Spec.Resources.Claims) > 0 {
		c.WithResources(apply.Convert[corev1ac.ResourceRequirementsApplyConfiguration](pg.Spec.Resources))
	}
	if _, limited := pg.Spec.Resources.Limits[corev1.ResourceMemory]; limited {
		c.WithEnv(corev1ac.EnvVar().WithName("MEMORY_LIMIT").WithValueFrom(corev1ac.EnvVarSource().WithResourceFieldRef(
			corev1ac.ResourceFieldSelector().WithResource("limits.memory").WithDivisor(resource.MustParse("1")))))
	}
	if pg.Spec.ImagePullPolicy != "" {
		c.WithImagePullPolicy(pg.Spec.ImagePullPolicy)
	}
	return c
}

func volumes(pg *databasev1alpha1.PostgreSQL) []*corev1ac.VolumeApplyConfiguration {
	empty := func(name string, medium corev1.StorageMedium) *corev1ac.VolumeApplyConfiguration {
		source := corev1ac.EmptyDirVolumeSource()
		if medium != "" {
			source.WithMedium(medium)
		}
		return corev1ac.Volume().WithName(name).WithEmptyDir(source)
	}
	secret := func(name, secretName string) *corev1ac.VolumeApplyConfiguration {
		return corev1ac.Volume().WithName(name).
			WithSecret(corev1ac.SecretVolumeSource().WithSecretName(secretName).WithDefaultMode(secretMode))
	}
	out := []*corev1ac.VolumeApplyConfiguration{
		empty(volumeBin, ""), empty(volumeRun, ""), empty(volumeTmp, ""), empty(volumeMemory, corev1.StorageMediumMemory),
		secret(volumeServer, serverSecret(pg)), secret(volumeReplication, clientSecret(pg)),
	}
	if from := pg.Spec.Bootstrap.PgBasebackup; from != nil {
		out = append(out, corev1ac.Volume().WithName(volumeSource).WithProjected(sourceSecrets(from)))
	}
	return out
}

func fromField(name, path string) *corev1ac.EnvVarApplyConfiguration {
	return corev1ac.EnvVar().WithName(name).
		WithValueFrom(corev1ac.EnvVarSource().WithFieldRef(corev1ac.ObjectFieldSelector().WithAPIVersion("v1").WithFieldPath(path)))
}

func port(name string, number int32) *corev1ac.ContainerPortApplyConfiguration {
	return corev1ac.ContainerPort().WithName(name).WithContainerPort(number).WithProtocol(corev1.ProtocolTCP)
}

func mount(name, path string) *corev1ac.VolumeMountApplyConfiguration {
	return corev1ac.VolumeMount().WithName(name).WithMountPath(path)
}

// probe asks the agent, every period seconds.
func probe(path string, period, timeout, failures int32) *corev1ac.ProbeApplyConfiguration {
	return corev1ac.Probe().
		WithHTTPGet(corev1ac.HTTPGetAction().WithPath(path).WithPort(intstr.FromString("probes")).WithScheme(corev1.URISchemeHTTP)).
		WithPeriodSeconds(period).WithTimeoutSeconds(timeout).WithFailureThreshold(failures).WithSuccessThreshold(1)
}

// major is the first number of spec.version.
func major(pg *databasev1alpha1.PostgreSQL) int {
	first, _, _ := strings.Cut(pg.Spec.Version, ".")
	n, _ := strconv.Atoi(first) // the schema holds that it is a number
	return n
}
