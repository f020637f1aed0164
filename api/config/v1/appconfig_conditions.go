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
	// DependentUpToDate: all of its pods run what is published.
	DependentUpToDate DependentState = "UpToDate"
	// DependentWaiting: it is to be restarted, when its turn comes, the interval is over or the window opens.
	DependentWaiting DependentState = "Waiting"
	// DependentRestarting: its pods are being replaced.
	DependentRestarting DependentState = "Restarting"
	// DependentFailed: its rollout made no progress in time, or its template could not be changed.
	DependentFailed DependentState = "Failed"
	// DependentPaused: its rollout is paused in its own spec.
	DependentPaused DependentState = "Paused"
	// DependentIgnored: it asks to be left alone, or something else restarts it.
	DependentIgnored DependentState = "Ignored"
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
	// ReasonTemplateError: a template could not be rendered; the message names its key.
	ReasonTemplateError = "TemplateError"
	// ReasonSchemaViolation: what was rendered does not satisfy spec.schema.
	ReasonSchemaViolation = "SchemaViolation"
	// ReasonInvalidSchema: spec.schema is not a JSON Schema that Fettle understands.
	ReasonInvalidSchema = "InvalidSchema"
	// ReasonMalformed: a file is not well-formed JSON, YAML or properties.
	ReasonMalformed = "Malformed"
	// ReasonTooLarge: what was rendered does not fit into a ConfigMap.
	ReasonTooLarge = "TooLarge"

	// ReasonPublished: what is rendered is what is published.
	ReasonPublished = "Published"
	// ReasonPreview: spec.preview is true, so that nothing is published.
	ReasonPreview = "Preview"
	// ReasonRolledBack: an earlier revision is published, because spec.rollback asks for it or a rollout failed.
	ReasonRolledBack = "RolledBack"
	// ReasonRevisionMissing: the revision of spec.rollback is not kept.
	ReasonRevisionMissing = "RevisionMissing"
	// ReasonWriteFailed: the API server could not write a child; it is tried again.
	ReasonWriteFailed = "WriteFailed"

	// ReasonRolledOut: all dependents run what is published.
	ReasonRolledOut = "RolledOut"
	// ReasonRollingOut: dependents are being restarted.
	ReasonRollingOut = "RollingOut"
	// ReasonWaitingForWindow: dependents are restarted when the window of spec.rollout.window opens.
	ReasonWaitingForWindow = "WaitingForWindow"
	// ReasonRolloutFailed: a dependent did not get ready with what is published; the next ones are not restarted.
	ReasonRolloutFailed = "RolloutFailed"
	// ReasonRolloutDisabled: spec.rollout.strategy is None.
	ReasonRolloutDisabled = "RolloutDisabled"
)
