package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PolicyAction says what happens to a WebApp that violates a policy.
// +kubebuilder:validation:Enum=Enforce;Warn
type PolicyAction string

const (
	// ActionEnforce rejects the WebApp.
	ActionEnforce PolicyAction = "Enforce"
	// ActionWarn admits the WebApp and warns its author.
	ActionWarn PolicyAction = "Warn"
)

// WebAppPolicy limits the WebApps of the selected namespaces. A webhook checks it when a WebApp is created, changed or scaled, never
// when it is deleted. On an update it reports only new violations.
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
// +operator-sdk:csv:customresourcedefinitions:displayName="WebAppPolicy",order=2,resources={{WebApp,v1,""},{Event,v1,""}}
type WebAppPolicy struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the desired state.
	// +required
	Spec WebAppPolicySpec `json:"spec,omitzero"`
	// status is the observed state.
	// +optional
	// +kubebuilder:default={phase: "Pending", conditions: {{type: "Ready", status: "Unknown", reason: "Reconciling", message: "waiting for the Fettle operator", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status WebAppPolicyStatus `json:"status,omitzero"`
}

// Conditions returns the conditions of the status.
func (p *WebAppPolicy) Conditions() *[]metav1.Condition { return &p.Status.Conditions }

// SetObserved sets the generation that the status describes. A policy that is being deleted keeps its phase, since it is in force.
func (p *WebAppPolicy) SetObserved(string) { p.Status.ObservedGeneration = p.Generation }

// WebAppPolicyList is a list of WebAppPolicies.
// +kubebuilder:object:root=true
type WebAppPolicyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []WebAppPolicy `json:"items"`
}

// WebAppPolicySpec is the desired state.
// +kubebuilder:validation:XValidation:rule="has(self.allowedRegistries) || has(self.maxReplicas) || (has(self.requireLimits) && self.requireLimits) || has(self.requireSecurityProfile)",message="spec: a policy needs at least one of allowedRegistries, maxReplicas, requireLimits and requireSecurityProfile"
type WebAppPolicySpec struct {
	// namespaceSelector selects namespaces by their labels. An empty selector ({}) selects all namespaces.
	// +required
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Namespace Selector"
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector"`
	// allowedRegistries are the allowed prefixes of images, each with a "/" at its end. An image without a registry belongs to
	// docker.io, for example "docker.io/library/nginx:1.25".
	// +optional
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=2
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.all(r, r.endsWith('/') && !r.contains('://'))",message="allowedRegistries: each must end with '/' and have no scheme, for example registry.example.com/"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Allowed Registries"
	AllowedRegistries []string `json:"allowedRegistries,omitempty"`
	// maxReplicas is the largest number of pods, with and without autoscaling.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Maximum Replicas"
	MaxReplicas *int32 `json:"maxReplicas,omitempty"`
	// requireLimits requires limits of CPU and memory. Defaults to false.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Require Limits",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:booleanSwitch"}
	RequireLimits bool `json:"requireLimits,omitempty"`
	// requireSecurityProfile requires this security profile. Restricted satisfies Baseline.
	// +optional
	// +kubebuilder:validation:Enum=Baseline;Restricted
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Required Security Profile"
	RequireSecurityProfile SecurityProfile `json:"requireSecurityProfile,omitempty"`
	// action is Warn (admit with a warning) or Enforce (reject). Defaults to Warn.
	// +optional
	// +kubebuilder:default=Warn
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Action",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:Enforce","urn:alm:descriptor:com.tectonic.ui:select:Warn"}
	Action PolicyAction `json:"action,omitempty"`
}

// PolicyPhase summarizes the conditions of a WebAppPolicy.
type PolicyPhase string

// Phases of a WebAppPolicy.
const (
	// PolicyPending: Fettle has not checked the policy yet.
	PolicyPending PolicyPhase = "Pending"
	// PolicyActive: the API server calls the webhook for this policy.
	PolicyActive PolicyPhase = "Active"
	// PolicyDegraded: the policy is not enforced, or its selector is invalid.
	PolicyDegraded PolicyPhase = "Degraded"
)

// WebAppPolicyStatus is the observed state.
type WebAppPolicyStatus struct {
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Observed Generation"
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase summarizes the conditions: Pending, Active (WebApps are checked) or Degraded.
	// +optional
	// +kubebuilder:validation:Enum=Pending;Active;Degraded
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Phase",xDescriptors={"urn:alm:descriptor:io.kubernetes.phase"}
	Phase PolicyPhase `json:"phase,omitempty"`
	// violationCount is the number of existing WebApps that violate the policy.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Violations"
	ViolationCount int32 `json:"violationCount"`
	// violations lists the first 20 of them, as "namespace/name: rule".
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=20
	// +kubebuilder:validation:items:MaxLength=1024
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="First Violations"
	Violations []string `json:"violations,omitempty"`
	// conditions are Ready, and Stalled if only a change by a person can make the policy ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Conditions",xDescriptors={"urn:alm:descriptor:io.kubernetes.conditions"}
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Reasons of a WebAppPolicy's Ready condition.
const (
	// ReasonEnforced: WebApps that violate the policy are rejected.
	ReasonEnforced = "Enforced"
	// ReasonWarning: WebApps that violate the policy are admitted with a warning.
	ReasonWarning = "Warning"
	// ReasonNotEnforced: the operator serves no webhooks, or the API server does not call them, so WebApps are not checked on a
	// change. Set --webhooks=true, and check the ValidatingWebhookConfiguration.
	ReasonNotEnforced = "NotEnforced"
	// ReasonSelectorInvalid: namespaceSelector is invalid, and the policy applies to all namespaces. Correct the selector.
	ReasonSelectorInvalid = "SelectorInvalid"
)
