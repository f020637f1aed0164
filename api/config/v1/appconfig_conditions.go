package v1

// AppConfigPhase sums up an AppConfig's conditions for people.
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

// DependentState says what a workload runs.
type DependentState string

// States of a dependent.
const (
	// DependentUpToDate: its pods run what is published.
	DependentUpToDate DependentState = "UpToDate"
	// DependentPending: it is to be restarted; the message says what it waits for.
	DependentPending DependentState = "Pending"
	// DependentRestarting: its pods are being replaced.
	DependentRestarting DependentState = "Restarting"
	// DependentFailed: it was restarted and made no progress in time.
	DependentFailed DependentState = "Failed"
	// DependentPaused: it was told to restart and waits for a person: it is paused, or has the strategy OnDelete.
	DependentPaused DependentState = "Paused"
)

// Conditions of an AppConfig, in the order in which Ready sums them up.
const (
	// AppConfigRendered is True when all templates were rendered and satisfy the schema.
	AppConfigRendered = "Rendered"
	// AppConfigPublished is True when what is rendered is what is published.
	AppConfigPublished = "Published"
	// AppConfigRolledOut is True when all dependents run what is published.
	AppConfigRolledOut = "RolledOut"
)

// Reasons of an AppConfig's conditions, besides those of all kinds.
const (
	// ReasonRendered: all templates were rendered.
	ReasonRendered = "Rendered"
	// ReasonValuesMissing: a ConfigMap or Secret of spec.valuesFrom does not exist yet; it is waited for.
	ReasonValuesMissing = "ValuesMissing"
	// ReasonCircularValues: the values come from what the AppConfig publishes itself, directly or through other AppConfigs.
	ReasonCircularValues = "CircularValues"
	// ReasonTemplateError: a template could not be rendered; the message names its key.
	ReasonTemplateError = "TemplateError"
	// ReasonSchemaViolation: what was rendered does not satisfy spec.schema.
	ReasonSchemaViolation = "SchemaViolation"
	// ReasonInvalidSchema: spec.schema is not a JSON Schema that Fettle understands.
	ReasonInvalidSchema = "InvalidSchema"
	// ReasonMalformed: a file is not well-formed JSON, YAML or properties.
	ReasonMalformed = "Malformed"

	// ReasonPublished: what is rendered is what is published.
	ReasonPublished = "Published"
	// ReasonThrottled: the contents change so often that publications are held back.
	ReasonThrottled = "Throttled"
	// ReasonPreview: spec.preview is true, so that nothing is published.
	ReasonPreview = "Preview"
	// ReasonRolledBack: an earlier revision is published, because spec.rollback asks for it or a rollout failed.
	ReasonRolledBack = "RolledBack"
	// ReasonRevisionMissing: the revision of spec.rollback is not kept.
	ReasonRevisionMissing = "RevisionMissing"

	// ReasonRolledOut: all dependents run what is published.
	ReasonRolledOut = "RolledOut"
	// ReasonNoDependents: no workload uses what is published.
	ReasonNoDependents = "NoDependents"
	// ReasonRestartsDisabled: spec.rollout.strategy is None.
	ReasonRestartsDisabled = "RestartsDisabled"
	// ReasonRollingOut: dependents are being restarted.
	ReasonRollingOut = "RollingOut"
	// ReasonDebouncing: restarts begin when nothing has changed for spec.rollout.debounce.
	ReasonDebouncing = "Debouncing"
	// ReasonWaitingForWindow: restarts begin when the window of spec.rollout.window opens.
	ReasonWaitingForWindow = "WaitingForWindow"
	// ReasonKeyMissing: dependents need a key that is not published: their pods could not start.
	ReasonKeyMissing = "KeyMissing"
	// ReasonManualRestart: dependents wait for a person: they are paused or have the strategy OnDelete.
	ReasonManualRestart = "ManualRestart"
	// ReasonRolloutFailed: a restart failed; the next ones are not started.
	ReasonRolloutFailed = "RolloutFailed"
	// ReasonInvalidWindow: spec.rollout.window can't be understood; no restart is started.
	ReasonInvalidWindow = "InvalidWindow"
)
