package v1

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// WebAppEnvVar is an environment variable of the container.
// +kubebuilder:validation:XValidation:rule="!has(self.value) || !has(self.valueFrom)",message="value, valueFrom: set one of the two"
type WebAppEnvVar struct {
	// name of the variable.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[-._a-zA-Z][-._a-zA-Z0-9]*$')",message="name: consists of letters, digits, '_', '-' and '.', and does not start with a digit"
	Name string `json:"name"`
	// value of the variable. $(OTHER) expands to the value of a variable earlier in the list.
	// +optional
	// +kubebuilder:validation:MaxLength=131072
	Value string `json:"value,omitempty"`
	// valueFrom takes the value from a ConfigMap, a Secret or a field of the pod. List ConfigMaps and Secrets in spec.configRefs too,
	// so that the pods restart when they change.
	// +optional
	ValueFrom *corev1.EnvVarSource `json:"valueFrom,omitempty"`
}

// WebAppProbes are the health checks of the container.
type WebAppProbes struct {
	// readiness decides whether a pod receives traffic. By default, the port must accept TCP connections.
	// +optional
	Readiness *WebAppProbe `json:"readiness,omitempty"`
	// liveness restarts the container when it fails. There is none by default.
	// +optional
	Liveness *WebAppProbe `json:"liveness,omitempty"`
	// startup delays the other probes until it succeeds. There is none by default.
	// +optional
	Startup *WebAppProbe `json:"startup,omitempty"`
}

// WebAppProbe is one probe: an HTTP GET if path is set, otherwise a TCP connection.
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type == 'HTTP' || !has(self.path)",message="path: only a probe of type HTTP has a path"
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'HTTP' || has(self.path)",message="path: must be set for a probe of type HTTP"
type WebAppProbe struct {
	// type is HTTP, TCP, GRPC or None. Defaults to HTTP if path is set, otherwise to TCP.
	// +optional
	// +kubebuilder:validation:Enum=HTTP;TCP;GRPC;None
	Type string `json:"type,omitempty"`
	// path of the HTTP request; it starts with "/". The statuses 200 to 399 are a success.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/`
	Path string `json:"path,omitempty"`
	// port of the probe. Defaults to spec.port.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// scheme of the HTTP request: HTTP or HTTPS. Defaults to HTTP.
	// +optional
	// +kubebuilder:validation:Enum=HTTP;HTTPS
	Scheme corev1.URIScheme `json:"scheme,omitempty"`
	// initialDelaySeconds is the time in seconds before the first probe. Defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	InitialDelaySeconds int32 `json:"initialDelaySeconds,omitempty"`
	// periodSeconds is the time in seconds between two probes. Defaults to 10.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	PeriodSeconds int32 `json:"periodSeconds,omitempty"`
	// timeoutSeconds is the time in seconds after which a probe fails. Defaults to 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
	// failureThreshold is the number of consecutive failures after which the check fails. Defaults to 3.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	FailureThreshold int32 `json:"failureThreshold,omitempty"`
}

// WebAppAutoscaling creates a HorizontalPodAutoscaler.
// +kubebuilder:validation:XValidation:rule="self.minReplicas <= self.maxReplicas",message="maxReplicas: must not be below minReplicas"
// +kubebuilder:validation:XValidation:rule="has(self.targetCPUUtilizationPercentage) || has(self.targetMemoryUtilizationPercentage)",message="targetCPUUtilizationPercentage, targetMemoryUtilizationPercentage: set at least one"
type WebAppAutoscaling struct {
	// minReplicas is the smallest number of pods. Defaults to 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MinReplicas int32 `json:"minReplicas,omitempty"`
	// maxReplicas is the largest number of pods.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxReplicas int32 `json:"maxReplicas"`
	// targetCPUUtilizationPercentage is the target for the average CPU usage, in percent of resources.requests.cpu.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	TargetCPUUtilizationPercentage *int32 `json:"targetCPUUtilizationPercentage,omitempty"`
	// targetMemoryUtilizationPercentage is the target for the average memory usage, in percent of resources.requests.memory.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	TargetMemoryUtilizationPercentage *int32 `json:"targetMemoryUtilizationPercentage,omitempty"`
	// behavior of scaling up and down. Defaults to that of Kubernetes.
	// +optional
	Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior,omitempty"`
}

