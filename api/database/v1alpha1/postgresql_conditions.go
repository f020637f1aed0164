package v1alpha1

// PostgreSQLPhase sums up a PostgreSQL's conditions for people.
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

// InstanceRole says what an instance does.
type InstanceRole string

// Roles of an instance, as its agent labels the pod.
const (
	RolePrimary InstanceRole = "Primary"
	RoleReplica InstanceRole = "Replica"
	RoleUnknown InstanceRole = "Unknown"
)

// InstanceState says how an instance does.
type InstanceState string

// States of an instance.
const (
	// InstanceReady: serves.
	InstanceReady InstanceState = "Ready"
	// InstanceStarting: starts, clones or rewinds.
	InstanceStarting InstanceState = "Starting"
	// InstanceOutdated: serves, with an older template or parameters that need a restart; its turn will come.
	InstanceOutdated InstanceState = "Outdated"
	// InstanceFenced: stopped by the annotation fettle.dev/fenced.
	InstanceFenced InstanceState = "Fenced"
	// InstanceStopped: there is no pod, as the spec asks or until it is made anew.
	InstanceStopped InstanceState = "Stopped"
	// InstanceFailed: can't start or serve; the message says why.
	InstanceFailed InstanceState = "Failed"
)

// Labels and annotations that Fettle, its agents and people use.
const (
	// LabelRole is on each pod, set by its agent: "primary" or "replica". The Services select by it.
	LabelRole = "fettle.dev/role"
	// LabelRolePrimary and LabelRoleReplica are the values of LabelRole.
	LabelRolePrimary = "primary"
	LabelRoleReplica = "replica"
	// AnnotationSwitchover, on the PostgreSQL, asks for another primary: the name of a pod. Its agents follow it while that pod can
	// take over. The operator writes the name of a pod for "any", and removes the annotation when the named pod is primary.
	AnnotationSwitchover = "fettle.dev/switchover"
	// AnnotationFenced, on the PostgreSQL, stops the server of the named pods (with commas between them, "*" for all) and keeps
	// the pods.
	AnnotationFenced = "fettle.dev/fenced"
	// AnnotationReclone, on the PostgreSQL, names standbys (pods, with commas between them) to reclone at the first sign that they
	// cannot follow the primary, also where autoReclone would not. The operator removes it when all of them are ready.
	AnnotationReclone = "fettle.dev/reclone"
	// AnnotationAcceptDataLoss, on the PostgreSQL, is the name of one pod that shall be, or is, the primary, whatever it lacks: it may be
	// elected, and data that hold more are replaced by a copy of its own. They stay on their volume. The operator removes the annotation when
	// another instance is the primary, or all are ready.
	AnnotationAcceptDataLoss = "fettle.dev/accept-data-loss"
	// AnnotationRotate, on a Secret of credentials that Fettle generated, asks for a new password. Any value that differs from the
	// one in AnnotationRotated does, one request after the other. The Secret then names the other one of the role's two logins.
	AnnotationRotate = "fettle.dev/rotate"
	// AnnotationRotated, on the same Secret, is the value of AnnotationRotate that was carried out last.
	AnnotationRotated = "fettle.dev/rotated"
	// AnnotationUnusedBy, on a PersistentVolumeClaim, is the UID of a PostgreSQL that was created when the claim of an earlier one of its
	// name existed, and that has too few instances to use the claim. Removing the annotation clears the reason OrphanedVolumes.
	AnnotationUnusedBy = "fettle.dev/unused-by"
	// AnnotationUpgradeAgent, on the PostgreSQL, replaces the pods whose agent is not the operator's, one at a time, while its value is
	// "true". See spec.agentUpdatePolicy.
	AnnotationUpgradeAgent = "fettle.dev/upgrade-agent"
	// AnnotationRestart, on the PostgreSQL, restarts all instances, one at a time, whenever its value changes.
	AnnotationRestart = "fettle.dev/restart"
)

// Conditions of a PostgreSQL, in the order in which Ready sums them up.
const (
	// PostgreSQLApplied is True when all children are as the spec asks.
	PostgreSQLApplied = "Applied"
	// PostgreSQLVolumesReady is True when all volumes are bound and as large as they should be.
	PostgreSQLVolumesReady = "VolumesReady"
	// PostgreSQLPrimaryReady is True when an instance takes writes.
	PostgreSQLPrimaryReady = "PrimaryReady"
	// PostgreSQLInstancesReady is True when all instances serve and run what the spec asks.
	PostgreSQLInstancesReady = "InstancesReady"
	// PostgreSQLConfigured is True when parameters, databases, roles, passwords and extensions are as the spec asks.
	PostgreSQLConfigured = "Configured"
	// PostgreSQLMonitored is True when the PodMonitor and the PrometheusRule exist. Absent where none is asked for.
	PostgreSQLMonitored = "Monitored"
	// PostgreSQLCertified is True when clients are shown the certificate that spec.tls.issuerRef asks for. Absent where none is asked for.
	PostgreSQLCertified = "Certified"
)

