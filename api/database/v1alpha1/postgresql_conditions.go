package v1alpha1

// PostgreSQLPhase summarizes the conditions of a PostgreSQL.
type PostgreSQLPhase string

// Phases of a PostgreSQL.
const (
	// PhasePending: Fettle has not applied the spec yet.
	PhasePending PostgreSQLPhase = "Pending"
	// PhaseCreating: the first instances start.
	PhaseCreating PostgreSQLPhase = "Creating"
	// PhaseRunning: an instance accepts writes, and everything is as the spec asks.
	PhaseRunning PostgreSQLPhase = "Running"
	// PhaseUpdating: instances are replaced or restarted, one at a time.
	PhaseUpdating PostgreSQLPhase = "Updating"
	// PhaseDegraded: something needs attention. The condition Ready has the reason.
	PhaseDegraded PostgreSQLPhase = "Degraded"
	// PhaseFailed: no instance accepts writes, and a person has to act. The condition Ready has the reason.
	PhaseFailed PostgreSQLPhase = "Failed"
	// PhasePaused: spec.paused is true, so Fettle changes nothing. Failover stays active.
	PhasePaused PostgreSQLPhase = "Paused"
	// PhaseHibernated: all instances are stopped, as spec.hibernated asks.
	PhaseHibernated PostgreSQLPhase = "Hibernated"
	// PhaseTerminating: the object is being deleted.
	PhaseTerminating PostgreSQLPhase = "Terminating"
)

// InstanceRole is the role of an instance in replication.
type InstanceRole string

// Roles of an instance, as its agent labels the pod.
const (
	RolePrimary InstanceRole = "Primary"
	RoleReplica InstanceRole = "Replica"
	RoleUnknown InstanceRole = "Unknown"
)

// InstanceState summarizes the state of an instance.
type InstanceState string

// States of an instance.
const (
	// InstanceReady: the instance is ready.
	InstanceReady InstanceState = "Ready"
	// InstanceStarting: the instance starts, copies the primary or runs pg_rewind.
	InstanceStarting InstanceState = "Starting"
	// InstanceOutdated: the instance is ready, with an older template or parameters that need a restart. It will be updated.
	InstanceOutdated InstanceState = "Outdated"
	// InstanceFenced: the annotation fettle.dev/fenced has stopped the instance.
	InstanceFenced InstanceState = "Fenced"
	// InstanceStopped: there is no pod, as the spec asks, or until the pod is re-created.
	InstanceStopped InstanceState = "Stopped"
	// InstanceFailed: the instance cannot start or is not ready. The message says why.
	InstanceFailed InstanceState = "Failed"
)

// Containers of the pods. spec.podTemplate refers to MainContainer.
const (
	// MainContainer runs PostgreSQL and its agent.
	MainContainer = "postgres"
	// InstallContainer copies the agent into the pod.
	InstallContainer = "install"
)

