package v1alpha1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

// Backup is a plan: it backs up databases to an object store on a schedule, and deletes old backups.
// +kubebuilder:object:root=true
// +kubebuilder:resource:shortName=bkp,categories=fettle
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Schedule",type=string,JSONPath=`.spec.schedule`
// +kubebuilder:printcolumn:name="Last-Success",type=date,JSONPath=`.status.lastSuccessfulTime`
// +kubebuilder:printcolumn:name="Next-Run",type=string,JSONPath=`.status.nextRunTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Recoverable-From",type=string,priority=1,JSONPath=`.status.firstRecoverableTime`
// +kubebuilder:printcolumn:name="Recoverable-To",type=string,priority=1,JSONPath=`.status.lastRecoverableTime`
// +kubebuilder:printcolumn:name="Last-Verified",type=date,priority=1,JSONPath=`.status.lastVerifiedTime`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 40 && self.metadata.name.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="metadata.name: must be a DNS label of at most 40 characters (lower-case letters, digits and '-'), since runs, Jobs and pods are named after it"
// +operator-sdk:csv:customresourcedefinitions:displayName="Backup",order=5,resources={{BackupRun,v1alpha1,""},{Job,v1,""},{Secret,v1,""},{Event,v1,""}}
type Backup struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ObjectMeta `json:"metadata,omitzero"`

	// spec is the desired state.
	// +required
	Spec BackupSpec `json:"spec,omitzero"`
	// status is the observed state.
	// +optional
	// +kubebuilder:default={phase: "Pending", conditions: {{type: "Ready", status: "Unknown", reason: "Reconciling", message: "waiting for the Fettle operator", lastTransitionTime: "1970-01-01T00:00:00Z"}}}
	Status BackupStatus `json:"status,omitzero"`
}

// Conditions returns the conditions of the status.
func (b *Backup) Conditions() *[]metav1.Condition { return &b.Status.Conditions }

// SetObserved sets the phase, and the generation that the status describes.
func (b *Backup) SetObserved(phase string) {
	b.Status.ObservedGeneration, b.Status.Phase = b.Generation, BackupPhase(phase)
}

// BackupList is a list of Backups.
// +kubebuilder:object:root=true
type BackupList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Backup `json:"items"`
}

