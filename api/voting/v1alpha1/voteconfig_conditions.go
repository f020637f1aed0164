package v1alpha1

// VoteConfigPhase sums up a VoteConfig's conditions for people.
type VoteConfigPhase string

// Phases of a VoteConfig.
const (
	PhasePending     VoteConfigPhase = "Pending"
	PhaseRollingOut  VoteConfigPhase = "RollingOut"
	PhaseRunning     VoteConfigPhase = "Running"
	PhaseDegraded    VoteConfigPhase = "Degraded"
	PhaseFailed      VoteConfigPhase = "Failed"
	PhasePaused      VoteConfigPhase = "Paused"
	PhaseTerminating VoteConfigPhase = "Terminating"
)

// DependentState says what a workload runs.
type DependentState string

// States of a dependent.
const (
	// DependentUpToDate: all of its pods run with what is published.
	DependentUpToDate DependentState = "UpToDate"
	// DependentPending: it is to be restarted when its turn comes.
	DependentPending DependentState = "Pending"
	// DependentRestarting: its pods are being replaced.
	DependentRestarting DependentState = "Restarting"
	// DependentFailed: its rollout made no progress in time, or its template could not be changed.
	DependentFailed DependentState = "Failed"
	// DependentPaused: its rollout is paused in its own spec.
	DependentPaused DependentState = "Paused"
)

// Conditions of a VoteConfig, in the order in which Ready sums them up.
const (
	// VoteConfigPublished is True when the ConfigMap holds what the spec asks for.
	VoteConfigPublished = "Published"
	// VoteConfigRolledOut is True when every workload that reads the ConfigMap runs with its contents.
	VoteConfigRolledOut = "RolledOut"
)

// Reasons of a VoteConfig's conditions, besides those of all kinds.
const (
	// ReasonPublished: the ConfigMap holds what the spec asks for.
	ReasonPublished = "Published"

	// ReasonRolledOut: every workload that uses the ConfigMap runs with what is published.
	ReasonRolledOut = "RolledOut"
	// ReasonNoDependents: no workload uses the ConfigMap.
	ReasonNoDependents = "NoDependents"
	// ReasonRestartsDisabled: spec.target.mode is None.
	ReasonRestartsDisabled = "RestartsDisabled"
	// ReasonDebouncing: workloads are restarted when nothing has changed for a moment.
	ReasonDebouncing = "Debouncing"
	// ReasonRollingOut: workloads are being restarted, one at a time.
	ReasonRollingOut = "RollingOut"
	// ReasonManualRestart: a workload waits for a person, since it is paused or has the strategy OnDelete.
	ReasonManualRestart = "ManualRestart"
	// ReasonKeyMissing: a workload needs a key that is not published; its pods could not start.
	ReasonKeyMissing = "KeyMissing"
	// ReasonRolloutFailed: a workload did not become ready with what is published; the next ones are not restarted.
	ReasonRolloutFailed = "RolloutFailed"

	// ReasonOptionsNotShown is on Ready, which is True: a workload runs an image that shows only some of the options.
	ReasonOptionsNotShown = "OptionsNotShown"
)
