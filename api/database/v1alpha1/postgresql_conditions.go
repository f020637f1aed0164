package v1alpha1

// PostgreSQLPhase summarizes the conditions of a PostgreSQL.
type PostgreSQLPhase string

// Phases of a PostgreSQL.
const (
	PhasePending     PostgreSQLPhase = "Pending"
	PhaseCreating    PostgreSQLPhase = "Creating"
	PhaseRunning     PostgreSQLPhase = "Running"
	PhaseUpdating    PostgreSQLPhase = "Updating"
	PhaseDegraded    PostgreSQLPhase = "Degraded"
	PhaseFailed      PostgreSQLPhase = "Failed"
	PhasePaused      PostgreSQLPhase = "Paused"
	PhaseHibernated  PostgreSQLPhase = "Hibernated"
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
	// InstanceReady: ready and up to date.
	InstanceReady InstanceState = "Ready"
	// InstanceStarting: PostgreSQL starts, is cloned or is rewound.
	InstanceStarting InstanceState = "Starting"
	// InstanceOutdated: ready, and waits for its turn to be replaced or restarted.
	InstanceOutdated InstanceState = "Outdated"
	// InstanceFenced: stopped by the annotation fettle.dev/fenced.
	InstanceFenced InstanceState = "Fenced"
	// InstanceStopped: there is no pod: hibernated, or being re-created.
	InstanceStopped InstanceState = "Stopped"
	// InstanceFailed: cannot start or become ready; the message says why.
	InstanceFailed InstanceState = "Failed"
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
)

// Conditions of a PostgreSQL, in the order of their importance for the reason of Ready.
const (
	// PostgreSQLApplied is True when all children match the spec.
	PostgreSQLApplied = "Applied"
	// PostgreSQLVolumesReady is True when all volumes are bound and have the requested size.
	PostgreSQLVolumesReady = "VolumesReady"
	// PostgreSQLPrimaryReady is True when an instance is primary and accepts writes.
	PostgreSQLPrimaryReady = "PrimaryReady"
	// PostgreSQLInstancesReady is True when all instances are ready and up to date.
	PostgreSQLInstancesReady = "InstancesReady"
	// PostgreSQLConfigured is True when parameters, databases, roles, passwords and extensions match the spec.
	PostgreSQLConfigured = "Configured"
	// PostgreSQLMonitored is True when the PodMonitor and the PrometheusRule exist. Absent unless spec.monitoring.enabled is true.
	PostgreSQLMonitored = "Monitored"
	// PostgreSQLCertified is True when the instances use the certificate of spec.tls.issuerRef. Absent unless it is set.
	PostgreSQLCertified = "Certified"
)