// BackupSpec is the desired state.
// +kubebuilder:validation:XValidation:rule="has(self.postgresRef) != has(self.source)",message="spec: must have one of postgresRef, the name of a PostgreSQL of Fettle, and source, another database server; not both"
// +kubebuilder:validation:XValidation:rule="!has(self.method) || self.method == 'Logical' || has(self.postgresRef)",message="method: Physical needs postgresRef, since only a PostgreSQL of Fettle archives its WAL"
// +kubebuilder:validation:XValidation:rule="!has(self.method) || self.method == 'Logical' || !has(self.encryption)",message="encryption: only Logical backups can be encrypted by Fettle; let the bucket encrypt Physical ones"
// +kubebuilder:validation:XValidation:rule="!has(self.verify) || !has(self.source) || self.source.type != 'mongodb'",message="verify: backups of MongoDB cannot be verified"
// +kubebuilder:validation:XValidation:rule="!has(self.retention) || !has(self.retentionPolicy)",message="retention: must not be set beside retentionPolicy"
type BackupSpec struct {
	// postgresRef is the name of a PostgreSQL of Fettle in the same namespace to back up.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=52
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="postgresRef: must be the name of a PostgreSQL, such as my-postgres"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="PostgreSQL",order=1
	PostgresRef string `json:"postgresRef,omitempty"`

	// source is any other database server to back up.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Source",order=2
	Source *DatabaseServer `json:"source,omitempty"`

	// method is Logical (pg_dump, mysqldump or mongodump; restores into any server) or Physical (base backups and WAL of a PostgreSQL
	// of Fettle; restores to any point in time). Defaults to Logical. Immutable.
	// +optional
	// +kubebuilder:default=Logical
	// +kubebuilder:validation:Enum=Logical;Physical
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="method: cannot be changed, because each method deletes only its own old files; create another Backup"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Method",order=3,xDescriptors={"urn:alm:descriptor:com.tectonic.ui:select:Logical","urn:alm:descriptor:com.tectonic.ui:select:Physical"}
	Method BackupMethod `json:"method,omitempty"`

	// destination is where the backups are stored, below "<prefix>/<namespace>/<name>/".
	// +required
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Destination",order=4
	Destination Destination `json:"destination,omitzero"`

	// schedule of the runs as a cron expression such as "0 2 * * *", or a macro such as @daily. Unset by default: one run starts now, and
	// further ones when you create BackupRuns.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:XValidation:rule="!self.contains('TZ=')",message="schedule: must not contain a time zone; set timeZone"
	// +kubebuilder:validation:XValidation:rule="self.matches('^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[0-9A-Za-z*/,?-]+( +[0-9A-Za-z*/,?-]+){4})$')",message="schedule: must be a cron expression with five fields such as \"0 2 * * *\", or a macro such as @daily"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Schedule",order=5
	Schedule string `json:"schedule,omitempty"`

	// timeZone of the schedule, such as "Europe/Berlin". Defaults to UTC.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^[A-Za-z][A-Za-z0-9_+-]*(/[A-Za-z0-9_+-]+)*$') && self != 'Local'",message="timeZone: must be a name of the time zone database, such as Europe/Berlin"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Time Zone",order=6
	TimeZone string `json:"timeZone,omitempty"`

	// jitterSeconds delays each scheduled run by a constant number of seconds from 0 to this value, derived from the object's UID, so that
	// many Backups with the same schedule do not start at once. Defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=86400
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Jitter",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	JitterSeconds int32 `json:"jitterSeconds,omitempty"`

	// startingDeadlineSeconds is how late a scheduled run may still start, for example after the operator was down, in seconds. Of
	// several missed runs, one starts. Defaults to 3600.
	// +optional
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=10
	// +kubebuilder:validation:Maximum=604800
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Starting Deadline",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	StartingDeadlineSeconds int64 `json:"startingDeadlineSeconds,omitempty"`

	// suspend stops the schedule. Runs that you create by hand still start. Defaults to false.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Suspend",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced","urn:alm:descriptor:com.tectonic.ui:booleanSwitch"}
	Suspend bool `json:"suspend,omitempty"`

	// retention is how long backups are kept: a number of hours, days, weeks, months or years ("30d"), or a number of backups ("10c").
	// Old backups are deleted after a successful run only, and never the last ones, see retentionPolicy.minKeep. Unset by default:
	// nothing is deleted.
	// +optional
	// +kubebuilder:validation:MinLength=2
	// +kubebuilder:validation:MaxLength=6
	// +kubebuilder:validation:XValidation:rule="self.matches('^[1-9][0-9]{0,3}[hdwmyc]$')",message="retention: must be a number with a unit, such as 30d (h, d, w, m or y), or a number of backups such as 10c"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Retention",order=7
	Retention string `json:"retention,omitempty"`

	// retentionPolicy keeps backups by count and by calendar period, instead of retention. A backup is kept if one of the rules keeps it.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Retention Policy",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	RetentionPolicy *RetentionPolicy `json:"retentionPolicy,omitempty"`

	// compression of the backups: zstd, gzip or none. Defaults to zstd.
	// +optional
	// +kubebuilder:default=zstd
	// +kubebuilder:validation:Enum=zstd;gzip;none
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Compression",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced","urn:alm:descriptor:com.tectonic.ui:select:zstd","urn:alm:descriptor:com.tectonic.ui:select:gzip","urn:alm:descriptor:com.tectonic.ui:select:none"}
	Compression Compression `json:"compression,omitempty"`

	// encryption encrypts Logical backups before they leave the pod. Unset by default.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Encryption",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Encryption *Encryption `json:"encryption,omitempty"`

	// verify restores the last successful backup into a temporary server on a schedule, and reads it. Unset by default.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Verification"
	Verify *BackupVerification `json:"verify,omitempty"`

	// timeoutSeconds is how long a run may take with its retries, in seconds. A run that takes longer is stopped and has failed. Defaults
	// to 3600.
	// +optional
	// +kubebuilder:default=3600
	// +kubebuilder:validation:Minimum=60
	// +kubebuilder:validation:Maximum=604800
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Timeout",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	TimeoutSeconds int64 `json:"timeoutSeconds,omitempty"`

	// retries is how often a failed run is repeated from its start. Defaults to 2.
	// +optional
	// +kubebuilder:default=2
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Retries",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Retries *int32 `json:"retries,omitempty"`

	// pod configures the pods of the runs.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Pod",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	Pod RunPod `json:"pod,omitzero"`

	// paused stops reconciliation: no run starts, not even one that you create. Defaults to false.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Paused",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced","urn:alm:descriptor:com.tectonic.ui:booleanSwitch"}
	Paused bool `json:"paused,omitempty"`
}

