package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// PostgreSQLStatus is what was observed. It holds no number that changes by itself, such as a position in the log or a
// lag: those are metrics.
type PostgreSQLStatus struct {
	// observedGeneration is the generation of the spec that this status speaks of.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Observed Generation"
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase sums up the conditions for people: Pending, Creating, Running, Updating, Degraded, Failed, Paused, Hibernated or
	// Terminating.
	// +optional
	// +kubebuilder:validation:Enum=Pending;Creating;Running;Updating;Degraded;Failed;Paused;Hibernated;Terminating
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Phase",xDescriptors={"urn:alm:descriptor:io.kubernetes.phase"}
	Phase PostgreSQLPhase `json:"phase,omitempty"`
	// ready is true when the condition Ready is.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Ready"
	Ready bool `json:"ready"`
	// instances is the number of instances that the StatefulSet runs, the primary included. It is 0 while hibernated.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Instances"
	Instances int32 `json:"instances"`
	// readyInstances is the number of instances that are ready: the primary, and the standbys that follow it.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Ready Instances"
	ReadyInstances int32 `json:"readyInstances"`
	// selector is the label selector of the pods, for the scale subresource and autoscalers.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Selector"
	Selector string `json:"selector,omitempty"`
	// primary is the pod that takes writes.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Primary"
	Primary string `json:"primary,omitempty"`
	// timeline counts the promotions of this PostgreSQL's data.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Timeline"
	Timeline int64 `json:"timeline,omitempty"`
	// instanceStatuses lists the instances by number: role, state and what is wrong.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Instance Statuses"
	InstanceStatuses []PostgreSQLInstance `json:"instanceStatuses,omitempty"`
	// currentVersion is the version of the server that takes writes, for example "16.4".
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Current Version"
	CurrentVersion string `json:"currentVersion,omitempty"`
	// connectionString reaches the database inside the cluster. It has no password.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Connection String"
	ConnectionString string `json:"connectionString,omitempty"`
	// credentialsSecret is the Secret with the password of the owner of spec.databaseName.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Credentials Secret",xDescriptors={"urn:alm:descriptor:io.kubernetes:Secret"}
	CredentialsSecret string `json:"credentialsSecret,omitempty"`
	// agentImage is the Fettle image that new pods get their agent from. Running pods may still have an earlier one, see
	// spec.agentUpdatePolicy.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Agent Image"
	AgentImage string `json:"agentImage,omitempty"`
	// conditions: Ready, and the ones that it sums up: Applied, VolumesReady, PrimaryReady, InstancesReady, Configured,
	// Monitored.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Conditions",xDescriptors={"urn:alm:descriptor:io.kubernetes.conditions"}
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PostgreSQLInstance is one server.
type PostgreSQLInstance struct {
	// name of the pod.
	// +required
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`
	// role is Primary, Replica or Unknown.
	// +optional
	// +kubebuilder:validation:Enum=Primary;Replica;Unknown
	Role InstanceRole `json:"role,omitempty"`
	// state is Ready, Starting, Outdated, Fenced, Stopped or Failed.
	// +optional
	// +kubebuilder:validation:Enum=Ready;Starting;Outdated;Fenced;Stopped;Failed
	State InstanceState `json:"state,omitempty"`
	// message says what is wrong with it and what to do; empty when nothing is.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}
