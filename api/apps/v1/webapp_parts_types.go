package v1

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
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

// WebAppService shapes the Service.
type WebAppService struct {
	// type of the Service, ClusterIP by default.
	// +optional
	// +kubebuilder:default=ClusterIP
	// +kubebuilder:validation:Enum=ClusterIP;NodePort;LoadBalancer
	Type corev1.ServiceType `json:"type,omitempty"`
	// port of the Service, spec.port by default.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port,omitempty"`
	// annotations of the Service, for example for a cloud's load balancer.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	Annotations map[string]string `json:"annotations,omitempty"`
	// extraPorts are further ports of the Service and the container.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:XValidation:rule="self.all(p, self.exists_one(q, q.port == p.port))",message="extraPorts: each port may be listed once"
	ExtraPorts []WebAppPort `json:"extraPorts,omitempty"`
}

// WebAppPort is a further TCP port.
type WebAppPort struct {
	// name of the port, for example "metrics".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([a-z0-9-]*[a-z0-9])?$') && self != 'http'",message="name: must be lower-case letters, digits and '-', start with a letter, and not be \"http\", the name of the main port"
	Name string `json:"name"`
	// port of the Service.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port int32 `json:"port"`
	// targetPort of the container, port by default.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	TargetPort int32 `json:"targetPort,omitempty"`
}

// WebAppIngress publishes the application through an Ingress.
// +kubebuilder:validation:XValidation:rule="!has(self.tlsSecretName) || !has(self.certIssuer)",message="tlsSecretName, certIssuer: set one of the two"
type WebAppIngress struct {
	// host name, for example "shop.example.com".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')",message="host: must be a DNS name in lower case, optionally starting with '*.'"
	Host string `json:"host"`
	// path prefix, "/" by default.
	// +optional
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[-a-zA-Z0-9._~%!$&()*+,=:@/]*$')",message="path: must start with '/' and hold only characters of a URL path"
	Path string `json:"path,omitempty"`
	// pathType, Prefix by default.
	// +optional
	// +kubebuilder:default=Prefix
	// +kubebuilder:validation:Enum=Exact;Prefix;ImplementationSpecific
	PathType networkingv1.PathType `json:"pathType,omitempty"`
	// className of the ingress controller, the cluster's default by default.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	ClassName string `json:"className,omitempty"`
	// tlsSecretName names a Secret of type kubernetes.io/tls.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	TLSSecretName string `json:"tlsSecretName,omitempty"`
	// certIssuer has cert-manager issue the certificate, into the Secret "<name>-tls".
	// +optional
	CertIssuer *CertIssuer `json:"certIssuer,omitempty"`
	// annotations of the Ingress. Those that inject configuration into the ingress controller are refused.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	// +kubebuilder:validation:XValidation:rule="self.all(k, !k.endsWith('-snippet') && !k.endsWith('-snippets'))",message="annotations: snippets inject configuration into the ingress controller and are refused"
	Annotations map[string]string `json:"annotations,omitempty"`
}

// CertIssuer names an issuer of cert-manager.
type CertIssuer struct {
	// name of the issuer.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// kind of the issuer: Issuer (by default) or ClusterIssuer.
	// +optional
	// +kubebuilder:default=Issuer
	// +kubebuilder:validation:Enum=Issuer;ClusterIssuer
	Kind string `json:"kind,omitempty"`
}

// WebAppGateway publishes the application through an HTTPRoute.
type WebAppGateway struct {
	// parentRefs are the Gateways that should serve the route.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	ParentRefs []GatewayRef `json:"parentRefs"`
	// hostnames that the route answers to; all of the Gateway's by default.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:items:Pattern=`^(\*\.)?[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	Hostnames []string `json:"hostnames,omitempty"`
	// path prefix, "/" by default.
	// +optional
	// +kubebuilder:default="/"
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/`
	Path string `json:"path,omitempty"`
}

// GatewayRef names a Gateway.
type GatewayRef struct {
	// name of the Gateway.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// namespace of the Gateway, the WebApp's by default. The Gateway decides which namespaces it serves.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	Namespace string `json:"namespace,omitempty"`
	// sectionName is a listener of the Gateway, all by default.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	SectionName string `json:"sectionName,omitempty"`
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

// WebAppNetworkPolicy admits traffic only from where it says.
type WebAppNetworkPolicy struct {
	// enabled is false to have no NetworkPolicy; true by default.
	// +optional
	// +kubebuilder:default=true
	Enabled *bool `json:"enabled,omitempty"`
	// from are the peers that may connect to the pods; by default the pods of the same namespace. An ingress
	// controller, a gateway or Prometheus in another namespace has to be named here.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	From []networkingv1.NetworkPolicyPeer `json:"from,omitempty"`
}

// WebAppMonitoring makes a ServiceMonitor.
type WebAppMonitoring struct {
	// port is the name of the Service's port that serves metrics, "http" (the main port) by default.
	// +optional
	// +kubebuilder:default=http
	// +kubebuilder:validation:MaxLength=15
	Port string `json:"port,omitempty"`
	// path of the metrics, "/metrics" by default.
	// +optional
	// +kubebuilder:default="/metrics"
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:Pattern=`^/`
	Path string `json:"path,omitempty"`
	// interval between two scrapes, "30s" by default.
	// +optional
	// +kubebuilder:default="30s"
	// +kubebuilder:validation:MaxLength=16
	// +kubebuilder:validation:Pattern=`^[1-9][0-9]*(ms|s|m|h)$`
	Interval string `json:"interval,omitempty"`
	// labels of the ServiceMonitor, where Prometheus selects by them.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	Labels map[string]string `json:"labels,omitempty"`
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

// ConfigRef names a ConfigMap or Secret of the same namespace.
type ConfigRef struct {
	// kind is ConfigMap or Secret.
	// +required
	// +kubebuilder:validation:Enum=ConfigMap;Secret
	Kind string `json:"kind"`
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// optional does not wait for the object when it is missing.
	// +optional
	Optional bool `json:"optional,omitempty"`
}
