package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Phase summarizes the conditions.
// +kubebuilder:validation:Enum=Pending;Deploying;Running;Degraded;Failed;Paused;Terminating
type Phase string

// Phases.
const (
	// PhasePending: Fettle has not applied the spec yet.
	PhasePending Phase = "Pending"
	// PhaseDeploying: components are being created, changed or deleted.
	PhaseDeploying Phase = "Deploying"
	// PhaseRunning: all components are ready.
	PhaseRunning Phase = "Running"
	// PhaseDegraded: a component needs attention. The condition Ready names it.
	PhaseDegraded Phase = "Degraded"
	// PhaseFailed: the spec cannot be carried out. What runs stays as it is.
	PhaseFailed Phase = "Failed"
	// PhasePaused: spec.paused is true, so Fettle changes nothing.
	PhasePaused Phase = "Paused"
	// PhaseTerminating: the object is being deleted.
	PhaseTerminating Phase = "Terminating"
)

// AppStackStatus is the observed state.
type AppStackStatus struct {
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Observed Generation"
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase summarizes the conditions: Pending, Deploying, Running, Degraded, Failed, Paused or Terminating.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Phase",xDescriptors={"urn:alm:descriptor:io.kubernetes.phase"}
	Phase Phase `json:"phase,omitempty"`
	// readyComponents is the number of components that are ready and of all, such as "3/5".
	// +optional
	// +kubebuilder:validation:MaxLength=16
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Ready Components"
	ReadyComponents string `json:"readyComponents,omitempty"`
	// components is the state of each component, and of each removed one that still exists.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +listMapKey=kind
	// +kubebuilder:validation:MaxItems=128
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Components"
	Components []ComponentStatus `json:"components,omitempty"`
	// endpoints are the addresses of the web applications, the published ones first.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Endpoints"
	Endpoints []Endpoint `json:"endpoints,omitempty"`
	// effective are the fields that the environment governs, with the value in use and where it is from.
	// +optional
	// +listType=map
	// +listMapKey=component
	// +listMapKey=field
	// +kubebuilder:validation:MaxItems=512
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Effective Settings"
	Effective []EffectiveField `json:"effective,omitempty"`
	// conditions are Ready, and Stalled if only a change by a person can make the AppStack ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Conditions",xDescriptors={"urn:alm:descriptor:io.kubernetes.conditions"}
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// ComponentStatus is the state of one component.
type ComponentStatus struct {
	// name of the component.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// kind of the component: WebApp, PostgreSQL, MySQL, Cache, AppConfig or External.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// ref is the name of the child object, or of the Secret of an external server.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	Ref string `json:"ref,omitempty"`
	// ready is true if the component is ready in its current version.
	// +required
	Ready bool `json:"ready"`
	// reason why the component is not ready: that of the child object's condition Ready, or Waiting for another component.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Reason string `json:"reason,omitempty"`
	// message says what is wrong and what to do.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
	// since is when ready changed last, or when the component stopped waiting for others.
	// +optional
	Since metav1.Time `json:"since,omitzero"`
}

// Endpoint is the address of a web application.
type Endpoint struct {
	// name of the component.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// url of the component.
	// +required
	// +kubebuilder:validation:MaxLength=2048
	URL string `json:"url"`
	// scope is External for an address that an Ingress, an HTTPRoute or a load balancer publishes, and Internal for one inside the
	// cluster.
	// +required
	// +kubebuilder:validation:Enum=External;Internal
	Scope EndpointScope `json:"scope"`
}

// EndpointScope says from where an address can be reached.
type EndpointScope string

// Scopes of an address.
const (
	ScopeExternal EndpointScope = "External"
	ScopeInternal EndpointScope = "Internal"
)

// EffectiveField is the value of a field that the environment governs.
type EffectiveField struct {
	// component has the field.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Component string `json:"component"`
	// field is its path in the component, such as "storage".
	// +required
	// +kubebuilder:validation:MaxLength=128
	Field string `json:"field"`
	// value in use.
	// +required
	// +kubebuilder:validation:MaxLength=256
	Value string `json:"value"`
	// source says where the value is from: Spec for one that you set, Environment for a default of the environment, Operator for a
	// setting of the operator, and Existing for the size of an existing volume that is larger than the default.
	// +required
	// +kubebuilder:validation:Enum=Spec;Environment;Operator;Existing
	Source FieldSource `json:"source"`
}

// FieldSource says where the value of a field is from.
type FieldSource string

// Sources of values.
const (
	FromSpec        FieldSource = "Spec"
	FromEnvironment FieldSource = "Environment"
	FromOperator    FieldSource = "Operator"
	FromExisting    FieldSource = "Existing"
)