// Reasons of a PostgreSQL's conditions, besides those of all kinds and the ones that the kubelet and the scheduler give
// for a pod (ImagePullBackOff, CrashLoopBackOff, Unschedulable, …).
const (
	// ReasonApplied: all children are as the spec asks.
	ReasonApplied = "Applied"
	// ReasonVolumesReady: all volumes are bound and as large as they should be.
	ReasonVolumesReady = "VolumesReady"
	// ReasonVolumeNotBound: a claim has no volume yet.
	ReasonVolumeNotBound = "VolumeNotBound"
	// ReasonVolumeGrowing: a volume is being made larger.
	ReasonVolumeGrowing = "VolumeGrowing"
	// ReasonVolumeStuck: a volume can't be made larger; the message says why.
	ReasonVolumeStuck = "VolumeStuck"
	// ReasonOrphanedVolumes: no instance uses a claim of an earlier PostgreSQL of this name, and the claim may have the latest data.
	ReasonOrphanedVolumes = "OrphanedVolumes"
	// ReasonDiskFull: a volume has no room left, or hardly any.
	ReasonDiskFull = "DiskFull"
	// ReasonPrimaryReady: an instance takes writes.
	ReasonPrimaryReady = "PrimaryReady"
	// ReasonSwitchoverDeferred: an instance takes writes, and the one that spec.preferredPrimary names stood still not long ago.
	ReasonSwitchoverDeferred = "SwitchoverDeferred"
	// ReasonWritesRejected: the primary runs, and rejects writes: transaction IDs, memory or connections have run out, …
	ReasonWritesRejected = "WritesRejected"
	// ReasonNoPrimary: no instance takes writes; the agents are about to choose one.
	ReasonNoPrimary = "NoPrimary"
	// ReasonDataLossNotAccepted: more rows than spec.failover.maximumLag allows would be lost; the message says how many bytes, and what to do.
	ReasonDataLossNotAccepted = "DataLossNotAccepted"
	// ReasonCreating: the first instances are being started.
	ReasonCreating = "Creating"
	// ReasonInstancesReady: all instances serve and run what the spec asks.
	ReasonInstancesReady = "InstancesReady"
	// ReasonInstanceNotReady: an instance does not serve.
	ReasonInstanceNotReady = "InstanceNotReady"
	// ReasonRecloneNeeded: an instance can't follow the primary, and waits for a person to have its data replaced.
	ReasonRecloneNeeded = "RecloneNeeded"
	// ReasonCopying: the first instance copies the server of spec.bootstrap.pgBasebackup.
	ReasonCopying = "Copying"
	// ReasonSourceUnreachable: that server does not answer.
	ReasonSourceUnreachable = "SourceUnreachable"
	// ReasonSourceRejected: that server lets the user not in, or not replicate.
	ReasonSourceRejected = "SourceRejected"
	// ReasonSourceUntrusted: that server's certificate is not of the authority in caSecret, or not for its host.
	ReasonSourceUntrusted = "SourceUntrusted"
	// ReasonSourceUnsuitable: that server can't be copied: it is of another version, has tablespaces, …
	ReasonSourceUnsuitable = "SourceUnsuitable"
	// ReasonSourceTooLarge: its data do not fit on the volume.
	ReasonSourceTooLarge = "SourceTooLarge"
	// ReasonCopyFailed: the copy of that server failed in another way; the message has PostgreSQL's words.
	ReasonCopyFailed = "CopyFailed"
	// ReasonInstanceFenced: an instance is stopped by the annotation fettle.dev/fenced.
	ReasonInstanceFenced = "InstanceFenced"
	// ReasonUpdating: instances are being replaced or restarted, one at a time.
	ReasonUpdating = "Updating"
	// ReasonScaling: instances are being added or removed.
	ReasonScaling = "Scaling"
	// ReasonSwitchover: the primary hands over to another instance.
	ReasonSwitchover = "Switchover"
	// ReasonHibernated: all instances are stopped, as spec.hibernated asks.
	ReasonHibernated = "Hibernated"
	// ReasonConfigured: parameters, databases, roles, passwords and extensions are as the spec asks.
	ReasonConfigured = "Configured"
	// ReasonParametersInvalid: spec.parameters has one that is refused.
	ReasonParametersInvalid = "ParametersInvalid"
	// ReasonSecretMissing: a Secret that the spec names does not exist, or lacks the key "password".
	ReasonSecretMissing = "SecretMissing"
	// ReasonApplyRejected: PostgreSQL refused a database, role or extension; the message has its words.
	ReasonApplyRejected = "ApplyRejected"
	// ReasonMonitored: the PodMonitor and the PrometheusRule exist.
	ReasonMonitored = "Monitored"
	// ReasonCertified: clients are shown the certificate that spec.tls asks for.
	ReasonCertified = "Certified"
	// ReasonIssuerNotReady: the issuer gives no certificate; the message has cert-manager's words.
	ReasonIssuerNotReady = "IssuerNotReady"
	// ReasonCertificateUnusable: what the issuer gave can't be served; the message says why.
	ReasonCertificateUnusable = "CertificateUnusable"
	// ReasonAPIMissing: the API of an optional child is not installed in the cluster.
	ReasonAPIMissing = "APIMissing"
)