// Labels and annotations that Fettle, its agents and users set.
const (
	// LabelRole is on each pod, set by its agent: "primary" or "replica". The Services select by it.
	LabelRole = "fettle.dev/role"
	// LabelRolePrimary and LabelRoleReplica are the values of LabelRole.
	LabelRolePrimary = "primary"
	LabelRoleReplica = "replica"
	// AnnotationSwitchover, on the PostgreSQL, requests a switchover to the named pod. The agents follow it while that pod can take over.
	// The operator replaces "any" by the name of a pod, and removes the annotation when the named pod is primary.
	AnnotationSwitchover = "fettle.dev/switchover"
	// AnnotationFenced, on the PostgreSQL, stops PostgreSQL in the named pods (separated by commas, "*" for all) and keeps the
	// pods.
	AnnotationFenced = "fettle.dev/fenced"
	// AnnotationReclone, on the PostgreSQL, names standbys (pods, separated by commas) to reclone as soon as they cannot follow the
	// primary, also if spec.replicaRecovery is Manual. The operator removes it when all of them are ready.
	AnnotationReclone = "fettle.dev/reclone"
	// AnnotationAcceptDataLoss, on the PostgreSQL, accepts the loss of what the named pod lacks: that pod may become the primary, and
	// instances with more data are recloned from it. Their former data stay on their volumes. The operator removes the annotation when
	// another instance is the primary, or all instances are ready.
	AnnotationAcceptDataLoss = "fettle.dev/accept-data-loss"
	// AnnotationRotate, on a Secret of credentials that Fettle generated, requests a new password: any value that differs from that of
	// AnnotationRotated. The Secret then names the other one of the role's two logins.
	AnnotationRotate = "fettle.dev/rotate"
	// AnnotationRotated, on the same Secret, is the last request of AnnotationRotate that is done.
	AnnotationRotated = "fettle.dev/rotated"
	// AnnotationUnusedBy, on a PersistentVolumeClaim, is the UID of a PostgreSQL that was re-created with too few instances to use this
	// PVC. Removing the annotation clears the reason OrphanedVolumes.
	AnnotationUnusedBy = "fettle.dev/unused-by"
	// AnnotationUpgradeAgent, on the PostgreSQL, replaces the pods whose agent is not the operator's, one at a time, while its value is
	// "true". See spec.agentUpdatePolicy.
	AnnotationUpgradeAgent = "fettle.dev/upgrade-agent"
	// AnnotationRestart, on the PostgreSQL, restarts all instances, one at a time, whenever its value changes.
	AnnotationRestart = "fettle.dev/restart"
	// AnnotationVolumes, on the PostgreSQL, is the number of the volumes that all instances use. Without it they use the first ones, the
	// PVCs data-<pod>. With the number n they use the PVCs data-<n>-<pod>. A change stops all instances, and starts them with the other
	// volumes. No PVC is deleted.
	AnnotationVolumes = "fettle.dev/volumes"
	// AnnotationRecovery, on the PostgreSQL, is the name and the UID of the Restore that restores it in place: <name>/<UID>. Only Fettle sets it.
	AnnotationRecovery = "fettle.dev/recovery"
	// AnnotationFormerVolumes, on the PostgreSQL, is the number of the volumes that it returns to if that Restore fails or is deleted. Only
	// Fettle sets it.
	AnnotationFormerVolumes = "fettle.dev/former-volumes"
)

// Conditions of a PostgreSQL, in the order of their importance for the reason of Ready.
const (
	// PostgreSQLApplied is True when all child objects are as the spec asks.
	PostgreSQLApplied = "Applied"
	// PostgreSQLVolumesReady is True when all volumes are bound, as large as the spec asks, and not full.
	PostgreSQLVolumesReady = "VolumesReady"
	// PostgreSQLPrimaryReady is True when an instance is primary and accepts writes.
	PostgreSQLPrimaryReady = "PrimaryReady"
	// PostgreSQLInstancesReady is True when all instances are ready and run what the spec asks.
	PostgreSQLInstancesReady = "InstancesReady"
	// PostgreSQLConfigured is True when parameters, databases, roles, passwords and extensions match the spec.
	PostgreSQLConfigured = "Configured"
	// PostgreSQLMonitored is True when the PodMonitor and the PrometheusRule exist. Absent without spec.monitoring.enabled.
	PostgreSQLMonitored = "Monitored"
	// PostgreSQLArchiving is True when WAL reaches the object store of spec.backup. Absent without spec.backup.enabled.
	PostgreSQLArchiving = "Archiving"
	// PostgreSQLCertified is True when the instances use the certificate of spec.tls.issuerRef. Absent without it.
	PostgreSQLCertified = "Certified"
)

