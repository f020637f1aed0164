package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

// WebApp runs a stateless web application: a Deployment and a Service. On request it adds an Ingress or HTTPRoute, a
// HorizontalPodAutoscaler, a PodDisruptionBudget, a NetworkPolicy and a ServiceMonitor.
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=wa,categories=fettle
// +kubebuilder:subresource:status
// +kubebuilder:selectablefield:JSONPath=`.spec.image`
// +kubebuilder:subresource:scale:specpath=.spec.replicas,statuspath=.status.replicas,selectorpath=.status.selector
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Replicas",type=integer,JSONPath=`.status.replicas`
// +kubebuilder:printcolumn:name="Available",type=integer,JSONPath=`.status.availableReplicas`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Image",type=string,priority=1,JSONPath=`.spec.image`
// +kubebuilder:printcolumn:name="URL",type=string,priority=1,JSONPath=`.status.url`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name: must be a DNS label of at most 63 characters (lower-case letters, digits and '-', starting with a letter), since a Service of this name is made"
// +operator-sdk:csv:customresourcedefinitions:displayName="WebApp",order=1,resources={{Deployment,v1,""},{Service,v1,""},{Ingress,v1,""},{HorizontalPodAutoscaler,v2,""},{PodDisruptionBudget,v1,""},{NetworkPolicy,v1,""},{Pod,v1,""},{Event,v1,""}}
type WebApp struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the desired state.
	// +required
	Spec WebAppSpec `json:"spec,omitzero"`
	// status is the observed state.
	// +optional
	// +kubebuilder:default={phase: "Pending", conditions: {{type: "Ready", status: "Unknown", reason: "Reconciling", message: "waiting for the Fettle operator", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status WebAppStatus `json:"status,omitzero"`
}

// Conditions returns the conditions of the status.
func (app *WebApp) Conditions() *[]metav1.Condition { return &app.Status.Conditions }

// SetObserved sets the phase, and the generation that the status describes.
func (app *WebApp) SetObserved(phase string) {
	app.Status.ObservedGeneration, app.Status.Phase = app.Generation, WebAppPhase(phase)
}

// Inherited returns the labels and annotations of all children; nil for none.
func (app *WebApp) Inherited() *fettlev1.InheritedMetadata { return app.Spec.InheritedMetadata.OrNil() }

// WebAppList is a list of WebApps.
// +kubebuilder:object:root=true
type WebAppList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WebApp `json:"items"`
}

// SecurityProfile is a set of defaults for the security contexts of the pods.
// +kubebuilder:validation:Enum=Baseline;Restricted;Custom
type SecurityProfile string

const (
	// ProfileBaseline keeps the capabilities that common images need: nginx can listen on port 80 as root.
	ProfileBaseline SecurityProfile = "Baseline"
	// ProfileRestricted satisfies the Pod Security level restricted and mounts the root filesystem read-only.
	ProfileRestricted SecurityProfile = "Restricted"
	// ProfileCustom sets only the fields of spec.securityContext and spec.podSecurityContext.
	ProfileCustom SecurityProfile = "Custom"
)

// MainContainer is the name of the container that runs spec.image. spec.podTemplate refers to it.
const MainContainer = "app"

