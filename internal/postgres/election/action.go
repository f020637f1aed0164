package election

import "time"

// Action is what the agent does next: one of the types below.
type Action interface{ action() }

// StopMode is how PostgreSQL is stopped. A higher mode is harder.
type StopMode int

// Values of [StopMode].
const (
	NoStop StopMode = iota
	// Fast is SIGINT.
	Fast
	// Immediate is SIGQUIT.
	Immediate
	// Kill is SIGKILL to the postmaster and all its children.
	Kill
)

// String returns the word for logs.
func (m StopMode) String() string {
	return [...]string{"none", "fast", "immediate", "kill"}[m]
}

type (
	// Wait does nothing.
	Wait struct{}
	// Acquire writes Lease to take the lease, or to take it back.
	Acquire struct{ Lease Lease }
	// Renew writes Lease as its holder. It also publishes changes.
	Renew struct{ Lease Lease }
	// Release writes Lease to give the lease up.
	Release struct{ Lease Lease }
	// RequestPromises asks each of Peers for a [Promise], and records the granted ones in Input.Tenure.
	RequestPromises struct{ Peers []string }
	// StartStandby starts PostgreSQL with standby.signal and follows Upstream. With "" it follows no instance.
	StartStandby struct{ Upstream string }
	// Follow makes a running standby follow Upstream. With "" it stops the WAL receiver.
	Follow struct{ Upstream string }
	// StartPrimary starts without standby.signal.
	StartPrimary struct{}
	// Promote ends recovery. The new timeline must be After + 1, which no other instance has used. PostgreSQL takes the timeline
	// above the highest one that has a history file, so a history file of After has to exist.
	Promote struct{ After uint32 }
	// Checkpoint writes dirty buffers to disk while clients are served. It makes the stop that follows short.
	Checkpoint struct{}
	// Stop stops PostgreSQL, or makes a running stop harder. Planned means that PostgreSQL could stay the primary, and stops for
	// a switchover or for hibernation. [Successors] says which standbys the stop waits for.
	Stop struct {
		Mode    StopMode
		Planned bool
	}
	// SetSync loads another setting of synchronous replication. nil turns it off.
	SetSync struct{ Quorum *Quorum }
	// InitDB initializes a new cluster. It removes the remains of an interrupted initdb.
	InitDB struct{}
	// Clone copies Source into a data directory without usable data.
	Clone struct{ Source string }
	// Rewind runs pg_rewind against Source, then leaves standby.signal.
	Rewind struct{ Source string }
	// Reclone removes the data and copies Source.
	Reclone struct{ Source string }
	// RecloneKeepingData copies Source and keeps the former data under another name.
	RecloneKeepingData struct{ Source string }
	// InspectWAL reads the WAL of a stopped server to its end, which makes Server.Position exact.
	InspectWAL struct{}
	// Exit ends the agent.
	Exit struct{}
)

func (Wait) action()               {}
func (Acquire) action()            {}
func (Renew) action()              {}
func (Release) action()            {}
func (RequestPromises) action()    {}
func (StartStandby) action()       {}
func (Follow) action()             {}
func (StartPrimary) action()       {}
func (Promote) action()            {}
func (Checkpoint) action()         {}
func (Stop) action()               {}
func (SetSync) action()            {}
func (InitDB) action()             {}
func (Clone) action()              {}
func (Rewind) action()             {}
func (Reclone) action()            {}
func (RecloneKeepingData) action() {}
func (InspectWAL) action()         {}
func (Exit) action()               {}

// Label is the value of the pod label fettle.dev/role. Services select pods by it. Safety never depends on it.
type Label string

// Values of [Label].
const (
	LabelNone    Label = ""
	LabelPrimary Label = "primary"
	LabelReplica Label = "replica"
)

// Decision is what to do next, and why.
type Decision struct {
	Action Action
	// Code names the decision, for logs, dashboards and runbooks.
	Code Code
	// Reason says why the action is taken, or what the instance waits for. It is for people alone.
	Reason string
	// ManualIntervention means that a person has to act. Reason says how. The operator turns it into a condition.
	ManualIntervention bool
	// NeedsRecloneConsent means that the person has to request a new copy of the data.
	NeedsRecloneConsent bool
	// NeedsDataLossConsent means that the person has to accept the loss of data.
	NeedsDataLossConsent bool
	// Until is when to decide again at the latest.
	Until time.Duration
	// Label is the value that the pod label should have.
	Label Label
}
