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
	// value of the variable; $(OTHER) stands for the value of a variable that is listed before.
	// +optional
	// +kubebuilder:validation:MaxLength=131072
	Value string `json:"value,omitempty"`
	// valueFrom takes the value from a ConfigMap, a Secret or the pod. List the former two in configRefs too, to restart the pods when they change.
	// +optional
	ValueFrom *corev1.EnvVarSource `json:"valueFrom,omitempty"`
}

// WebAppProbes say how the health of a pod is found out.
type WebAppProbes struct {
	// readiness decides whether a pod gets traffic; by default its port must accept connections.
	// +optional
	Readiness *WebAppProbe `json:"readiness,omitempty"`
	// liveness decides whether a container is restarted; none by default.
	// +optional
	Liveness *WebAppProbe `json:"liveness,omitempty"`
	// startup holds the other probes back until it succeeds; none by default.
	// +optional
	Startup *WebAppProbe `json:"startup,omitempty"`
}

// WebAppProbe is one probe: an HTTP GET where path is set, else a TCP connection.
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type == 'HTTP' || !has(self.path)",message="path: only a probe of type HTTP has a path"
// +kubebuilder:validation:XValidation:rule="!has(self.type) || self.type != 'HTTP' || has(self.path)",message="path: must be set for a probe of type HTTP"
type WebAppProbe struct {
	// type is HTTP, TCP, GRPC or None; by default HTTP where path is set, else TCP.
	// +optional
	// +kubebuilder:validation:Enum=HTTP;TCP;GRPC;None
	Type string `json:"type,omitempty"`
	// path of the HTTP request, starting with "/". Success is a status of 200 to 399.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/`
	Path string `json:"path,omitempty"`
	// port to ask, spec.port by default.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// scheme of the HTTP request, HTTP by default.
	// +optional
	// +kubebuilder:validation:Enum=HTTP;HTTPS
	Scheme corev1.URIScheme `json:"scheme,omitempty"`
	// initialDelaySeconds is the time before the first probe, 0 by default.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	InitialDelaySeconds int32 `json:"initialDelaySeconds,omitempty"`
	// periodSeconds between two probes, 10 by default.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	PeriodSeconds int32 `json:"periodSeconds,omitempty"`
	// timeoutSeconds of one probe, 1 by default.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=86400
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
	// failureThreshold is the number of failures in a row that count, 3 by default.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	FailureThreshold int32 `json:"failureThreshold,omitempty"`
}

// WebAppAutoscaling makes a HorizontalPodAutoscaler.
// +kubebuilder:validation:XValidation:rule="self.minReplicas <= self.maxReplicas",message="maxReplicas: must not be below minReplicas"
// +kubebuilder:validation:XValidation:rule="has(self.targetCPUUtilizationPercentage) || has(self.targetMemoryUtilizationPercentage)",message="targetCPUUtilizationPercentage, targetMemoryUtilizationPercentage: set at least one"
type WebAppAutoscaling struct {
	// minReplicas is the least number of pods, 1 by default.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MinReplicas int32 `json:"minReplicas,omitempty"`
	// maxReplicas is the greatest number of pods.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MaxReplicas int32 `json:"maxReplicas"`
	// targetCPUUtilizationPercentage is the mean CPU use to aim at, in percent of the request.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	TargetCPUUtilizationPercentage *int32 `json:"targetCPUUtilizationPercentage,omitempty"`
	// targetMemoryUtilizationPercentage is the mean memory use to aim at, in percent of the request.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	TargetMemoryUtilizationPercentage *int32 `json:"targetMemoryUtilizationPercentage,omitempty"`
	// behavior of scaling up and down, Kubernetes' default by default.
	// +optional
	Behavior *autoscalingv2.HorizontalPodAutoscalerBehavior `json:"behavior,omitempty"`
}