// BackupVerification is when and how backups are verified.
type BackupVerification struct {
	// schedule of the verifications as a cron expression such as "0 6 * * 0", or a macro such as @weekly, in the time zone of the Backup.
	// suspend stops it too.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=100
	// +kubebuilder:validation:XValidation:rule="self.matches('^(@(yearly|annually|monthly|weekly|daily|midnight|hourly)|[0-9A-Za-z*/,?-]+( +[0-9A-Za-z*/,?-]+){4})$') && !self.contains('TZ=')",message="verify.schedule: must be a cron expression with five fields such as \"0 6 * * 0\", or a macro such as @weekly"
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Schedule"
	Schedule        string `json:"schedule"`
	TemporaryServer `json:",inline"`
	// identitySecretRef names the private age key of encrypted backups; key defaults to "identity". The verification of encrypted backups
	// needs it.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=spec,displayName="Private Key",xDescriptors={"urn:alm:descriptor:com.tectonic.ui:advanced"}
	IdentitySecretRef *fettlev1.SecretKeyReference `json:"identitySecretRef,omitempty"`
}

// BackupMethod says how a database is backed up.
type BackupMethod string

// Values of BackupMethod.
const (
	// MethodLogical dumps the contents of databases.
	MethodLogical BackupMethod = "Logical"
	// MethodPhysical copies the files of a PostgreSQL, and archives its WAL.
	MethodPhysical BackupMethod = "Physical"
)

// Compression of backups.
type Compression string

// Values of Compression.
const (
	CompressionZstd Compression = "zstd"
	CompressionGzip Compression = "gzip"
	CompressionNone Compression = "none"
)

// RetentionPolicy keeps backups by count and by calendar period (in UTC).
type RetentionPolicy struct {
	// keepLast is the number of the newest backups to keep. Defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	KeepLast int32 `json:"keepLast,omitempty"`
	// daily is the number of days with a backup to keep the newest backup of. Defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Daily int32 `json:"daily,omitempty"`
	// weekly is the number of weeks with a backup to keep the newest backup of. Defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Weekly int32 `json:"weekly,omitempty"`
	// monthly is the number of months with a backup to keep the newest backup of. Defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Monthly int32 `json:"monthly,omitempty"`
	// yearly is the number of years with a backup to keep the newest backup of. Defaults to 0.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=10000
	Yearly int32 `json:"yearly,omitempty"`
	// minKeep is the number of the newest backups that are never deleted. Defaults to 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	MinKeep int32 `json:"minKeep,omitempty"`
}

// Encryption by age (https://age-encryption.org). Only the holder of a private key can read the backups.
type Encryption struct {
	// recipients are the public keys that the backups are encrypted for, such as "age1…". Any one of the private keys can decrypt them.
	// Keep the private keys outside of the cluster as well: without one, the backups cannot be restored.
	// +required
	// +listType=set
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	// +kubebuilder:validation:items:MaxLength=62
	// +kubebuilder:validation:XValidation:rule="self.all(r, r.matches('^age1[02-9ac-hj-np-z]{58}$'))",message="recipients: each must be the public key that age-keygen prints, age1 and 58 characters"
	Recipients []string `json:"recipients"`
}

