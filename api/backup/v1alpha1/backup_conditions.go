package v1alpha1

// BackupPhase summarizes the conditions of a Backup.
type BackupPhase string

// Phases of a Backup.
const (
	// PhasePending: Fettle has not read the spec yet, or waits for the PostgreSQL.
	PhasePending BackupPhase = "Pending"
	// PhaseRunning: a run is under way.
	PhaseRunning BackupPhase = "Running"
	// PhaseScheduled: the last run succeeded, and the next one is scheduled.
	PhaseScheduled BackupPhase = "Scheduled"
	// PhaseCompleted: the last run succeeded, and there is no schedule.
	PhaseCompleted BackupPhase = "Completed"
	// PhaseSuspended: spec.suspend is true, so no scheduled run starts.
	PhaseSuspended BackupPhase = "Suspended"
	// PhaseDegraded: the last run failed. The condition Ready has the reason.
	PhaseDegraded BackupPhase = "Degraded"
	// PhaseFailed: no run can start until a person changes something. The condition Ready has the reason.
	PhaseFailed BackupPhase = "Failed"
	// PhasePaused: spec.paused is true, so Fettle starts nothing.
	PhasePaused BackupPhase = "Paused"
	// PhaseTerminating: the object is being deleted.
	PhaseTerminating BackupPhase = "Terminating"
)

// RunPhase summarizes the conditions of a BackupRun or Restore.
type RunPhase string

// Phases of a BackupRun or Restore.
const (
	// RunPending: it waits for another run, or for what it refers to.
	RunPending RunPhase = "Pending"
	// RunRunning: its Job runs.
	RunRunning RunPhase = "Running"
	// RunSucceeded: everything was stored or restored, and checked.
	RunSucceeded RunPhase = "Succeeded"
	// RunFailed: it has failed for good. The condition Ready has the reason.
	RunFailed RunPhase = "Failed"
	// RunTerminating: the object is being deleted.
	RunTerminating RunPhase = "Terminating"
)

// Annotations and labels.
const (
	// LabelBackup is on the BackupRuns of a Backup.
	LabelBackup = "backup.fettle.dev/backup"
	// LabelPostgreSQL is on the pods of runs and restores of a PostgreSQL of Fettle, whose NetworkPolicy admits them.
	LabelPostgreSQL = "backup.fettle.dev/postgresql"
)

// Conditions of a Backup, in the order in which Ready summarizes them.
const (
	// BackupAccepted is True when the spec is valid and what it refers to exists.
	BackupAccepted = "Accepted"
	// BackupLastRunSucceeded is True when the last run succeeded; Unknown before the first one has ended.
	BackupLastRunSucceeded = "LastRunSucceeded"
	// BackupVerified is True when the last verification succeeded, and Unknown before the first one has ended. It exists if spec.verify
	// is set.
	BackupVerified = "Verified"
)

