package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PolicyAction says what happens to a WebApp that breaks a policy.
// +kubebuilder:validation:Enum=Enforce;Warn
type PolicyAction string

const (
	// ActionEnforce refuses the WebApp.
	ActionEnforce PolicyAction = "Enforce"
	// ActionWarn admits the WebApp with a warning to its author.
	ActionWarn PolicyAction = "Warn"
)

// WebAppPolicy bounds what the WebApps of the selected namespaces may ask for. It
// is checked when a WebApp is created, when its spec changes and when it is scaled; never
// when it is deleted.
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=wap,scope=Cluster,categories=fettle
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Action",type=string,JSONPath=`.spec.action`
// +kubebuilder:printcolumn:name="Violations",type=integer,JSONPath=`.status.violationCount`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +operator-sdk:csv:customresourcedefinitions:displayName="Web App Policy",order=2,resources={{WebApp,v1,""},{Event,v1,""}}
type WebAppPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is what the policy asks for.
	// +required
	Spec WebAppPolicySpec `json:"spec,omitzero"`
	// status is what was observed.
	// +optional
	// +kubebuilder:default={phase: "Pending", conditions: {{type: "Ready", status: "Unknown", reason: "Reconciling", message: "waiting for the Fettle operator", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status WebAppPolicyStatus `json:"status,omitzero"`
}

// WebAppPolicyList is a list of WebAppPolicies.
// +kubebuilder:object:root=true
type WebAppPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WebAppPolicy `json:"items"`
}

// WebAppPolicySpec is what the policy asks for.
// +kubebuilder:validation:XValidation:rule="has(self.allowedRegistries) || has(self.maxReplicas) || (has(self.requireLimits) && self.requireLimits) || has(self.requireSecurityProfile)",message="spec: a policy needs at least one of allowedRegistries, maxReplicas, requireLimits and requireSecurityProfile"
type WebAppPolicySpec struct {
	// namespaceSelector selects the namespaces by their labels; an empty one ({}) selects all.
	// +required
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Namespace Selector"
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector"`
	// allowedRegistries are prefixes, each ending in "/", of which an image must have one. An image without a registry
	// counts as one of docker.io, for example "docker.io/library/nginx:1.25".
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=2
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.all(r, r.endsWith('/') && !r.contains('://'))",message="allowedRegistries: each must end with '/' and have no scheme, for example registry.example.com/"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Allowed Registries"
	AllowedRegistries []string `json:"allowedRegistries,omitempty"`
	// maxReplicas is the greatest number of pods, with and without autoscaling.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Maximum Replicas"
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`
	// requireLimits asks for limits of CPU and memory.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Require Limits",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:booleanSwitch"}
	RequireLimits bool `json:"requireLimits,omitempty"`
	// requireSecurityProfile asks for this profile; Restricted satisfies Baseline.
	// +optional
	// +kubebuilder:validation:Enum=Baseline;Restricted
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Required Security Profile"
	RequireSecurityProfile SecurityProfile `json:"requireSecurityProfile,omitempty"`
	// action is Warn (by default) or Enforce.
	// +optional
	// +kubebuilder:default=Warn
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Action",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:Enforce","urn:alm:descriptor:com.tectonic.ui:select:Warn"}
	Action PolicyAction `json:"action,omitempty"`
}

// PolicyPhase sums up a WebAppPolicy's Ready condition.
type PolicyPhase string

// Phases of a WebAppPolicy.
const (
	PolicyPending  PolicyPhase = "Pending"
	PolicyActive   PolicyPhase = "Active"
	PolicyDegraded PolicyPhase = "Degraded"
)

// WebAppPolicyStatus is what was observed.
type WebAppPolicyStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Observed Generation"
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase sums up the conditions: Pending, Active (the API server calls the webhook for this policy) or Degraded.
	// +optional
	// +kubebuilder:validation:Enum=Pending;Active;Degraded
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Phase",xDescriptors={"urn:alm:descriptor:io.kubernetes.phase"}
	Phase PolicyPhase `json:"phase,omitempty"`
	// violationCount is the number of existing WebApps that break the policy.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Violations"
	ViolationCount int32 `json:"violationCount"`
	// violations are the first of them, at most 20, as "namespace/name: rule".
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=1024
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="First Violations"
	Violations []string `json:"violations,omitempty"`
	// conditions: Ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Conditions",xDescriptors={"urn:alm:descriptor:io.kubernetes.conditions"}
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Reasons of a WebAppPolicy's Ready condition.
const (
	// ReasonEnforced: WebApps that break the policy are refused.
	ReasonEnforced = "Enforced"
	// ReasonWarning: WebApps that break the policy are admitted with a warning.
	ReasonWarning = "Warning"
	// ReasonNotEnforced: the operator serves no webhooks, or the API server is not configured to call them, so nothing is checked
	// when WebApps change.
	ReasonNotEnforced = "NotEnforced"
	// ReasonSelectorInvalid: namespaceSelector is invalid; the policy applies to all namespaces until it is corrected.
	ReasonSelectorInvalid = "SelectorInvalid"
)