// WebAppSpec is the desired state.
// +kubebuilder:validation:XValidation:rule="!has(self.volumeMounts) || self.volumeMounts.all(m, has(self.volumes) && self.volumes.exists(v, v.name == m.name))",message="volumeMounts: each name must be the name of one of spec.volumes"
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || !has(self.autoscaling.targetCPUUtilizationPercentage) || (has(self.resources) && ((has(self.resources.requests) && 'cpu' in self.resources.requests) || (has(self.resources.limits) && 'cpu' in self.resources.limits)))",message="autoscaling.targetCPUUtilizationPercentage: is a percentage of resources.requests.cpu, which must be set"
// +kubebuilder:validation:XValidation:rule="!has(self.autoscaling) || !has(self.autoscaling.targetMemoryUtilizationPercentage) || (has(self.resources) && ((has(self.resources.requests) && 'memory' in self.resources.requests) || (has(self.resources.limits) && 'memory' in self.resources.limits)))",message="autoscaling.targetMemoryUtilizationPercentage: is a percentage of resources.requests.memory, which must be set"
// +kubebuilder:validation:XValidation:rule="!has(self.service) || !has(self.service.extraPorts) || self.service.extraPorts.all(p, p.port != (has(self.service.port) ? self.service.port : self.port))",message="service.extraPorts: must not repeat the port of the Service"
// +kubebuilder:validation:XValidation:rule="!has(self.monitoring) || !has(self.monitoring.port) || self.monitoring.port == 'http' || (has(self.service) && has(self.service.extraPorts) && self.service.extraPorts.exists(p, p.name == self.monitoring.port))",message="monitoring.port: must be http or the name of one of service.extraPorts"
// +kubebuilder:validation:XValidation:rule="!has(self.securityContext) || !has(self.securityContext.privileged) || !self.securityContext.privileged",message="securityContext.privileged: a WebApp is never privileged; remove the field"
// +kubebuilder:validation:XValidation:rule="!has(self.securityProfile) || self.securityProfile != 'Restricted' || !has(self.securityContext) || (!(has(self.securityContext.allowPrivilegeEscalation) && self.securityContext.allowPrivilegeEscalation) && !(has(self.securityContext.capabilities) && has(self.securityContext.capabilities.add) && self.securityContext.capabilities.add.exists(c, c != 'NET_BIND_SERVICE')) && !(has(self.securityContext.runAsUser) && self.securityContext.runAsUser == 0) && !(has(self.securityContext.runAsNonRoot) && !self.securityContext.runAsNonRoot))",message="securityContext: weakens the Restricted profile (privilege escalation, an added capability or root); use securityProfile Custom or remove the field"
type WebAppSpec struct {
	// image is the container image to run, for example "nginx:1.25". A change starts a rollout.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9][a-zA-Z0-9._:/@+-]*$')",message="image: must be an image reference such as registry.example.com/team/app:v1, without spaces"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Image",order=1
	Image string `json:"image"`

	// replicas is the number of pods. Defaults to 1; 0 stops the application. It is ignored while spec.autoscaling is set or another
	// autoscaler scales the Deployment.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Replicas",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:podCount"},order=2
	Replicas *int32 `json:"replicas,omitempty"`

	// port is the TCP port on which the container listens, and the default port of the Service. Defaults to 80.
	// +optional
	// +kubebuilder:default=80
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Port",order=3
	Port int32 `json:"port,omitempty"`

	// paused stops reconciliation: Fettle changes no child object of this WebApp. Ready keeps reporting whether the pods are
	// available. Defaults to false.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Paused",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced","urn:alm:descriptor:com.tectonic.ui:booleanSwitch"}
	Paused bool `json:"paused,omitempty"`

	// imagePullPolicy says when the kubelet pulls the image: Always, IfNotPresent or Never. Defaults to Always for the tag latest,
	// otherwise to IfNotPresent.
	// +optional
	// +kubebuilder:validation:Enum=Always;IfNotPresent;Never
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Image Pull Policy",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced","urn:alm:descriptor:com.tectonic.ui:imagePullPolicy"}
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`

	// imagePullSecrets are Secrets with the credentials of the image's registry.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=10
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Image Pull Secrets",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	ImagePullSecrets []fettlev1.LocalReference `json:"imagePullSecrets,omitempty"`

	// command replaces the entry point of the image. It does not run in a shell.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MaxLength=8192
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Command",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Command []string `json:"command,omitempty"`

	// args replaces the arguments of the image.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=200
	// +kubebuilder:validation:items:MaxLength=8192
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Arguments",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Args []string `json:"args,omitempty"`

	// env is the list of environment variables of the container.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=500
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Environment"
	Env []WebAppEnvVar `json:"env,omitempty"`

	// envFrom adds all keys of ConfigMaps or Secrets as environment variables. List the objects in spec.configRefs too, so that the
	// pods restart when they change.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Environment From",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	EnvFrom []corev1.EnvFromSource `json:"envFrom,omitempty"`

	// resources are the CPU and memory requests and limits of the container.
	// +optional
	// +kubebuilder:validation:XValidation:rule="!has(self.requests) || !has(self.limits) || ['cpu', 'memory', 'ephemeral-storage'].all(k, !(k in self.requests) || !(k in self.limits) || quantity(string(self.requests[k])).compareTo(quantity(string(self.limits[k]))) <= 0)",message="resources: no request may be above its limit"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Resources",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:resourceRequirements"}
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`

	// probes are the health checks of the container. By default a pod is ready when its port accepts connections.
	// +optional
	// +kubebuilder:default={}
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Probes",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Probes WebAppProbes `json:"probes,omitzero"`

	// securityProfile is Baseline, Restricted (satisfies the Pod Security level restricted) or Custom. Defaults to Restricted in a
	// namespace that enforces that level, otherwise to Baseline.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Security Profile",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced","urn:alm:descriptor:com.tectonic.ui:select:Baseline","urn:alm:descriptor:com.tectonic.ui:select:Restricted","urn:alm:descriptor:com.tectonic.ui:select:Custom"}
	SecurityProfile SecurityProfile `json:"securityProfile,omitempty"`

	// securityContext sets fields of the container's security context. They override those of the profile.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Security Context",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	SecurityContext *corev1.SecurityContext `json:"securityContext,omitempty"`

	// podSecurityContext sets fields of the pod's security context. They override those of the profile.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Pod Security Context",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	PodSecurityContext *corev1.PodSecurityContext `json:"podSecurityContext,omitempty"`

	// serviceAccountName is the ServiceAccount of the pods. Defaults to "default".
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$`
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Service Account",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced","urn:alm:descriptor:io.kubernetes:ServiceAccount"}
	ServiceAccountName string `json:"serviceAccountName,omitempty"`

	// automountServiceAccountToken mounts a token for the Kubernetes API into the pods. Defaults to false.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Mount API Token",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced","urn:alm:descriptor:com.tectonic.ui:booleanSwitch"}
	AutomountServiceAccountToken bool `json:"automountServiceAccountToken,omitempty"`

	// service configures the Service.
	// +optional
	// +kubebuilder:default={}
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Service",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Service WebAppService `json:"service,omitzero"`

	// ingress publishes the application by an Ingress.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Ingress"
	Ingress *WebAppIngress `json:"ingress,omitempty"`

	// gateway publishes the application by an HTTPRoute of the Gateway API.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Gateway",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Gateway *WebAppGateway `json:"gateway,omitempty"`

	// autoscaling creates a HorizontalPodAutoscaler. spec.replicas is ignored while it is set.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Autoscaling"
	Autoscaling *WebAppAutoscaling `json:"autoscaling,omitempty"`

	// disruption limits voluntary evictions, such as node drains, by a PodDisruptionBudget. By default, an application with more than
	// one pod loses at most one pod at a time.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Disruption",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Disruption *WebAppDisruption `json:"disruption,omitempty"`

	// networkPolicy restricts the traffic to the pods by a NetworkPolicy. By default there is none.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Network Policy",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	NetworkPolicy *WebAppNetworkPolicy `json:"networkPolicy,omitempty"`

	// monitoring creates a ServiceMonitor. It requires the Prometheus Operator.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Monitoring",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Monitoring *WebAppMonitoring `json:"monitoring,omitempty"`

	// strategy says how a rollout replaces pods. Defaults to a rolling update.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Strategy",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Strategy *WebAppStrategy `json:"strategy,omitempty"`

	// rollout sets the deadline of a rollout and whether a failed rollout is rolled back.
	// +optional
	// +kubebuilder:default={}
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Rollout",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Rollout WebAppRollout `json:"rollout,omitzero"`

	// terminationGracePeriodSeconds is the time in seconds that a pod may take to stop. Defaults to 30.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Termination Grace Period",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	TerminationGracePeriodSeconds *int64 `json:"terminationGracePeriodSeconds,omitempty"`

	// topologySpread spreads the pods over nodes and zones if possible. Defaults to true.
	// +optional
	// +kubebuilder:default=true
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Topology Spread",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced","urn:alm:descriptor:com.tectonic.ui:booleanSwitch"}
	TopologySpread *bool `json:"topologySpread,omitempty"`

	// nodeSelector are the labels that a node must have to run the pods.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Node Selector",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`

	// tolerations are the node taints that the pods tolerate.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Tolerations",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`

	// affinity are the scheduling rules of the pods.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Affinity",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Affinity *corev1.Affinity `json:"affinity,omitempty"`

	// priorityClassName is the PriorityClass of the pods.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Priority Class",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	PriorityClassName string `json:"priorityClassName,omitempty"`

	// volumes is the list of volumes for spec.volumeMounts.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=30
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Volumes",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Volumes []WebAppVolume `json:"volumes,omitempty"`

	// volumeMounts says where the container mounts the volumes.
	// +optional
	// +listType=map
	// +listMapKey=mountPath
	// +kubebuilder:validation:MaxItems=50
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Volume Mounts",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	VolumeMounts []corev1.VolumeMount `json:"volumeMounts,omitempty"`

	// configRefs lists the ConfigMaps, Secrets and AppConfigs that the pods use. A changed ConfigMap or Secret restarts the pods 5
	// seconds after its last change, at most every 30 seconds, and one WebApp at a time. The rollout waits for a missing object unless
	// the reference is optional.
	// +optional
	// +listType=map
	// +listMapKey=kind
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=50
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Configuration References"
	ConfigRefs []ConfigRef `json:"configRefs,omitempty"`

	// podTemplate is merged onto the pod template that Fettle generates, as a strategic merge patch. It has the fields of a
	// PodTemplateSpec: labels, annotations, sidecars, init containers, lifecycle hooks, exec probes, DNS and any volume. The main
	// container has the name "app". Added containers get the security context of the profile. Unknown fields, and fields that have
	// another place in the spec, are rejected. A change starts a rollout.
	// +optional
	// +kubebuilder:pruning:PreserveUnknownFields
	// +kubebuilder:validation:Type=object
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Pod Template",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	PodTemplate *runtime.RawExtension `json:"podTemplate,omitempty"`

	// inheritedMetadata are labels and annotations of all child objects and pods, such as app.kubernetes.io/part-of. A change starts a
	// rollout.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Inherited Metadata",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	InheritedMetadata *fettlev1.InheritedMetadata `json:"inheritedMetadata,omitempty"`
}