// RunPod configures the pod of a run or restore.
type RunPod struct {
	// image with the programs of the database. Defaults to the image of the PostgreSQL, or for other servers to
	// docker.io/library/postgres:18, docker.io/library/mysql:8.4 or docker.io/library/mongo:8.0. The programs must not be older than the server.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-zA-Z0-9][a-zA-Z0-9._:/@+-]*$')",message="image: must be an image reference such as docker.io/library/postgres:16, without spaces"
	Image string `json:"image,omitempty"`
	// imagePullSecrets names Secrets with the credentials for the registries of the images.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=10
	ImagePullSecrets []fettlev1.LocalReference `json:"imagePullSecrets,omitempty"`
	// resources sets the CPU and memory requests and limits of the container. Unset by default.
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitzero"`
	// nodeSelector lists labels that a node must have to run the pod.
	// +optional
	// +kubebuilder:validation:MaxProperties=50
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// tolerations of the pod.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=50
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
}

// BackupStatus is the observed state.
type BackupStatus struct {
	// observedGeneration is the generation of the spec that this status describes.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Observed Generation"
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// phase summarizes the conditions: Pending, Running (a run is under way), Scheduled, Completed (no schedule, the last run succeeded),
	// Suspended, Degraded, Failed, Paused or Terminating.
	// +optional
	// +kubebuilder:validation:Enum=Pending;Running;Scheduled;Completed;Suspended;Degraded;Failed;Paused;Terminating
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Phase",xDescriptors={"urn:alm:descriptor:io.kubernetes.phase"}
	Phase BackupPhase `json:"phase,omitempty"`
	// lastScheduleTime is the time of the schedule that the last scheduled run was for.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Last Schedule Time"
	LastScheduleTime *metav1.Time `json:"lastScheduleTime,omitempty"`
	// nextRunTime is when the next scheduled run starts.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Next Run Time"
	NextRunTime *metav1.Time `json:"nextRunTime,omitempty"`
	// activeRun is the BackupRun that is under way.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Active Run"
	ActiveRun string `json:"activeRun,omitempty"`
	// lastRun is the BackupRun that ended last.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Last Run"
	LastRun string `json:"lastRun,omitempty"`
	// lastRunTime is when that run ended.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Last Run Time"
	LastRunTime *metav1.Time `json:"lastRunTime,omitempty"`
	// lastSuccessfulRun is the last BackupRun that succeeded.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Last Successful Run"
	LastSuccessfulRun string `json:"lastSuccessfulRun,omitempty"`
	// lastSuccessfulTime is when that run ended.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Last Successful Time"
	LastSuccessfulTime *metav1.Time `json:"lastSuccessfulTime,omitempty"`
	// lastSizeBytes is what the last successful run stored, in bytes.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Last Size"
	LastSizeBytes int64 `json:"lastSizeBytes,omitempty"`
	// lastDurationSeconds is how long the last successful run took, in seconds.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Last Duration"
	LastDurationSeconds int64 `json:"lastDurationSeconds,omitempty"`
	// lastLocation is the URI of the last successful backup.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Last Location"
	LastLocation string `json:"lastLocation,omitempty"`
	// lastVerifiedRun is the last BackupRun whose verification succeeded. Retention keeps its backup.
	// +optional
	// +kubebuilder:validation:MaxLength=253
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Last Verified Run"
	LastVerifiedRun string `json:"lastVerifiedRun,omitempty"`
	// lastVerifiedTime is when this verification ended.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Last Verified Time"
	LastVerifiedTime *metav1.Time `json:"lastVerifiedTime,omitempty"`
	// consecutiveFailures is the number of runs that failed since the last success.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Consecutive Failures"
	ConsecutiveFailures int32 `json:"consecutiveFailures,omitempty"`
	// firstRecoverableTime is the start of the time window that a Physical backup can be restored to.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="First Recoverable Time"
	FirstRecoverableTime *metav1.Time `json:"firstRecoverableTime,omitempty"`
	// lastRecoverableTime is the end of this window: all commits before it are stored.
	// +optional
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Last Recoverable Time"
	LastRecoverableTime *metav1.Time `json:"lastRecoverableTime,omitempty"`
	// conditions are Ready, the conditions that it summarizes (Accepted, LastRunSucceeded, Verified), and Stalled if only a change by a
	// person can make the Backup ready.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	// +operator-sdk:csv:customresourcedefinitions:type=status,displayName="Conditions",xDescriptors={"urn:alm:descriptor:io.kubernetes.conditions"}
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}