// Reasons of a PostgreSQL's conditions, besides those of all kinds and the ones that the kubelet and the scheduler give
// for a pod (ImagePullBackOff, CrashLoopBackOff, Unschedulable, …).
const (
	// ReasonApplied: all children match the spec.
	ReasonApplied = "Applied"
	// ReasonVolumesReady: all volumes are bound and have the requested size.
	ReasonVolumesReady = "VolumesReady"
	// ReasonVolumeNotBound: a PVC has no volume yet.
	ReasonVolumeNotBound = "VolumeNotBound"
	// ReasonVolumeGrowing: a volume is being resized.
	ReasonVolumeGrowing = "VolumeGrowing"
	// ReasonVolumeStuck: a volume cannot be resized; the message says why.
	ReasonVolumeStuck = "VolumeStuck"
	// ReasonOrphanedVolumes: no instance uses a PVC of a deleted PostgreSQL of this name, and the PVC may hold the latest data.
	ReasonOrphanedVolumes = "OrphanedVolumes"
	// ReasonDiskFull: a volume is full, or 95% full.
	ReasonDiskFull = "DiskFull"
	// ReasonPrimaryReady: an instance is primary and accepts writes.
	ReasonPrimaryReady = "PrimaryReady"
	// ReasonSwitchoverDeferred: the instance of spec.preferredPrimary cannot become the primary yet; the message says why and until when.
	ReasonSwitchoverDeferred = "SwitchoverDeferred"
	// ReasonWritesRejected: the primary runs, and rejects writes: transaction IDs, memory or connections have run out, …
	ReasonWritesRejected = "WritesRejected"
	// ReasonNoPrimary: there is no primary; the agents elect one.
	ReasonNoPrimary = "NoPrimary"
	// ReasonDataLossNotAccepted: more data than spec.failover.maximumLag allows would be lost; the message says how many bytes, and what to do.
	ReasonDataLossNotAccepted = "DataLossNotAccepted"
	// ReasonCreating: instances start for the first time.
	ReasonCreating = "Creating"
	// ReasonInstancesReady: all instances are ready and up to date.
	ReasonInstancesReady = "InstancesReady"
	// ReasonInstanceNotReady: an instance is not ready; the message says why.
	ReasonInstanceNotReady = "InstanceNotReady"
	// ReasonRecloneNeeded: an instance cannot follow the primary and waits for the annotation fettle.dev/reclone.
	ReasonRecloneNeeded = "RecloneNeeded"
	// ReasonCopying: the first instance copies the server of spec.bootstrap.pgBasebackup.
	ReasonCopying = "Copying"
	// ReasonSourceUnreachable: that server does not answer.
	ReasonSourceUnreachable = "SourceUnreachable"
	// ReasonSourceRejected: that server rejects the login, or replication.
	ReasonSourceRejected = "SourceRejected"
	// ReasonSourceUntrusted: the certificate of that server is not signed by the CA in caSecret, or not issued for its host.
	ReasonSourceUntrusted = "SourceUntrusted"
	// ReasonSourceUnsuitable: that server cannot be copied: another major version, tablespaces, …
	ReasonSourceUnsuitable = "SourceUnsuitable"
	// ReasonSourceTooLarge: the data of that server do not fit on the volume.
	ReasonSourceTooLarge = "SourceTooLarge"
	// ReasonCopyFailed: the copy failed for another reason; the message has the error from PostgreSQL.
	ReasonCopyFailed = "CopyFailed"
	// ReasonInstanceFenced: an instance is stopped by the annotation fettle.dev/fenced.
	ReasonInstanceFenced = "InstanceFenced"
	// ReasonUpdating: instances are being replaced or restarted, one at a time.
	ReasonUpdating = "Updating"
	// ReasonScaling: instances are being added or removed.
	ReasonScaling = "Scaling"
	// ReasonSwitchover: a switchover to another instance is in progress.
	ReasonSwitchover = "Switchover"
	// ReasonHibernated: all instances are stopped because spec.hibernated is true.
	ReasonHibernated = "Hibernated"
	// ReasonConfigured: parameters, databases, roles, passwords and extensions match the spec.
	ReasonConfigured = "Configured"
	// ReasonParametersInvalid: spec.parameters has a parameter that is rejected; the message says which and why.
	ReasonParametersInvalid = "ParametersInvalid"
	// ReasonSecretMissing: a Secret that the spec refers to does not exist, or lacks the key.
	ReasonSecretMissing = "SecretMissing"
	// ReasonApplyRejected: PostgreSQL rejected a database, role or extension; the message has the error.
	ReasonApplyRejected = "ApplyRejected"
	// ReasonMonitored: the PodMonitor and the PrometheusRule exist.
	ReasonMonitored = "Monitored"
	// ReasonCertified: the instances use the certificate of spec.tls.issuerRef.
	ReasonCertified = "Certified"
	// ReasonIssuerNotReady: the issuer issues no certificate; the message has the error from cert-manager.
	ReasonIssuerNotReady = "IssuerNotReady"
	// ReasonCertificateUnusable: the issued certificate cannot be used; the message says why.
	ReasonCertificateUnusable = "CertificateUnusable"
	// ReasonAPIMissing: the API of an optional child is not installed in the cluster.
	ReasonAPIMissing = "APIMissing"
)
