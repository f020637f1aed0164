package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

// VoteConfig publishes the options of a vote in a ConfigMap, with all keys that vote applications read. It restarts the workloads that
// use the ConfigMap when the options change.
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=vc,categories=fettle
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Options",type=string,JSONPath=`.status.optionsSummary`
// +kubebuilder:printcolumn:name="ConfigMap",type=string,JSONPath=`.status.configMapName`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Updated",type=date,priority=1,JSONPath=`.status.lastUpdated`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name: must be a DNS label of at most 63 characters (lower-case letters, digits and '-'), since it becomes a label of the ConfigMap"
// +kubebuilder:validation:XValidation:rule="(has(self.spec.target) && has(self.spec.target.configMapName) ? self.spec.target.configMapName : self.metadata.name + '-config') == (has(oldSelf.spec.target) && has(oldSelf.spec.target.configMapName) ? oldSelf.spec.target.configMapName : oldSelf.metadata.name + '-config')",message="target.configMapName: can't be changed, since workloads read the ConfigMap by its name; make another VoteConfig and delete this one when nothing uses it"
// +operator-sdk:csv:customresourcedefinitions:displayName="VoteConfig",order=4,resources={{ConfigMap,v1,""},{Deployment,v1,""},{StatefulSet,v1,""},{DaemonSet,v1,""},{Event,v1,""}}
type VoteConfig struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the desired state.
	// +required
	Spec VoteConfigSpec `json:"spec,omitzero"`
	// status is the observed state.
	// +optional
	// +kubebuilder:default={phase: "Pending", conditions: {{type: "Ready", status: "Unknown", reason: "Reconciling", message: "waiting for the Fettle operator", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status VoteConfigStatus `json:"status,omitzero"`
}

// Conditions returns the conditions of the status.
func (vc *VoteConfig) Conditions() *[]metav1.Condition { return &vc.Status.Conditions }

// SetObserved sets the phase, and the generation that the status describes.
func (vc *VoteConfig) SetObserved(phase string) {
	vc.Status.ObservedGeneration, vc.Status.Phase = vc.Generation, VoteConfigPhase(phase)
}

// VoteConfigList is a list of VoteConfigs.
// +kubebuilder:object:root=true
type VoteConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []VoteConfig `json:"items"`
}

// VoteConfigSpec is the desired state.
type VoteConfigSpec struct {
	// title of the voting page. Defaults to "Vote Now!".
	// +optional
	// +kubebuilder:default="Vote Now!"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:XValidation:rule="self.matches('[^\\\\p{Z}\\\\p{C}]') && !self.matches('[\\\\p{Cc}\\\\p{Zl}\\\\p{Zp}]')",message="title: must have a visible character, and no line break or other control character"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Title"
	Title string `json:"title,omitempty"`
	// resultsTitle is the title of the results page. Defaults to "Results".
	// +optional
	// +kubebuilder:default="Results"
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=200
	// +kubebuilder:validation:XValidation:rule="self.matches('[^\\\\p{Z}\\\\p{C}]') && !self.matches('[\\\\p{Cc}\\\\p{Zl}\\\\p{Zp}]')",message="resultsTitle: must have a visible character, and no line break or other control character"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Results Title"
	ResultsTitle string `json:"resultsTitle,omitempty"`
	// options of the vote, 2 to 10, in the order of their display. Each id is unique.
	// +required
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MinItems=2
	// +kubebuilder:validation:MaxItems=10
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Options"
	Options []VoteOption `json:"options"`
	// maxVotesPerUser is the number of votes of one person. The application decides if it is not set.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Maximum Votes per User",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	MaxVotesPerUser *int32 `json:"maxVotesPerUser,omitempty"`
	// target is the ConfigMap, and the workloads to restart.
	// +optional
	// +kubebuilder:default={}
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Target"
	Target VoteTarget `json:"target,omitzero"`
	// paused stops reconciliation: Fettle changes neither the ConfigMap nor the workloads. Defaults to false.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Paused",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced","urn:alm:descriptor:com.tectonic.ui:booleanSwitch"}
	Paused bool `json:"paused,omitempty"`
}

// VoteOption is one option of the vote.
type VoteOption struct {
	// id is one lower-case letter. Votes are counted by it.
	// +required
	// +kubebuilder:validation:MaxLength=1
	// +kubebuilder:validation:Pattern=`^[a-z]$`
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="ID"
	ID string `json:"id"`
	// label is the text of the option, of 1 to 50 characters.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=50
	// +kubebuilder:validation:XValidation:rule="self.matches('[^\\\\p{Z}\\\\p{C}]') && !self.matches('[\\\\p{Cc}\\\\p{Zl}\\\\p{Zp}]')",message="label: must have a visible character, and no line break or other control character"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Label"
	Label string `json:"label"`
	// color of the option, for example "#FF6B6B". The application chooses if it is not set.
	// +optional
	// +kubebuilder:validation:MaxLength=7
	// +kubebuilder:validation:Pattern=`^#[0-9A-Fa-f]{6}$`
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Color"
	Color string `json:"color,omitempty"`
}