// WebAppDisruption limits voluntary evictions.
// +kubebuilder:validation:XValidation:rule="!has(self.minAvailable) || !has(self.maxUnavailable)",message="minAvailable, maxUnavailable: set one of the two"
type WebAppDisruption struct {
	// enabled creates the PodDisruptionBudget. Defaults to true.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
	// minAvailable is the number or percentage of pods that must stay available.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^[0-9]{1,3}%$')",message="minAvailable: must be a number of pods or a percentage such as 50%"
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`
	// maxUnavailable is the number or percentage of pods that may be evicted at once. Defaults to 1.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^[0-9]{1,3}%$')",message="maxUnavailable: must be a number of pods or a percentage such as 50%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// WebAppStrategy says how a rollout replaces pods.
// +kubebuilder:validation:XValidation:rule="self.type == 'RollingUpdate' || (!has(self.maxSurge) && !has(self.maxUnavailable))",message="maxSurge, maxUnavailable: only a strategy of type RollingUpdate has them"
// +kubebuilder:validation:XValidation:rule="!has(self.maxSurge) || !has(self.maxUnavailable) || !(string(self.maxSurge) in ['0', '0%']) || !(string(self.maxUnavailable) in ['0', '0%'])",message="maxSurge, maxUnavailable: must not both be 0, since no pod could then be replaced"
type WebAppStrategy struct {
	// type is RollingUpdate or Recreate. Defaults to RollingUpdate.
	// +optional
	// +kubebuilder:default=RollingUpdate
	// +kubebuilder:validation:Enum=RollingUpdate;Recreate
	Type string `json:"type,omitempty"`
	// maxSurge is the number or percentage of pods above spec.replicas during a rollout. Defaults to 25%.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^[0-9]{1,3}%$')",message="maxSurge: must be a number of pods or a percentage such as 25%"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
	// maxUnavailable is the number or percentage of pods that may be unavailable during a rollout. Defaults to 25%.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^[0-9]{1,3}%$')",message="maxUnavailable: must be a number of pods or a percentage such as 25%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// WebAppRollout sets the deadline of a rollout.
type WebAppRollout struct {
	// progressDeadline is the time without progress after which a rollout fails, at least "10s". Defaults to "10m".
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10s') && duration(self) <= duration('24h')",message="progressDeadline: must be a duration from 10s to 24h, such as 10m"
	ProgressDeadline metav1.Duration `json:"progressDeadline,omitzero"`
	// autoRollback restores the pod template of the last successful rollout when a rollout fails. Defaults to false.
	// +optional
	AutoRollback bool `json:"autoRollback,omitempty"`
}

// WebAppVolume is a volume with one source.
// +kubebuilder:validation:XValidation:rule="[has(self.configMap), has(self.secret), has(self.emptyDir), has(self.persistentVolumeClaim), has(self.projected)].filter(x, x).size() == 1",message="volumes: each needs exactly one of configMap, secret, emptyDir, persistentVolumeClaim and projected"
type WebAppVolume struct {
	// name of the volume.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$') && !self.startsWith('fettle-')",message="name: must be lower-case letters, digits and '-', and not start with \"fettle-\""
	Name string `json:"name"`
	// configMap mounts the keys of a ConfigMap as files.
	// +optional
	ConfigMap *corev1.ConfigMapVolumeSource `json:"configMap,omitempty"`
	// secret mounts the keys of a Secret as files.
	// +optional
	Secret *corev1.SecretVolumeSource `json:"secret,omitempty"`
	// emptyDir is scratch space that is deleted with the pod.
	// +optional
	EmptyDir *corev1.EmptyDirVolumeSource `json:"emptyDir,omitempty"`
	// persistentVolumeClaim mounts a PersistentVolumeClaim of the same namespace.
	// +optional
	PersistentVolumeClaim *corev1.PersistentVolumeClaimVolumeSource `json:"persistentVolumeClaim,omitempty"`
	// projected combines several sources in one directory.
	// +optional
	Projected *corev1.ProjectedVolumeSource `json:"projected,omitempty"`
}

// ConfigRef refers to a ConfigMap, a Secret or an AppConfig of the same namespace.
type ConfigRef struct {
	// kind is ConfigMap, Secret or AppConfig. The rollout of an AppConfig or VoteConfig restarts the pods for the objects that it
	// publishes.
	// +required
	// +kubebuilder:validation:Enum=ConfigMap;Secret;AppConfig
	Kind string `json:"kind"`
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`
	// optional starts the pods although the object does not exist. Defaults to false.
	// +optional
	Optional bool `json:"optional,omitempty"`
}
