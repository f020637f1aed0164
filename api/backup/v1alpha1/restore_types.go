package v1alpha1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

// Restore copies a Logical backup into databases, restores a PostgreSQL in place from a Physical backup, or verifies a backup in a temporary
// server, once. For a new PostgreSQL from a Physical backup, create one with bootstrap.recovery.
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=rst,categories=fettle
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Percent",type=integer,JSONPath=`.status.progress.percent`
// +kubebuilder:printcolumn:name="Bytes",type=integer,JSONPath=`.status.progress.bytes`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Location",type=string,priority=1,JSONPath=`.status.location`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 49 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name: must be a DNS label of at most 49 characters (lower-case letters, digits and '-'), since the Job and its pods are named after it"
// +operator-sdk:csv:customresourcedefinitions:displayName="Restore",order=7,resources={{Job,v1,""},{Pod,v1,""},{Event,v1,""}}
type Restore struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec says what to restore.
	// +required
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="spec: cannot be changed, since a restore happens once; create another Restore"
	Spec RestoreSpec `json:"spec,omitzero"`
	// status is the observed state.
	// +optional
	// +kubebuilder:default={phase: "Pending", conditions: {{type: "Ready", status: "Unknown", reason: "Reconciling", message: "waiting for the Fettle operator", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status RestoreStatus `json:"status,omitzero"`
}

// Conditions returns the conditions of the status.
func (r *Restore) Conditions() *[]metav1.Condition { return &r.Status.Conditions }

// SetObserved sets the phase, and the generation that the status describes.
func (r *Restore) SetObserved(phase string) {
	r.Status.ObservedGeneration, r.Status.Phase = r.Generation, RunPhase(phase)
}

// RestoreList is a list of Restores.
// +kubebuilder:object:root=true
type RestoreList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Restore `json:"items"`
}

// RestoreSpec says what to restore.
// +kubebuilder:validation:XValidation:rule="[has(self.targetTime), has(self.targetLSN), has(self.targetXID), has(self.targetName), has(self.targetImmediate)].filter(x, x).size() <= 1",message="spec: must have at most one of targetTime, targetLSN, targetXID, targetName and targetImmediate"
// +kubebuilder:validation:XValidation:rule="!(has(self.targetTime) || has(self.targetLSN) || has(self.targetXID) || has(self.targetName) || has(self.targetImmediate)) || has(self.to.postgresRef) && has(self.overwrite)",message="targetTime and the like: need to.postgresRef and overwrite with its name, since a Physical backup is restored in place"
// +kubebuilder:validation:XValidation:rule="!has(self.overwrite) || has(self.to.postgresRef) && self.overwrite == self.to.postgresRef || has(self.to.server) && self.overwrite == (has(self.to.server.connection.database) ? self.to.server.connection.database : has(self.to.server.connection.host) ? self.to.server.connection.host : self.to.server.connection.uriSecretRef.name)",message="overwrite: must be the name of the target, as a confirmation: to.postgresRef, or of to.server.connection: database, else host, else uriSecretRef.name"
// +kubebuilder:validation:XValidation:rule="!has(self.to.temporary) || !has(self.from.location) || has(self.pod) && has(self.pod.image)",message="pod.image: must be set for a temporary server if from.location is set, since the type of the backup is not known before"
type RestoreSpec struct {
	// from is the backup to restore.
	// +required
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="From",order=1
	From RestoreSource `json:"from,omitzero"`
	// to is where to restore to.
	// +required
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="To",order=2
	To RestoreTarget `json:"to,omitzero"`
	// overwrite permits a restore into databases that have data, which is deleted. Repeat the name of the target, as a confirmation: the
	// PostgreSQL; or of the connection: database if it is set, else host, else the name of uriSecretRef. Unset by default: a target that
	// has data is rejected. A Physical backup is restored in place on new volumes, and the previous volumes are kept.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Overwrite",order=3
	Overwrite      string `json:"overwrite,omitempty"`
	RecoveryTarget `json:",inline"`
	// identitySecretRef names the private age key of an encrypted backup; key defaults to "identity".
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Private Key",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	IdentitySecretRef *fettlev1.SecretKeyReference `json:"identitySecretRef,omitempty"`
	// timeoutSeconds is how long the restore may take, in seconds. Defaults to 21600.
	// +optional
	// +kubebuilder:default=21600
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=604800
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Timeout",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	TimeoutSeconds int64 `json:"timeoutSeconds,omitempty"`
	// pod configures the pod.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Pod",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Pod RunPod `json:"pod,omitzero"`
}

// RestoreSource is a backup. One field is set.
// +kubebuilder:validation:XValidation:rule="[has(self.backup), has(self.run), has(self.location)].filter(x, x).size() == 1",message="from: must have one of backup, run and location"
type RestoreSource struct {
	// backup is the name of a Backup in the same namespace: its last backup in the store is restored.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="backup: must be the name of a Backup"
	Backup string `json:"backup,omitempty"`
	// run is the name of a BackupRun in the same namespace.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=57
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="run: must be the name of a BackupRun"
	Run string `json:"run,omitempty"`
	// location is a place in an object store, for a Backup that no longer exists or is in another cluster.
	// +optional
	Location *BackupLocation `json:"location,omitempty"`
}

