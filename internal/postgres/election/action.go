package election

import "time"

// Action is what to do next: one of the types below.
type Action interface{ action() }

// StopMode is how PostgreSQL is stopped; a higher one is harder.
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

type (
	// Wait does nothing.
	Wait struct{}
	// Acquire writes Lease to take, or take back, the Lease.
	Acquire struct{ Lease Lease }
	// Renew writes Lease as its holder; also to publish what changed.
	Renew struct{ Lease Lease }
	// Release writes Lease to give it back.
	Release struct{ Lease Lease }
	// RequestPromises asks each of Peers for a promise ([Promise]) and puts those that are granted into Input.Holding.
	RequestPromises struct{ Peers []string }
	// StartStandby starts with standby.signal, following Upstream; "" follows nobody.
	StartStandby struct{ Upstream string }
	// Follow makes a standby that runs follow Upstream; "" ends its WAL receiver.
	Follow struct{ Upstream string }
	// StartPrimary starts without standby.signal.
	StartPrimary struct{}
	// Promote ends recovery. The new timeline is After + 1, and must be that one, which nobody else has used: PostgreSQL
	// takes the one after the highest of which it finds a history file, so there has to be one of After.
	Promote struct{ After uint32 }
	// Checkpoint writes out what is only in memory, while clients are served: the stop that follows is short then.
	Checkpoint struct{}
	// Stop stops PostgreSQL, or makes an ordered stop harder. Planned says that it could go on as the primary: it stops for a
	// switchover, or as the cluster is hibernated. See [Successors] for whom it waits.
	Stop struct {
		Mode    StopMode
		Planned bool
	}
	// SetSync loads another setting of synchronous replication; nil is none.
	SetSync struct{ Quorum *Quorum }
	// InitDB makes a new cluster, removing what an interrupted one left.
	InitDB struct{}
	// Clone copies Source into a data directory that holds nothing of worth.
	Clone struct{ Source string }
	// Rewind runs pg_rewind against Source, then leaves standby.signal.
	Rewind struct{ Source string }
	// Reclone removes the data and copies Source.
	Reclone struct{ Source string }
	// RecloneKeepingData copies Source as well, and keeps the data under another name.
	RecloneKeepingData struct{ Source string }
	// InspectWAL reads the log of a server that is down to its end, so that Server.Position is exact.
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

// Label is the value of the pod's label fettle.dev/role: Services select by it, safety never depends on it.
type Label string

// Values of [Label].
const (
	LabelNone    Label = ""
	LabelPrimary Label = "primary"
	LabelReplica Label = "replica"
)

// Decision is what to do next and why.
type Decision struct {
	Action Action
	// Reason is for the log, and for people: why this, or what is waited for.
	Reason string
	// ManualIntervention says that a person has to do something: Reason says what. The operator makes a condition of it.
	ManualIntervention bool
	// NeedsRecloneConsent says that the person is asked for a new copy of the data.
	NeedsRecloneConsent bool
	// NeedsDataLossConsent says that the person is asked to accept that rows are lost.
	NeedsDataLossConsent bool
	// Until is when to decide again at the latest.
	Until time.Duration
	// Label is what the pod's label shall be.
	Label Label
}
