// Package server has the desired state of the servers that an AppStack runs itself: a cache and a MySQL, each a StatefulSet of one pod with
// an official image. It is pure: the controller reads and writes the objects.
package server

import (
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/podsecurity"
)

// Input is what the objects of a server are made from.
type Input struct {
	// Namespace and Name of the objects. Name is "<stack>-<component>".
	Namespace, Name string
	// Labels of every object and pod.
	Labels map[string]string
	// Selector is the subset of Labels by which the StatefulSet and the Service select the pod. It never changes.
	Selector map[string]string
	// Inherited is added to the pods and volumes. The applier adds it to the objects themselves.
	Inherited *fettlev1.InheritedMetadata
	// Clients may connect. Without a list, there is no NetworkPolicy. With an empty one, no client may connect.
	Clients []networkingv1.NetworkPolicyPeer
	// Retain keeps the volume of a MySQL when its StatefulSet is deleted.
	Retain bool
	// Storage is the size of the volume of a MySQL in a new claim template.
	Storage resource.Quantity
	// LiveTemplateStorage is the size in the claim template of the existing StatefulSet, which is immutable; nil if there is none.
	LiveTemplateStorage *resource.Quantity
	// LiveTemplateMetadata has the labels and annotations in that claim template, which are immutable too; nil if there is none.
	LiveTemplateMetadata *metav1.ObjectMeta
	// Destination of the dumps of a MySQL; nil for none.
	Destination *backupv1alpha1.Destination
	// SecretVersion changes with the credentials, so that the pod restarts. It is not secret. Empty without credentials.
	SecretVersion string
}

// annotationSecretVersion, on the pod, is [Input.SecretVersion].
const annotationSecretVersion = "fettle.dev/secret-version"

const (
	// userID is the user and group of the servers in all four official images.
	userID = 999
	// secretMode lets the group of the pod read a file of the Secret.
	secretMode = 0o440

	secretVolume = "credentials"
	// secretPath is where the container has files of the Secret.
	secretPath = "/etc/fettle"
)

// Keys of the Secrets.
const (
	keyHost     = "host"
	keyPort     = "port"
	keyUsername = "username"
	keyPassword = "password"
	keyURI      = "uri"
)

// SecretName is the name of the Secret with the credentials of a server.
func SecretName(name string) string { return name + "-credentials" }

// host is the address of the server inside the cluster.
func (in *Input) host() string { return in.Name + "." + in.Namespace + ".svc" }

// secret is the Secret with these fields.
func (in *Input) secret(fields map[string]string) *corev1.Secret {
	s := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: in.Namespace, Name: SecretName(in.Name), Labels: in.Labels},
		Type:       corev1.SecretTypeOpaque, Data: map[string][]byte{},
	}
	for key, value := range fields {
		s.Data[key] = []byte(value)
	}
	return s
}

// fromSecret is an environment variable with the value of a key of the Secret.
func (in *Input) fromSecret(variable, key string) *corev1ac.EnvVarApplyConfiguration {
	return corev1ac.EnvVar().WithName(variable).WithValueFrom(corev1ac.EnvVarSource().
		WithSecretKeyRef(corev1ac.SecretKeySelector().WithName(SecretName(in.Name)).WithKey(key)))
}

// withSecretFile mounts one key of the Secret as a file of that name in secretPath.
func (in *Input) withSecretFile(pod *corev1ac.PodSpecApplyConfiguration, c *corev1ac.ContainerApplyConfiguration, key string) {
	pod.WithVolumes(corev1ac.Volume().WithName(secretVolume).WithSecret(corev1ac.SecretVolumeSource().
		WithSecretName(SecretName(in.Name)).
		WithDefaultMode(secretMode).
		WithItems(corev1ac.KeyToPath().WithKey(key).WithPath(key))))
	c.WithVolumeMounts(corev1ac.VolumeMount().WithName(secretVolume).WithMountPath(secretPath).WithReadOnly(true))
}

// withScratch mounts a directory that the server writes to and that the pod does not keep.
func withScratch(pod *corev1ac.PodSpecApplyConfiguration, c *corev1ac.ContainerApplyConfiguration, name, path string) {
	pod.WithVolumes(corev1ac.Volume().WithName(name).WithEmptyDir(corev1ac.EmptyDirVolumeSource()))
	c.WithVolumeMounts(corev1ac.VolumeMount().WithName(name).WithMountPath(path))
}

