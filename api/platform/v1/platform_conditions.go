package v1

// Reasons of the condition Ready of AppStacks and EcommercePlatforms, besides those of all kinds.
const (
	// ReasonDeploying: components are being created or changed, within their time limit. Wait.
	ReasonDeploying = "Deploying"
	// ReasonComponentNotReady: a component that was ready no longer is, or reports a problem. The message names it, with its own reason.
	// Fettle does not stop the components that depend on it, and does not change them until it is ready.
	ReasonComponentNotReady = "ComponentNotReady"
	// ReasonComponentTimeout: a component did not become ready within spec.componentTimeout. The message names it, with its own reason.
	// Fettle keeps trying.
	ReasonComponentTimeout = "ComponentTimeout"
	// ReasonDependencyTimeout: a component waits for another one that did not become ready within spec.componentTimeout. The message
	// names both. Fettle keeps trying.
	ReasonDependencyTimeout = "DependencyTimeout"
	// ReasonInvalidSpec: the spec cannot be carried out, for example because components depend on each other in a circle. Correct the
	// field that the message names. What runs stays as it is.
	ReasonInvalidSpec = "InvalidSpec"
	// ReasonBackupDestinationMissing: the environment production needs backups, and there is no destination for them. Set the
	// backup.destination of the database, or ask for a default of the operator (--backup-destination). What runs stays as it is.
	ReasonBackupDestinationMissing = "BackupDestinationMissing"
)

// Reasons of components, besides those of the child object's condition Ready.
const (
	// ComponentWaiting: the component is not created, or not changed, until those that it depends on are ready.
	ComponentWaiting = "Waiting"
	// ComponentApplied: the child object was written, and its controller has not reported on it yet.
	ComponentApplied = "Applied"
	// ComponentMissing: the Secret of an external server does not exist.
	ComponentMissing = "Missing"
	// ComponentCredentialsMissing: the volume of a MySQL exists, and the Secret with its passwords does not. Restore the Secret, or delete
	// the PersistentVolumeClaim to start with an empty database.
	ComponentCredentialsMissing = "CredentialsMissing"
	// ComponentRemoved: the component is no longer in the spec, and its child object is being deleted.
	ComponentRemoved = "Removed"
	// ComponentSuspended: the component has no child object, and is suspended.
	ComponentSuspended = "Suspended"
)
