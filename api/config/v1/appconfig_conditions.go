package v1

// AppConfigPhase summarizes the conditions of an AppConfig.
type AppConfigPhase string

// Phases of an AppConfig.
const (
	PhasePending     AppConfigPhase = "Pending"
	PhasePublishing  AppConfigPhase = "Publishing"
	PhaseRollingOut  AppConfigPhase = "RollingOut"
	PhaseRunning     AppConfigPhase = "Running"
	PhaseDegraded    AppConfigPhase = "Degraded"
	PhaseFailed      AppConfigPhase = "Failed"
	PhasePaused      AppConfigPhase = "Paused"
	PhaseTerminating AppConfigPhase = "Terminating"
)

// DependentState is the state of a workload that uses the configuration.
type DependentState string

// States of a dependent.
const (
	// DependentUpToDate: its pods run the published contents.
	DependentUpToDate DependentState = "UpToDate"
	// DependentPending: it will restart; the message says what it waits for.
	DependentPending DependentState = "Pending"
	// DependentRestarting: its pods are being replaced.
	DependentRestarting DependentState = "Restarting"
	// DependentFailed: it made no progress within the deadline after its restart.
	DependentFailed DependentState = "Failed"
	// DependentPaused: its pod template is updated, and a person must replace its pods: it is paused, or its update strategy is
	// OnDelete.
	DependentPaused DependentState = "Paused"
)

// Conditions of an AppConfig, in the order in which Ready summarizes them.
const (
	// AppConfigRendered is True if all templates were rendered and satisfy the schema.
	AppConfigRendered = "Rendered"
	// AppConfigPublished is True if the rendered contents are published, or spec.preview is true.
	AppConfigPublished = "Published"
	// AppConfigRolledOut is True if all dependents run the published contents.
	AppConfigRolledOut = "RolledOut"
)

// Reasons of an AppConfig's conditions, in addition to those of all kinds.
const (
	// ReasonRendered: all templates were rendered.
	ReasonRendered = "Rendered"
	// ReasonValuesMissing: a ConfigMap or Secret of spec.valuesFrom does not exist. Create it, or mark the reference as optional.
	ReasonValuesMissing = "ValuesMissing"
	// ReasonCircularValues: the values come from the AppConfig's own output, directly or through other AppConfigs. Remove one of the
	// sources.
	ReasonCircularValues = "CircularValues"
	// ReasonTemplateError: a template cannot be rendered. Correct the key in the message.
	ReasonTemplateError = "TemplateError"
	// ReasonSchemaViolation: the rendered contents violate spec.schema. Correct the contents or the schema.
	ReasonSchemaViolation = "SchemaViolation"
	// ReasonInvalidSchema: spec.schema is not a valid JSON Schema. Correct it.
	ReasonInvalidSchema = "InvalidSchema"
	// ReasonMalformed: a file is not well-formed JSON, YAML or properties. Correct the file in the message.
	ReasonMalformed = "Malformed"

	// ReasonPublished: the rendered contents are published.
	ReasonPublished = "Published"
	// ReasonThrottled: the contents change so often that publications are delayed. Find out what changes the values.
	ReasonThrottled = "Throttled"
	// ReasonPreview: spec.preview is true, and the rendered contents are not published. status.preview lists the changes.
	ReasonPreview = "Preview"
	// ReasonRolledBack: an earlier revision is published, because spec.rollback is set or a rollout failed.
	ReasonRolledBack = "RolledBack"
	// ReasonRevisionMissing: the revision of spec.rollback is not in the history. Choose one of the revisions in the message.
	ReasonRevisionMissing = "RevisionMissing"

	// ReasonRolledOut: all dependents run the published contents.
	ReasonRolledOut = "RolledOut"
	// ReasonNoDependents: no workload uses the published objects.
	ReasonNoDependents = "NoDependents"
	// ReasonRestartsDisabled: spec.rollout.strategy is None.
	ReasonRestartsDisabled = "RestartsDisabled"
	// ReasonRollingOut: dependents are restarting.
	ReasonRollingOut = "RollingOut"
	// ReasonDebouncing: restarts begin when nothing has changed for spec.rollout.debounce.
	ReasonDebouncing = "Debouncing"
	// ReasonWaitingForWindow: restarts begin when the window of spec.rollout.window opens.
	ReasonWaitingForWindow = "WaitingForWindow"
	// ReasonKeyMissing: dependents need a key that is not published, and their pods could not start. Add the key, or change the
	// workload.
	ReasonKeyMissing = "KeyMissing"
	// ReasonManualRestart: a person must restart dependents: they are paused, or their update strategy is OnDelete.
	ReasonManualRestart = "ManualRestart"
	// ReasonRolloutFailed: a dependent failed after its restart. No other dependent is restarted. Correct the contents or the
	// workload.
	ReasonRolloutFailed = "RolloutFailed"
	// ReasonInvalidWindow: spec.rollout.window is invalid, and no dependent is restarted. Correct it.
	ReasonInvalidWindow = "InvalidWindow"
)
