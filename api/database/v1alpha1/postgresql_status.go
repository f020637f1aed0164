package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
)

// PostgreSQLStatus is the observed state. Values that change all the time, such as a WAL position or a lag, are metrics.
type PostgreSQLStatus struct {
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Observed Generation"
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase summarizes the conditions: Pending, Creating, Running, Updating, Degraded, Failed, Paused, Hibernated or
	// Terminating.
	// +optional
	// +kubebuilder:validation:Enum=Pending;Creating;Running;Updating;Degraded;Failed;Paused;Hibernated;Terminating
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Phase",xDescriptors={"urn:alm:descriptor:io.kubernetes.phase"}
	Phase PostgreSQLPhase `json:"phase,omitempty"`
	// ready is true while the condition Ready is True: an instance accepts writes.
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
	// primary is the pod of the primary; empty while there is none.
	// +optional
	// +kubebuilder:validation:MaxLength=63
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Primary"
	Primary string `json:"primary,omitempty"`
	// timeline is the timeline of the primary. Each promotion begins a new one.
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
	// currentVersion is the version of PostgreSQL that the primary runs, for example "16.4".
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Current Version"
	CurrentVersion string `json:"currentVersion,omitempty"`
	// lastArchivedTime is the end of the WAL in the object store of spec.backup: all commits before it are stored. It is up to 5 minutes
	// behind.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Last Archived Time"
	LastArchivedTime *metav1.Time `json:"lastArchivedTime,omitempty"`
	// progress of the base backup that the first instance restores, for spec.bootstrap.recovery or a Restore. WAL is replayed after the
	// copy, which takes a time that is not known. Unset otherwise.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Progress"
	Progress *backupv1alpha1.Progress `json:"progress,omitempty"`
	// connectionString is a URI of the primary inside the cluster, without the password. It is set when the database exists.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Connection String"
	ConnectionString string `json:"connectionString,omitempty"`
	// credentialsSecret is the Secret with the password of spec.owner and all that a client needs to connect.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Credentials Secret",xDescriptors={"urn:alm:descriptor:io.kubernetes:Secret"}
	CredentialsSecret string `json:"credentialsSecret,omitempty"`
	// volumes is the number of the volumes that the instances use, see the annotation fettle.dev/volumes. The first ones are 1.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Volumes"
	Volumes int32 `json:"volumes,omitempty"`
	// agentImage is the Fettle image that new pods get their agent from. Running pods may still have an earlier one, see
	// spec.agentUpdatePolicy.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Agent Image"
	AgentImage string `json:"agentImage,omitempty"`
	// conditions: Ready says whether clients are served, with the most important problem as its reason. The others are Applied,
	// VolumesReady, PrimaryReady, InstancesReady, Configured, Monitored and Certified; Stalled and Reconciling are for kstatus.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Conditions",xDescriptors={"urn:alm:descriptor:io.kubernetes.conditions"}
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// PostgreSQLInstance describes one instance.
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
	// message says what is wrong with the instance and what to do; empty if nothing is wrong.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`
}