// Reasons of a PostgreSQL's conditions, besides those of all kinds and the ones that the kubelet and the scheduler give
// for a pod (ImagePullBackOff, CrashLoopBackOff, Unschedulable, …).
const (
	// ReasonApplied: all child objects are as the spec asks.
	ReasonApplied = "Applied"
	// ReasonVolumesReady: all volumes are bound and have the requested size.
	ReasonVolumesReady = "VolumesReady"
	// ReasonVolumeNotBound: a PVC has no volume. Run kubectl describe pvc on the PVC that the message names, and check the
	// StorageClass.
	ReasonVolumeNotBound = "VolumeNotBound"
	// ReasonVolumeGrowing: a volume is being expanded. Wait.
	ReasonVolumeGrowing = "VolumeGrowing"
	// ReasonVolumeStuck: a volume cannot be expanded. Use a StorageClass with allowVolumeExpansion, or read the message.
	ReasonVolumeStuck = "VolumeStuck"
	// ReasonOrphanedVolumes: no instance uses a PVC of a deleted PostgreSQL of this name, and the PVC may hold the latest data.
	// Raise spec.replicas to use it, delete the PVC, or remove its annotation fettle.dev/unused-by to keep it unused.
	ReasonOrphanedVolumes = "OrphanedVolumes"
	// ReasonVolumesSwitching: all instances are stopped, to start with the volumes that the annotation fettle.dev/volumes names. Wait.
	ReasonVolumesSwitching = "VolumesSwitching"
	// ReasonVolumesUnknown: the annotation fettle.dev/volumes names volumes that cannot be used. The instances keep the present ones.
	// Correct the annotation, or create the PVC that the message names.
	ReasonVolumesUnknown = "VolumesUnknown"
	// ReasonDiskFull: a volume is full or nearly full. Raise spec.storage, or set spec.autoGrow.
	ReasonDiskFull = "DiskFull"
	// ReasonPrimaryReady: an instance is primary and accepts writes.
	ReasonPrimaryReady = "PrimaryReady"
	// ReasonSwitchoverDeferred: an instance accepts writes. The switchover to spec.preferredPrimary is deferred, because that
	// instance was unresponsive as the primary. Wait until it has run for 10 minutes, or set the annotation fettle.dev/switchover.
	ReasonSwitchoverDeferred = "SwitchoverDeferred"
	// ReasonWritesRejected: the primary runs and rejects writes, for example because transaction IDs, memory or connections ran
	// out. Follow the runbook FettlePostgreSQLWritesRejected. The message has the SQLSTATE.
	ReasonWritesRejected = "WritesRejected"
	// ReasonNoPrimary: no instance accepts writes. The agents elect a primary. If it lasts, read the messages in
	// status.instanceStatuses.
	ReasonNoPrimary = "NoPrimary"
	// ReasonDataLossNotAccepted: more WAL than spec.failover.maximumLag would be lost. The message says how many bytes. Bring back
	// the instance that has the data. If it is lost, set the annotation fettle.dev/accept-data-loss to the pod that the message
	// names.
	ReasonDataLossNotAccepted = "DataLossNotAccepted"
	// ReasonCreating: the first instances start. Wait.
	ReasonCreating = "Creating"
	// ReasonInstancesReady: all instances are ready and run what the spec asks.
	ReasonInstancesReady = "InstancesReady"
	// ReasonInstanceNotReady: an instance is not ready. Read the message, and the logs of the pod that it names.
	ReasonInstanceNotReady = "InstanceNotReady"
	// ReasonRecloneNeeded: a standby cannot follow the primary, and its data are not replaced automatically. Save what you need
	// from its volume, then set the annotation fettle.dev/reclone to its name.
	ReasonRecloneNeeded = "RecloneNeeded"
	// ReasonCopying: the first instance copies the server of spec.bootstrap.pgBasebackup, or restores the backup of
	// spec.bootstrap.recovery. Wait.
	ReasonCopying = "Copying"
	// ReasonSourceUnreachable: the server of spec.bootstrap.pgBasebackup does not answer. Check host, port, DNS, firewalls and
	// NetworkPolicies.
	ReasonSourceUnreachable = "SourceUnreachable"
	// ReasonSourceRejected: that server rejects the login or the replication of the user. Change what the message names: the
	// password, pg_hba.conf, the role, or max_wal_senders.
	ReasonSourceRejected = "SourceRejected"
	// ReasonSourceUntrusted: the certificate of that server is not signed by the CA in caSecret, or not valid for host. Correct
	// caSecret or host.
	ReasonSourceUntrusted = "SourceUntrusted"
	// ReasonSourceUnsuitable: that server cannot be copied, for example because of its version or of tablespaces. Read the message.
	ReasonSourceUnsuitable = "SourceUnsuitable"
	// ReasonSourceTooLarge: the data of that server do not fit on the volume. Raise spec.storage.
	ReasonSourceTooLarge = "SourceTooLarge"
	// ReasonCopyFailed: the copy of that server failed for another reason. Read the error of PostgreSQL in the message, and the
	// logs of the pod.
	ReasonCopyFailed = "CopyFailed"
	// ReasonTargetTooEarly: no backup of spec.bootstrap.recovery was complete before the target. Choose a later target. A PostgreSQL
	// without data can be deleted and created again with another one.
	ReasonTargetTooEarly = "TargetTooEarly"
	// ReasonTargetNotReached: the archived WAL ends before the target of spec.bootstrap.recovery. Choose an earlier target, or wait if
	// the source still archives WAL.
	ReasonTargetNotReached = "TargetNotReached"
	// ReasonWALMissing: the archive lacks WAL that recovery to the target of spec.bootstrap.recovery needs. Choose a target before the
	// gap, or a base backup after it.
	ReasonWALMissing = "WALMissing"
	// ReasonRecoveryFailed: the recovery of spec.bootstrap.recovery failed for another reason. Read the error of PostgreSQL in the
	// message, and the logs of the pod.
	ReasonRecoveryFailed = "RecoveryFailed"
	// ReasonInstanceFenced: the annotation fettle.dev/fenced has stopped an instance. Remove the annotation.
	ReasonInstanceFenced = "InstanceFenced"
	// ReasonUpdating: instances are replaced or restarted, one at a time. Wait.
	ReasonUpdating = "Updating"
	// ReasonScaling: instances are added or removed. Wait.
	ReasonScaling = "Scaling"
	// ReasonSwitchover: a switchover to another instance is in progress. Wait.
	ReasonSwitchover = "Switchover"
	// ReasonHibernated: all instances are stopped because spec.hibernated is true.
	ReasonHibernated = "Hibernated"
	// ReasonConfigured: parameters, databases, roles, passwords and extensions match the spec.
	ReasonConfigured = "Configured"
	// ReasonParametersInvalid: a parameter in spec.parameters is rejected. Correct the parameter that the message names.
	ReasonParametersInvalid = "ParametersInvalid"
	// ReasonSecretMissing: a Secret that the spec refers to does not exist, or lacks the key. Create the Secret or the key that the
	// message names.
	ReasonSecretMissing = "SecretMissing"
	// ReasonApplyRejected: PostgreSQL rejected a database, role or extension. Read the error of PostgreSQL in the message, and
	// correct the spec or the database.
	ReasonApplyRejected = "ApplyRejected"
	// ReasonMonitored: the PodMonitor and the PrometheusRule exist.
	ReasonMonitored = "Monitored"
	// ReasonArchiving: WAL reaches the object store of spec.backup.
	ReasonArchiving = "Archiving"
	// ReasonArchivingStarting: no WAL has reached the object store yet since spec.backup was enabled or the primary started. Wait a
	// minute.
	ReasonArchivingStarting = "ArchivingStarting"
	// ReasonDestinationMissing: spec.backup.enabled is true, and spec.backup.destination is not set, so nothing is backed up. Set it.
	ReasonDestinationMissing = "DestinationMissing"
	// ReasonArchivingFailed: WAL does not reach the object store. The database goes on, and its volumes fill up with WAL. Correct what
	// the message names.
	ReasonArchivingFailed = "ArchivingFailed"
	// ReasonArchivingBehind: the object store is slower than the database writes WAL. Wait until the load ends, or use a faster store.
	ReasonArchivingBehind = "ArchivingBehind"
	// ReasonCertified: the instances use the certificate of spec.tls . issuerRef.
	ReasonCertified = "Certified"
	// ReasonIssuerNotReady: the issuer of spec.tls.issuerRef does not issue a certificate. Run kubectl describe certificate, and
	// correct the issuer.
	ReasonIssuerNotReady = "IssuerNotReady"
	// ReasonCertificateUnusable: the certificate of the issuer cannot be used. Correct what the message names. The certificate must
	// be valid for all names and come with a ca.crt.
	ReasonCertificateUnusable = "CertificateUnusable"
	// ReasonAPIMissing: the API of an optional child object is not installed in the cluster. Install it, or remove the field.
	// Fettle needs no restart.
	ReasonAPIMissing = "APIMissing"
)
