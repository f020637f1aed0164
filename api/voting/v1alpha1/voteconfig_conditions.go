package v1alpha1

// VoteConfigPhase summarizes the conditions of a VoteConfig.
type VoteConfigPhase string

// Phases of a VoteConfig.
const (
	// PhasePending: Fettle has not applied the spec yet.
	PhasePending VoteConfigPhase = "Pending"
	// PhaseRollingOut: workloads restart with the published options.
	PhaseRollingOut VoteConfigPhase = "RollingOut"
	// PhaseRunning: everything is as the spec asks.
	PhaseRunning VoteConfigPhase = "Running"
	// PhaseDegraded: something needs attention. The condition Ready has the reason.
	PhaseDegraded VoteConfigPhase = "Degraded"
	// PhaseFailed: a rollout failed. The condition Ready has the reason.
	PhaseFailed VoteConfigPhase = "Failed"
	// PhasePaused: spec.paused is true, so Fettle changes nothing.
	PhasePaused VoteConfigPhase = "Paused"
	// PhaseTerminating: the object is being deleted.
	PhaseTerminating VoteConfigPhase = "Terminating"
)

// DependentState is the state of a workload that uses the ConfigMap.
type DependentState string

// States of a dependent.
const (
	// DependentUpToDate: all pods run with the published options.
	DependentUpToDate DependentState = "UpToDate"
	// DependentPending: the workload will restart.
	DependentPending DependentState = "Pending"
	// DependentRestarting: the pods are being replaced.
	DependentRestarting DependentState = "Restarting"
	// DependentFailed: the workload was not ready in time, or its template cannot be changed.
	DependentFailed DependentState = "Failed"
	// DependentPaused: the rollout of the workload is paused in its spec.
	DependentPaused DependentState = "Paused"
)

// Conditions of a VoteConfig, in the order in which Ready summarizes them.
const (
	// VoteConfigPublished is True when the ConfigMap has the contents that the spec asks for.
	VoteConfigPublished = "Published"
	// VoteConfigRolledOut is True when every workload that uses the ConfigMap runs with its contents.
	VoteConfigRolledOut = "RolledOut"
)

// Reasons of a VoteConfig's conditions, in addition to those of all kinds.
const (
	// ReasonPublished: the ConfigMap has the contents that the spec asks for.
	ReasonPublished = "Published"

	// ReasonRolledOut: every workload that uses the ConfigMap runs with its contents.
	ReasonRolledOut = "RolledOut"
	// ReasonNoDependents: no workload uses the ConfigMap.
	ReasonNoDependents = "NoDependents"
	// ReasonRestartsDisabled: spec.target.mode is None, so Fettle restarts nothing.
	ReasonRestartsDisabled = "RestartsDisabled"
	// ReasonDebouncing: workloads restart when nothing has changed for a moment. Wait.
	ReasonDebouncing = "Debouncing"
	// ReasonRollingOut: workloads restart, one at a time. Wait.
	ReasonRollingOut = "RollingOut"
	// ReasonManualRestart: a workload is paused, or has the strategy OnDelete. Resume it, or delete its pods.
	ReasonManualRestart = "ManualRestart"
	// ReasonKeyMissing: a workload needs a key that the ConfigMap does not have. Add the option, or change the workload.
	ReasonKeyMissing = "KeyMissing"
	// ReasonRolloutFailed: a workload was not ready after its restart. No other workload restarts. Check the pods of the workload
	// that the message names.
	ReasonRolloutFailed = "RolloutFailed"

	// ReasonOptionsNotShown: Ready is True, but a workload runs an image that shows only some of the options. Use an image that
	// supports all options.
	ReasonOptionsNotShown = "OptionsNotShown"
)