// restricted adds the complete container to a pod, which then passes Pod Security "restricted".
func restricted(pod *corev1ac.PodSpecApplyConfiguration, c *corev1ac.ContainerApplyConfiguration, graceSeconds int64) *corev1ac.PodSpecApplyConfiguration {
	podContext, containerContext := podsecurity.Profile(appsv1.ProfileRestricted)
	return pod.
		WithAutomountServiceAccountToken(false).
		WithEnableServiceLinks(false).
		WithTerminationGracePeriodSeconds(graceSeconds).
		WithSecurityContext(podContext.WithRunAsUser(userID).WithRunAsGroup(userID).WithFSGroup(userID).
			WithFSGroupChangePolicy(corev1.FSGroupChangeOnRootMismatch)).
		WithContainers(c.WithSecurityContext(containerContext))
}

// container is the server's container. The policy is set explicitly: otherwise the default for the first image would stay when the tag
// changes.
func container(name, image, portName string, port int32) *corev1ac.ContainerApplyConfiguration {
	return corev1ac.Container().
		WithName(name).
		WithImage(image).
		WithImagePullPolicy(corev1.PullIfNotPresent).
		WithPorts(corev1ac.ContainerPort().WithName(portName).WithProtocol(corev1.ProtocolTCP).WithContainerPort(port))
}

// execProbe is a probe that runs a command in the container, without a shell.
func execProbe(command []string, periodSeconds, timeoutSeconds, failures int32) *corev1ac.ProbeApplyConfiguration {
	return corev1ac.Probe().
		WithExec(corev1ac.ExecAction().WithCommand(command...)).
		WithPeriodSeconds(periodSeconds).
		WithTimeoutSeconds(timeoutSeconds).
		WithFailureThreshold(failures)
}

// statefulSet runs one pod. Ordinary pod management would never replace a pod that cannot become ready, for example after a mistake in the
// name of the image.
func (in *Input) statefulSet(pod *corev1ac.PodSpecApplyConfiguration) *appsv1ac.StatefulSetApplyConfiguration {
	template := corev1ac.PodTemplateSpec().WithLabels(in.Labels).WithSpec(pod)
	if in.SecretVersion != "" {
		template.WithAnnotations(map[string]string{annotationSecretVersion: in.SecretVersion})
	}
	if m := in.Inherited.OrNil(); m != nil {
		template.Labels = fettlev1.Inherit(template.Labels, m.Labels)
		template.Annotations = fettlev1.Inherit(template.Annotations, m.Annotations)
	}
	return appsv1ac.StatefulSet(in.Name, in.Namespace).
		WithLabels(in.Labels).
		WithSpec(appsv1ac.StatefulSetSpec().
			WithReplicas(1).
			WithServiceName(in.Name).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(in.Selector)).
			WithPodManagementPolicy(k8sappsv1.ParallelPodManagement).
			WithUpdateStrategy(appsv1ac.StatefulSetUpdateStrategy().WithType(k8sappsv1.RollingUpdateStatefulSetStrategyType)).
			WithRevisionHistoryLimit(1).
			WithTemplate(template))
}

func (in *Input) service(portName string, port int32) *corev1ac.ServiceApplyConfiguration {
	return corev1ac.Service(in.Name, in.Namespace).
		WithLabels(in.Labels).
		WithSpec(corev1ac.ServiceSpec().
			WithType(corev1.ServiceTypeClusterIP).
			WithSelector(in.Selector).
			WithPorts(corev1ac.ServicePort().WithName(portName).WithProtocol(corev1.ProtocolTCP).
				WithPort(port).WithTargetPort(intstr.FromString(portName))))
}

// networkPolicy lets the clients and further peers connect to the port. It returns nothing if the clients are not limited.
func (in *Input) networkPolicy(portName string, further ...networkingv1.NetworkPolicyPeer) []runtime.ApplyConfiguration {
	if in.Clients == nil {
		return nil
	}
	spec := networkingv1ac.NetworkPolicySpec().
		WithPodSelector(metav1ac.LabelSelector().WithMatchLabels(in.Selector)).
		WithPolicyTypes(networkingv1.PolicyTypeIngress)
	rule := networkingv1ac.NetworkPolicyIngressRule().
		WithPorts(networkingv1ac.NetworkPolicyPort().WithProtocol(corev1.ProtocolTCP).WithPort(intstr.FromString(portName)))
	for _, peers := range [][]networkingv1.NetworkPolicyPeer{in.Clients, further} {
		for _, peer := range peers {
			rule.WithFrom(apply.Convert[networkingv1ac.NetworkPolicyPeerApplyConfiguration](peer))
		}
	}
	if len(rule.From) > 0 { // a rule without peers would let all clients connect
		spec.WithIngress(rule)
	}
	return []runtime.ApplyConfiguration{networkingv1ac.NetworkPolicy(in.Name, in.Namespace).WithLabels(in.Labels).WithSpec(spec)}
}