// Reasons of the conditions of Backups, BackupRuns and Restores, in addition to those of all kinds.
const (
	// ReasonAccepted: the spec is valid, and what it refers to exists.
	ReasonAccepted = "Accepted"
	// ReasonScheduleInvalid: spec.schedule or spec.timeZone cannot be parsed. Correct the field that the message names.
	ReasonScheduleInvalid = "ScheduleInvalid"
	// ReasonPostgreSQLMissing: the PostgreSQL that postgresRef names does not exist. Create it, or correct postgresRef.
	ReasonPostgreSQLMissing = "PostgreSQLMissing"
	// ReasonPostgreSQLNotReady: the PostgreSQL is not ready yet. Wait, or look at its conditions.
	ReasonPostgreSQLNotReady = "PostgreSQLNotReady"
	// ReasonNotManaged: a Physical Backup must be the one that a PostgreSQL creates. Set spec.backup of the PostgreSQL, and delete
	// this Backup.
	ReasonNotManaged = "NotManaged"
	// ReasonNoRunYet: no run has ended yet. Wait.
	ReasonNoRunYet = "NoRunYet"
	// ReasonVerified: the last verification restored the backup and read all of it.
	ReasonVerified = "Verified"
	// ReasonNotVerified: no verification has ended yet. Wait.
	ReasonNotVerified = "NotVerified"
	// ReasonVerificationFailed: the backup was restored into the temporary server, and its contents are not as expected. Read the message,
	// and check what is backed up.
	ReasonVerificationFailed = "VerificationFailed"
	// ReasonSuspended: spec.suspend is true, so no scheduled run starts. Set it to false.
	ReasonSuspended = "Suspended"

	// ReasonSucceeded: the backup or restore is complete and was checked.
	ReasonSucceeded = "Succeeded"
	// ReasonRunning: the Job runs. Wait.
	ReasonRunning = "Running"
	// ReasonWaiting: another run of the same Backup is under way. Wait.
	ReasonWaiting = "Waiting"
	// ReasonBackupMissing: the Backup or BackupRun that spec names does not exist. Create it, or correct the name.
	ReasonBackupMissing = "BackupMissing"
	// ReasonBackupRejected: the Backup cannot run. Look at its conditions.
	ReasonBackupRejected = "BackupRejected"
	// ReasonDeadlineExceeded: the run took longer than spec.timeoutSeconds and was stopped. Raise timeoutSeconds, or find out why it is
	// slow.
	ReasonDeadlineExceeded = "DeadlineExceeded"
	// ReasonPodLost: the pod was evicted or deleted, its node was lost, or it was out of memory, more often than spec.retries allows. Run
	// kubectl describe on the Job.
	ReasonPodLost = "PodLost"

	// ReasonStoreUnreachable: the object store does not answer. Check endpoint, DNS, firewalls and NetworkPolicies.
	ReasonStoreUnreachable = "StoreUnreachable"
	// ReasonStoreUntrusted: the certificate of the object store is not signed by a known CA, or not valid for its name. Set caSecretRef, or
	// correct endpoint.
	ReasonStoreUntrusted = "StoreUntrusted"
	// ReasonStoreForbidden: the object store rejects the keys, or they lack a permission. Correct the Secret, or grant the permission
	// that the message names.
	ReasonStoreForbidden = "StoreForbidden"
	// ReasonBucketMissing: the bucket does not exist. Create it, or correct its name or region.
	ReasonBucketMissing = "BucketMissing"
	// ReasonStoreInvalid: destination cannot be used, for example because endpoint is a link-local address, or the Secret lacks a
	// key. Correct what the message names.
	ReasonStoreInvalid = "StoreInvalid"
	// ReasonStoreFailed: the object store failed in another way. Read its error in the message.
	ReasonStoreFailed = "StoreFailed"
	// ReasonStoredDiffers: what the store has is not what was sent: the size or checksum differs. Check the store. The run is not
	// counted as a backup.
	ReasonStoredDiffers = "StoredDiffers"

	// ReasonServerUnreachable: the database server does not answer. Check host, port, DNS, firewalls and NetworkPolicies.
	ReasonServerUnreachable = "ServerUnreachable"
	// ReasonServerRejected: the database server rejects the login, or the role lacks a permission. Correct the Secret, or grant the
	// permission that the message names.
	ReasonServerRejected = "ServerRejected"
	// ReasonDatabaseMissing: a database does not exist on the server. Create it, or correct its name.
	ReasonDatabaseMissing = "DatabaseMissing"
	// ReasonProgramMissing: the image lacks the dump program, or its version is older than the server's. Set pod.image.
	ReasonProgramMissing = "ProgramMissing"
	// ReasonDumpFailed: the dump program failed. Read its error in the message, and the logs of the pod.
	ReasonDumpFailed = "DumpFailed"
	// ReasonDumpInvalid: the dump program succeeded, and its output is not complete. Read the logs of the pod.
	ReasonDumpInvalid = "DumpInvalid"

	// ReasonNoBackup: the store has no complete backup at this place. Check destination, namespace and names.
	ReasonNoBackup = "NoBackup"
	// ReasonBackupDamaged: the backup in the store is not what its manifest says. Restore another run.
	ReasonBackupDamaged = "BackupDamaged"
	// ReasonBackupUnsuitable: the backup is of another database type or method than the target. Correct from or to.
	ReasonBackupUnsuitable = "BackupUnsuitable"
	// ReasonKeyMissing: the backup is encrypted, and identitySecretRef is unset or has another key. Set it to the Secret with the private
	// age key.
	ReasonKeyMissing = "KeyMissing"
	// ReasonTargetNotEmpty: the target has data, and nothing was changed. Restore into an empty database, or set overwrite.
	ReasonTargetNotEmpty = "TargetNotEmpty"
	// ReasonRestoreFailed: the restore program failed. Read its error in the message, and the logs of the pod. The target may be
	// incomplete.
	ReasonRestoreFailed = "RestoreFailed"
	// ReasonSourceSecretMissing: a Secret that the spec refers to does not exist, or lacks the key. Create the Secret or the key that the
	// message names.
	ReasonSourceSecretMissing = "SecretMissing"
	// ReasonRunFailed: the pod ended without a report. Read the logs of the pod.
	ReasonRunFailed = "RunFailed"
)