// WebAppStatus is the observed state.
type WebAppStatus struct {
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Observed Generation"
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase summarizes the conditions: Pending, Deploying, Running, Degraded, Failed, Paused or Terminating.
	// +optional
	// +kubebuilder:validation:Enum=Pending;Deploying;Running;Degraded;Failed;Paused;Terminating
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Phase",xDescriptors={"urn:alm:descriptor:io.kubernetes.phase"}
	Phase WebAppPhase `json:"phase,omitempty"`
	// replicas is the number of pods, also under an autoscaler.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Replicas",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:podCount"}
	Replicas int32 `json:"replicas"`
	// updatedReplicas is the number of pods with the current pod template.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Updated Replicas"
	UpdatedReplicas int32 `json:"updatedReplicas"`
	// readyReplicas is the number of pods that are ready.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Ready Replicas"
	ReadyReplicas int32 `json:"readyReplicas"`
	// availableReplicas is the number of pods that are available to clients.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Available Replicas"
	AvailableReplicas int32 `json:"availableReplicas"`
	// selector is the label selector of the pods, for the scale subresource.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Selector"
	Selector string `json:"selector,omitempty"`
	// url is the address of the application: that of the Ingress or route once Published is True, otherwise that of the load balancer
	// or of the Service inside the cluster. Empty while it is unknown.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="URL",xDescriptors={"urn:alm:descriptor:org.w3:link"}
	URL string `json:"url,omitempty"`
	// image is the image of the Deployment. It differs from spec.image after a rollback.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Image"
	Image string `json:"image,omitempty"`
	// currentRevision is the hash of the pod template of the Deployment.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Current Revision"
	CurrentRevision string `json:"currentRevision,omitempty"`
	// lastGoodImage is the image of the last successful rollout.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Last Good Image"
	LastGoodImage string `json:"lastGoodImage,omitempty"`
	// failedRevision is the hash of the pod template that failed and was rolled back. Fettle does not retry it until the pod template
	// changes.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Failed Revision"
	FailedRevision string `json:"failedRevision,omitempty"`
	// failureMessage is the reason for the rollback of failedRevision.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Failure Message"
	FailureMessage string `json:"failureMessage,omitempty"`
	// conditions are Ready, the conditions that it summarizes (ConfigResolved, Applied, Available, Published, Monitored), and Stalled
	// if only a change by a person can make the WebApp ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Conditions",xDescriptors={"urn:alm:descriptor:io.kubernetes.conditions"}
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
