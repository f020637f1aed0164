package v1

// AppConfigPhase summarizes the conditions of an AppConfig.
type AppConfigPhase string

// Phases of an AppConfig.
const (
	// PhasePending: a ConfigMap or Secret of spec.valuesFrom does not exist.
	PhasePending AppConfigPhase = "Pending"
	// PhasePublishing: new contents are rendered and published.
	PhasePublishing AppConfigPhase = "Publishing"
	// PhaseRollingOut: dependents restart with the published contents.
	PhaseRollingOut AppConfigPhase = "RollingOut"
	// PhaseRunning: everything is as the spec asks.
	PhaseRunning AppConfigPhase = "Running"
	// PhaseDegraded: something needs attention. The condition Ready has the reason.
	PhaseDegraded AppConfigPhase = "Degraded"
	// PhaseFailed: a rollout failed. The condition Ready has the reason.
	PhaseFailed AppConfigPhase = "Failed"
	// PhasePaused: spec.paused is true, so Fettle changes nothing.
	PhasePaused AppConfigPhase = "Paused"
	// PhaseTerminating: the object is being deleted.
	PhaseTerminating AppConfigPhase = "Terminating"
)

// DependentState is the state of a workload that uses the configuration.
type DependentState string

// States of a dependent.
const (
	// DependentUpToDate: the pods run the published contents.
	DependentUpToDate DependentState = "UpToDate"
	// DependentPending: the workload will restart. The message says when.
	DependentPending DependentState = "Pending"
	// DependentRestarting: the pods are being replaced.
	DependentRestarting DependentState = "Restarting"
	// DependentFailed: the workload was not ready in time after its restart.
	DependentFailed DependentState = "Failed"
	// DependentPaused: the workload is paused or has the strategy OnDelete, so a person has to restart it.
	DependentPaused DependentState = "Paused"
)

// Conditions of an AppConfig, in the order in which Ready summarizes them.
const (
	// AppConfigRendered is True when all templates are rendered and valid by the schema.
	AppConfigRendered = "Rendered"
	// AppConfigPublished is True when the rendered contents are published.
	AppConfigPublished = "Published"
	// AppConfigRolledOut is True when all dependents run the published contents.
	AppConfigRolledOut = "RolledOut"
)

// Reasons of an AppConfig's conditions, in addition to those of all kinds.
const (
	// ReasonRendered: all templates are rendered.
	ReasonRendered = "Rendered"
	// ReasonValuesMissing: a ConfigMap or Secret of spec.valuesFrom does not exist. The published contents stay. Create the object,
	// or set optional on the reference.
	ReasonValuesMissing = "ValuesMissing"
	// ReasonCircularValues: the values come from the contents that the AppConfig publishes, directly or through other AppConfigs.
	// Remove one of the references that the message names.
	ReasonCircularValues = "CircularValues"
	// ReasonTemplateError: a template cannot be rendered. Correct the key and line that the message names. Often a value is not
	// set.
	ReasonTemplateError = "TemplateError"
	// ReasonSchemaViolation: the rendered contents violate spec.schema. Correct the value or the schema.
	ReasonSchemaViolation = "SchemaViolation"
	// ReasonInvalidSchema: spec.schema is not a JSON Schema that Fettle supports. Correct the schema.
	ReasonInvalidSchema = "InvalidSchema"
	// ReasonMalformed: a file is not well-formed JSON, YAML or properties. Correct the file. Quote strings with quote or toJson.
	ReasonMalformed = "Malformed"

	// ReasonPublished: the rendered contents are published.
	ReasonPublished = "Published"
	// ReasonThrottled: the contents change so often that Fettle delays publications. Find the client that changes the sources or
	// the published objects, and stop it.
	ReasonThrottled = "Throttled"
	// ReasonPreview: spec.preview is true, so Fettle publishes nothing. Set spec.preview to false to publish.
	ReasonPreview = "Preview"
	// ReasonRolledBack: an earlier revision is published, because spec.rollback asks for it or a rollout failed. Correct the
	// configuration, or remove spec.rollback.
	ReasonRolledBack = "RolledBack"
	// ReasonRevisionMissing: the revision of spec.rollback is no longer kept. Choose another revision, or remove spec.rollback.
	ReasonRevisionMissing = "RevisionMissing"

	// ReasonRolledOut: all dependents run the published contents.
	ReasonRolledOut = "RolledOut"
	// ReasonNoDependents: no workload uses the published contents.
	ReasonNoDependents = "NoDependents"
	// ReasonRestartsDisabled: spec.rollout.strategy is None, so Fettle restarts nothing.
	ReasonRestartsDisabled = "RestartsDisabled"
	// ReasonRollingOut: dependents restart. Wait.
	ReasonRollingOut = "RollingOut"
	// ReasonDebouncing: restarts begin when nothing has changed for spec.rollout.debounce. Wait.
	ReasonDebouncing = "Debouncing"
	// ReasonWaitingForWindow: restarts begin when the window of spec.rollout.window opens. Wait, or remove the window.
	ReasonWaitingForWindow = "WaitingForWindow"
	// ReasonKeyMissing: a dependent needs a key that is not published, and its pods could not start. Add the key to spec.config, or
	// remove the reference.
	ReasonKeyMissing = "KeyMissing"
	// ReasonManualRestart: a dependent is paused, or has the strategy OnDelete. Resume it, or delete its pods.
	ReasonManualRestart = "ManualRestart"
	// ReasonRolloutFailed: a dependent was not ready in time after its restart. No other dependent restarts. Check the pods of the
	// workload that the message names, and correct the configuration.
	ReasonRolloutFailed = "RolloutFailed"
	// ReasonInvalidWindow: spec.rollout.window is invalid, and nothing restarts. Correct the window.
	ReasonInvalidWindow = "InvalidWindow"
)