// BackupLocation is the place of a backup in an object store.
type BackupLocation struct {
	// destination is the object store, as in the Backup.
	// +required
	Destination Destination `json:"destination,omitzero"`
	// namespace that the Backup was in. Defaults to the namespace of this object.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="namespace: must be the name of a namespace"
	Namespace string `json:"namespace,omitempty"`
	// backup is the name that the Backup had.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=40
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="backup: must be the name of a Backup"
	Backup string `json:"backup"`
	// run is the name of the BackupRun. Defaults to the last one in the store.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=57
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="run: must be the name of a BackupRun"
	Run string `json:"run,omitempty"`
}

// RestoreTarget is where to restore to. One field is set.
// +kubebuilder:validation:XValidation:rule="[has(self.postgresRef), has(self.server), has(self.temporary)].filter(x, x).size() == 1",message="to: must have one of postgresRef, server and temporary"
type RestoreTarget struct {
	// postgresRef is the name of a PostgreSQL of Fettle in the same namespace. Its databases are restored by name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=52
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="postgresRef: must be the name of a PostgreSQL, such as my-postgres"
	PostgresRef string `json:"postgresRef,omitempty"`
	// server is any other database server, of the type that the backup is from. If the backup has one database, it is restored into
	// connection.database, whatever its name was; otherwise databases are restored by name.
	// +optional
	Server *DatabaseServer `json:"server,omitempty"`
	// temporary verifies the backup: the pod starts a new server that only the pod can connect to, restores the backup, reads all tables,
	// and deletes everything. It is the only target for Physical backups. Backups of MongoDB cannot be verified.
	// +optional
	Temporary *TemporaryServer `json:"temporary,omitempty"`
}

// TemporaryServer is a server that exists only while a backup is verified.
// +kubebuilder:validation:XValidation:rule="!has(self.expect) || has(self.query)",message="expect: needs query"
// +kubebuilder:validation:XValidation:rule="!has(self.storageClassName) || has(self.storage)",message="storageClassName: needs storage"
type TemporaryServer struct {
	// query is one SELECT statement of SQL that runs after the restore, in the first database of the backup, or in the first database
	// of the PostgreSQL. It runs as a role that can only read. The verification fails if the query fails, or if its first value is not
	// expect. Unset by default: only the tables are read.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Query",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Query string `json:"query,omitempty"`
	// expect is the first value of the first row of query, as text, such as "42". The status shows the value if it differs. By default,
	// the query must return a row, and its first value must not be false, 0 or NULL.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Expected Value",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Expect *string `json:"expect,omitempty"`
	// storage is the size of a volume for the data, which exists as long as the pod. Unset by default: the data is in an emptyDir, on
	// the disk of the node.
	// +optional
	// +kubebuilder:validation:XValidation:rule="quantity(self).compareTo(quantity('1Gi')) >= 0",message="storage: must be at least 1Gi"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Storage",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Storage *resource.Quantity `json:"storage,omitempty"`
	// storageClassName is the StorageClass of this volume. Defaults to that of the cluster.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="storageClassName: must be the name of a StorageClass"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Storage Class",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	StorageClassName string `json:"storageClassName,omitempty"`
}

// RestoreStatus is the observed state.
type RestoreStatus struct {
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Observed Generation"
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase is Pending, Running, Succeeded, Failed or Terminating.
	// +optional
	// +kubebuilder:validation:Enum=Pending;Running;Succeeded;Failed;Terminating
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Phase",xDescriptors={"urn:alm:descriptor:io.kubernetes.phase"}
	Phase RunPhase `json:"phase,omitempty"`
	// startTime is when the Job was created, or the restore in place began.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Start Time"
	StartTime *metav1.Time `json:"startTime,omitempty"`
	// completionTime is when the restore succeeded or failed.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Completion Time"
	CompletionTime *metav1.Time `json:"completionTime,omitempty"`
	// progress of the restore. bytes are those written to the target, before compression. In place, they are those of the base backup: WAL
	// is replayed after it, which takes a time that is not known.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Progress"
	Progress *Progress `json:"progress,omitempty"`
	// result of the last attempt, which its pod reports.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Result"
	Result *RunResult `json:"result,omitempty"`
	// location is the URI of the restored backup.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Location"
	Location string `json:"location,omitempty"`
	// volumes is the number of the volumes that a PostgreSQL is restored to in place. formerVolumes is that of its former ones, which
	// are kept. To return to them, set the annotation fettle.dev/volumes of the PostgreSQL to this number.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Volumes"
	Volumes int32 `json:"volumes,omitempty"`
	// formerVolumes is the number of the volumes that the PostgreSQL had before.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Former Volumes"
	FormerVolumes int32 `json:"formerVolumes,omitempty"`
	// conditions are Ready, which is True when the restore has succeeded, and Stalled if it has failed.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Conditions",xDescriptors={"urn:alm:descriptor:io.kubernetes.conditions"}
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
