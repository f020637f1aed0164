package v1alpha1

// VoteConfigPhase summarizes the conditions of a VoteConfig.
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

// DependentState is the state of a workload that uses the ConfigMap.
type DependentState string

// States of a dependent.
const (
	// DependentUpToDate: all of its pods run with the published data.
	DependentUpToDate DependentState = "UpToDate"
	// DependentPending: it restarts when the workloads before it are ready.
	DependentPending DependentState = "Pending"
	// DependentRestarting: its pods are being replaced.
	DependentRestarting DependentState = "Restarting"
	// DependentFailed: it made no progress within the deadline, or its pod template cannot be changed.
	DependentFailed DependentState = "Failed"
	// DependentPaused: its rollout is paused in its own spec.
	DependentPaused DependentState = "Paused"
)

// Conditions of a VoteConfig, in the order in which Ready summarizes them.
const (
	// VoteConfigPublished is True if the ConfigMap matches the spec.
	VoteConfigPublished = "Published"
	// VoteConfigRolledOut is True if every workload that uses the ConfigMap runs with the published data.
	VoteConfigRolledOut = "RolledOut"
)

// Reasons of a VoteConfig's conditions, in addition to those of all kinds.
const (
	// ReasonPublished: the ConfigMap matches the spec.
	ReasonPublished = "Published"

	// ReasonRolledOut: every workload that uses the ConfigMap runs with the published data.
	ReasonRolledOut = "RolledOut"
	// ReasonNoDependents: no workload uses the ConfigMap.
	ReasonNoDependents = "NoDependents"
	// ReasonRestartsDisabled: spec.target.mode is None.
	ReasonRestartsDisabled = "RestartsDisabled"
	// ReasonDebouncing: restarts begin when nothing has changed for a few seconds.
	ReasonDebouncing = "Debouncing"
	// ReasonRollingOut: workloads are restarting, one at a time.
	ReasonRollingOut = "RollingOut"
	// ReasonManualRestart: a person must restart a workload: it is paused, or its update strategy is OnDelete.
	ReasonManualRestart = "ManualRestart"
	// ReasonKeyMissing: a workload needs a key that is not published, and its pods could not start. Change the workload.
	ReasonKeyMissing = "KeyMissing"
	// ReasonRolloutFailed: a workload failed after its restart. No other workload is restarted. Check the workload.
	ReasonRolloutFailed = "RolloutFailed"

	// ReasonOptionsNotShown is on Ready, which is True: a workload runs an image that shows only some of the options. Use another
	// image.
	ReasonOptionsNotShown = "OptionsNotShown"
)