// WebAppDisruption bounds voluntary evictions.
// +kubebuilder:validation:XValidation:rule="!has(self.minAvailable) || !has(self.maxUnavailable)",message="minAvailable, maxUnavailable: set one of the two"
type WebAppDisruption struct {
	// enabled is false to have no PodDisruptionBudget; true by default.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
	// minAvailable is the least number or percentage of pods that stay.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^[0-9]{1,3}%$')",message="minAvailable: must be a number of pods or a percentage such as 50%"
	MinAvailable *intstr.IntOrString `json:"minAvailable,omitempty"`
	// maxUnavailable is the greatest number or percentage of pods that may be evicted at once, 1 by default.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^[0-9]{1,3}%$')",message="maxUnavailable: must be a number of pods or a percentage such as 50%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// WebAppStrategy says how pods are replaced.
// +kubebuilder:validation:XValidation:rule="self.type == 'RollingUpdate' || (!has(self.maxSurge) && !has(self.maxUnavailable))",message="maxSurge, maxUnavailable: only a strategy of type RollingUpdate has them"
// +kubebuilder:validation:XValidation:rule="!has(self.maxSurge) || !has(self.maxUnavailable) || !(string(self.maxSurge) in ['0', '0%']) || !(string(self.maxUnavailable) in ['0', '0%'])",message="maxSurge, maxUnavailable: must not both be 0, since no pod could then be replaced"
type WebAppStrategy struct {
	// type is RollingUpdate (by default) or Recreate.
	// +optional
	// +kubebuilder:default=RollingUpdate
	// +kubebuilder:validation:Enum=RollingUpdate;Recreate
	Type string `json:"type,omitempty"`
	// maxSurge is how many pods, or what percentage, may exist above replicas, 25% by default.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^[0-9]{1,3}%$')",message="maxSurge: must be a number of pods or a percentage such as 25%"
	MaxSurge *intstr.IntOrString `json:"maxSurge,omitempty"`
	// maxUnavailable is how many pods, or what percentage, may be missing, 25% by default.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:XValidation:rule="type(self) == int ? self >= 0 : self.matches('^[0-9]{1,3}%$')",message="maxUnavailable: must be a number of pods or a percentage such as 25%"
	MaxUnavailable *intstr.IntOrString `json:"maxUnavailable,omitempty"`
}

// WebAppRollout bounds a rollout.
type WebAppRollout struct {
	// progressDeadline is how long a rollout may go without progress before it counts as failed, "10m" by default, at least "10s".
	// +optional
	// +kubebuilder:default="10m"
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:Type=string
	// +kubebuilder:validation:Format=duration
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10s') && duration(self) <= duration('24h')",message="progressDeadline: must be a duration from 10s to 24h, such as 10m"
	ProgressDeadline metav1.Duration `json:"progressDeadline,omitzero"`
	// autoRollback goes back to the last template that became ready when a rollout fails; false by default.
	// +optional
	AutoRollback bool `json:"autoRollback,omitempty"`
}

// WebAppVolume is a volume of one of the sources that a web application needs.
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
	// emptyDir is scratch space that goes with the pod.
	// +optional
	EmptyDir *corev1.EmptyDirVolumeSource `json:"emptyDir,omitempty"`
	// persistentVolumeClaim mounts a claim of the same namespace.
	// +optional
	PersistentVolumeClaim *corev1.PersistentVolumeClaimVolumeSource `json:"persistentVolumeClaim,omitempty"`
	// projected combines several sources in one folder.
	// +optional
	Projected *corev1.ProjectedVolumeSource `json:"projected,omitempty"`
}

// ConfigRef names a ConfigMap, a Secret or an AppConfig of the same namespace.
type ConfigRef struct {
	// kind is ConfigMap, Secret or AppConfig. The restarts for an AppConfig or VoteConfig, and for what it publishes, are those of its rollout.
	// +required
	// +kubebuilder:validation:Enum=ConfigMap;Secret;AppConfig
	Kind string `json:"kind"`
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Name string `json:"name"`
	// optional does not wait for the object when it is missing.
	// +optional
	Optional bool `json:"optional,omitempty"`
}