// RestartMode says which workloads restart when the options change.
// +kubebuilder:validation:Enum=Env;Mount;None
type RestartMode string

const (
	// RestartEnv restarts all workloads that use the ConfigMap.
	RestartEnv RestartMode = "Env"
	// RestartMount restarts no workload that only mounts the ConfigMap, since the kubelet updates its files.
	RestartMount RestartMode = "Mount"
	// RestartNone restarts nothing.
	RestartNone RestartMode = "None"
)

// VoteTarget is the ConfigMap, and the workloads to restart.
type VoteTarget struct {
	// configMapName is the name of the ConfigMap. Defaults to "<name>-config". Immutable.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="ConfigMap Name",xDescriptors={"urn:alm:descriptor:io.kubernetes:ConfigMap"}
	ConfigMapName string `json:"configMapName,omitempty"`
	// deployments are Deployments to restart in addition to those whose pod templates refer to the ConfigMap, for example because they
	// read it by the Kubernetes API.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=50
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Deployments"
	Deployments []string `json:"deployments,omitempty"`
	// mode says which workloads restart when the options change: Env (all that use a changed key), Mount (not those that only mount
	// the ConfigMap, since the kubelet updates their files) or None. Defaults to Env.
	// +optional
	// +kubebuilder:default=Env
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Mode",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced","urn:alm:descriptor:com.tectonic.ui:select:Env","urn:alm:descriptor:com.tectonic.ui:select:Mount","urn:alm:descriptor:com.tectonic.ui:select:None"}
	Mode RestartMode `json:"mode,omitempty"`
}

// VoteConfigStatus is the observed state.
type VoteConfigStatus struct {
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Observed Generation"
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase summarizes the conditions: Pending, RollingOut, Running, Degraded, Failed, Paused or Terminating.
	// +optional
	// +kubebuilder:validation:Enum=Pending;RollingOut;Running;Degraded;Failed;Paused;Terminating
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Phase",xDescriptors={"urn:alm:descriptor:io.kubernetes.phase"}
	Phase VoteConfigPhase `json:"phase,omitempty"`
	// optionsSummary lists the labels of the published options, for example "Cats,Dogs".
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Options"
	OptionsSummary string `json:"optionsSummary,omitempty"`
	// optionCount is the number of published options.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Number of Options"
	OptionCount int32 `json:"optionCount,omitempty"`
	// configMapName is the name of the ConfigMap. Empty before the first publication.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="ConfigMap",xDescriptors={"urn:alm:descriptor:io.kubernetes:ConfigMap"}
	ConfigMapName string `json:"configMapName,omitempty"`
	// configMapRef refers to the same ConfigMap.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="ConfigMap Reference"
	ConfigMapRef *fettlev1.LocalReference `json:"configMapRef,omitempty"`
	// hash of the published data.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Hash"
	Hash string `json:"hash,omitempty"`
	// lastUpdated is the time of the last change of the published data.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Last Updated"
	LastUpdated metav1.Time `json:"lastUpdated,omitzero"`
	// dependents are the workloads that use the ConfigMap, with their state. Those with problems come first; at most 100 are listed.
	// +optional
	// +listType=map
	// +listMapKey=kind
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=100
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Dependents"
	Dependents []VoteConfigDependent `json:"dependents,omitempty"`
	// conditions are Ready, the conditions that it summarizes (Published, RolledOut), and Stalled if only a change by a person can
	// make the VoteConfig ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Conditions",xDescriptors={"urn:alm:descriptor:io.kubernetes.conditions"}
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// VoteConfigDependent is a workload that uses the ConfigMap.
type VoteConfigDependent struct {
	// kind of the workload: Deployment, StatefulSet or DaemonSet.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Kind string `json:"kind"`
	// name of the workload.
	// +required
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
	// hash of the keys that the workload uses, in its pod template.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	Hash string `json:"hash,omitempty"`
	// state is UpToDate, Pending (it waits for the workloads before it), Restarting, Failed or Paused.
	// +optional
	// +kubebuilder:validation:Enum=UpToDate;Pending;Restarting;Failed;Paused
	State DependentState `json:"state,omitempty"`
	// message is the reason for a state other than UpToDate.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}
