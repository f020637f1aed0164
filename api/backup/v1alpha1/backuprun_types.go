package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// BackupRun is one run of a Backup. The schedule creates BackupRuns; create one to back up now.
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=bkr,categories=fettle
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Backup",type=string,JSONPath=`.spec.backup`
// +kubebuilder:printcolumn:name="Percent",type=integer,JSONPath=`.status.progress.percent`
// +kubebuilder:printcolumn:name="Bytes",type=integer,JSONPath=`.status.progress.bytes`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Location",type=string,priority=1,JSONPath=`.status.location`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 57 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name: must be a DNS label of at most 57 characters (lower-case letters, digits and '-'), since the Job and its pods are named after it"
// +operator-sdk:csv:customresourcedefinitions:displayName="BackupRun",order=6,resources={{Job,v1,""},{Pod,v1,""},{Event,v1,""}}
type BackupRun struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec says what to run.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec: cannot be changed, since a run happens once; create another BackupRun"
	Spec BackupRunSpec `json:"spec,omitzero"`
	// status is the observed state.
	// +optional
	// +kubebuilder:default={phase: "Pending", conditions: {{type: "Ready", status: "Unknown", reason: "Reconciling", message: "waiting for the Fettle operator", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status BackupRunStatus `json:"status,omitzero"`
}

// Conditions returns the conditions of the status.
func (r *BackupRun) Conditions() *[]metav1.Condition { return &r.Status.Conditions }

// SetObserved sets the phase, and the generation that the status describes.
func (r *BackupRun) SetObserved(phase string) {
	r.Status.ObservedGeneration, r.Status.Phase = r.Generation, RunPhase(phase)
}

// BackupRunList is a list of BackupRuns.
// +kubebuilder:object:root=true
type BackupRunList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []BackupRun `json:"items"`
}

// BackupRunSpec says what to run.
type BackupRunSpec struct {
	// backup is the name of the Backup, in the same namespace.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="backup: must be the name of a Backup"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Backup"
	Backup string `json:"backup"`
}

// BackupRunStatus is the observed state.
type BackupRunStatus struct {
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Observed Generation"
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase is Pending, Running, Succeeded, Failed or Terminating.
	// +optional
	// +kubebuilder:validation:Enum=Pending;Running;Succeeded;Failed;Terminating
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Phase",xDescriptors={"urn:alm:descriptor:io.kubernetes.phase"}
	Phase RunPhase `json:"phase,omitempty"`
	// startTime is when the Job was created.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Start Time"
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime is when the run succeeded or failed.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Completion Time"
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// progress of the run, which its pod reports.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Progress"
	Progress *Progress `json:"progress,omitempty"`
	// result of the last attempt, which its pod reports.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Result"
	Result *RunResult `json:"result,omitempty"`
	// location is the URI of the backup, set when the run has succeeded.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Location"
	Location string `json:"location,omitempty"`
	// conditions are Ready, which is True when the run has succeeded, and Stalled if it has failed.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Conditions",xDescriptors={"urn:alm:descriptor:io.kubernetes.conditions"}
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// Progress of a run or restore.
type Progress struct {
	// bytes that were read from the source, before compression.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`
	// totalBytes is how many there are, as far as it is known. For dumps and base backups, it is an estimate of the server.
	// +optional
	TotalBytes int64 `json:"totalBytes,omitempty"`
	// percent is bytes of totalBytes, at most 99 before the end.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Percent *int32 `json:"percent,omitempty"`
	// estimatedEndTime is when the copy ends if its speed stays as it was so far.
	// +optional
	EstimatedEndTime *metav1.Time `json:"estimatedEndTime,omitempty"`
}

// RunResult is what a pod reports at its end.
type RunResult struct {
	// reason is Succeeded or the reason of the failure.
	// +required
	// +kubebuilder:validation:MaxLength=64
	Reason string `json:"reason"`
	// message says what is wrong and what to do; empty after a success.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Message string `json:"message,omitempty"`
	// storedBytes is the size of the backup in the store, in bytes.
	// +optional
	StoredBytes int64 `json:"storedBytes,omitempty"`
	// location is the URI of the backup.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Location string `json:"location,omitempty"`
	// deletedBackups is the number of old backups that were deleted afterwards, as the retention asks.
	// +optional
	DeletedBackups int32 `json:"deletedBackups,omitempty"`
	// retentionMessage says why old backups could not be deleted; empty if nothing is wrong.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	RetentionMessage string `json:"retentionMessage,omitempty"`
	// tables is the number of tables that a verification read, and rows that of their rows.
	// +optional
	Tables int64 `json:"tables,omitempty"`
	// rows is the number of rows of these tables.
	// +optional
	Rows int64 `json:"rows,omitempty"`
	// firstRecoverableTime is the earliest time that the stored Physical backups can be restored to.
	// +optional
	FirstRecoverableTime *metav1.Time `json:"firstRecoverableTime,omitempty"`
}
