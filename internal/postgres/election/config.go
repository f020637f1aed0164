package election

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Config is what the agent is told to do. It changes while the agent runs.
type Config struct {
	// Self is the instance this agent looks after: the name and the UID of its pod.
	Self Holder
	// Instances are the names of all instances by ordinal, with Self.
	Instances []string
	// SystemID is the system identifier the cluster is known to have (status of the object); "" while it has none.
	SystemID string
	// MayInitialize says that no volume of the cluster can hold data: each was made for this very cluster. Without it
	// initdb waits until each peer has answered that it has none. It is false of a Lease that was made anew.
	MayInitialize bool
	// Synchronous is how many standbys confirm each commit; 0 is asynchronous, also for what is called preferred.
	Synchronous int
	// Generation is that of the object this Config was made of; 0 while it is only known from before this process, and of any age.
	Generation int64
	// Failsafe allows the holder to outlast an outage of the API server while every instance in Lease.Instances promises not to take over.
	Failsafe bool
	// SwitchoverTarget is the instance that shall be the primary; "" leaves that to the election.
	SwitchoverTarget string
	// SwitchoverRequested says that this is asked for at the moment. Else it stands for good: it was seen to change at PreferenceChangedAt; 0 for never.
	SwitchoverRequested bool
	PreferenceChangedAt time.Duration
	// TargetChangedAt is when the agent saw SwitchoverTarget or SwitchoverRequested change; 0 if it never did.
	TargetChangedAt time.Duration
	// Fenced keeps PostgreSQL down here.
	Fenced bool
	// Hibernated keeps PostgreSQL down everywhere. The primary stops first, while the others still follow it: a server that
	// stops in order ends when all that follow it have all of its log. They stop when it has given the Lease back.
	Hibernated bool
	// Paused forbids switchovers, rewinds and reclones. Failover goes on.
	Paused bool
	// AutoReclone allows replacing the data of an instance that can't follow the primary any more.
	AutoReclone bool
	// RecloneRequested says that a person asked for that: it is done at the first sign, even if the primary has the only other copy.
	RecloneRequested bool
	// MaximumLag is how many bytes of the log may be lost without a person's word, where commits wait for nobody.
	MaximumLag uint64
	// AcceptDataLoss is the instance that a person accepts as the primary whatever it lacks; "" for none. It is not kept across processes.
	AcceptDataLoss string

	Timing
}

// Timing has the limits in time.
type Timing struct {
	// RenewInterval is the time between two renewals, and the limit of one request to the API server.
	RenewInterval time.Duration
	// LeaseDuration is how long a taker must have seen the same record.
	LeaseDuration time.Duration
	// FenceDeadline is how long after sending its last renewal the holder stops PostgreSQL at once.
	FenceDeadline time.Duration
	// KillGrace is how long after that it ends what is left of it.
	KillGrace time.Duration
	// CandidateStagger is how long a candidate leaves to each better one, and how long silent peers are waited for.
	CandidateStagger time.Duration
	// HeartbeatTimeout is how old the last answered heartbeat may be for PostgreSQL to count as alive.
	HeartbeatTimeout time.Duration
	// StartTimeout is how long starting, recovering and promoting may go on without progress before somebody else shall have the Lease.
	StartTimeout time.Duration
	// StopTimeout is how long a fast stop may take before it becomes an immediate one.
	StopTimeout time.Duration
	// CrashLoopWindow is how long after a crash the next one is again repaired by a restart in place.
	CrashLoopWindow time.Duration
	// CatchUpWait is how long a candidate that lacks some of what the last primary wrote waits for one that has it all.
	CatchUpWait time.Duration
	// LastPrimaryWait is the same where the last primary stopped in order, so that the rest of the log is on its volume: how long its return is waited for.
	LastPrimaryWait time.Duration
	// ProbationPeriod is how long PostgreSQL has to run after it stood still before it ranks like the others again.
	ProbationPeriod time.Duration
	// StallTimeout is how long a standby that the primary takes connections from may receive nothing before its data count as damaged.
	StallTimeout time.Duration
}

// DefaultTiming returns the times of the design: renewed every 2 s, valid for 10 s, fenced at 7 s, killed at 9 s.
func DefaultTiming() Timing {
	return Timing{
		RenewInterval:    2 * time.Second,
		LeaseDuration:    10 * time.Second,
		FenceDeadline:    7 * time.Second,
		KillGrace:        2 * time.Second,
		CandidateStagger: 500 * time.Millisecond,
		HeartbeatTimeout: 2 * time.Second,
		StartTimeout:     time.Minute,
		StopTimeout:      30 * time.Second,
		CrashLoopWindow:  time.Minute,
		CatchUpWait:      10 * time.Second,
		LastPrimaryWait:  5 * time.Minute,
		ProbationPeriod:  10 * time.Minute,
		StallTimeout:     5 * time.Minute,
	}
}

// Validate says why c is not safe to run with: the old primary must be dead before the Lease can be taken even when
// the two clocks differ by 5 %, and at least two renewals must fit before the deadline.
func (c Config) Validate() error {
	switch {
	case c.Self.Name == "" || c.Self.UID == "":
		return errors.New("self: name and UID of the pod are needed")
	case !slices.Contains(c.Instances, c.Self.Name):
		return fmt.Errorf("instances: %s is not among %v", c.Self.Name, c.Instances)
	case c.Synchronous < 0 || c.Synchronous >= max(len(c.Instances), 1) && c.Synchronous > 0:
		return fmt.Errorf("synchronous: %d of %d instances can't confirm a commit", c.Synchronous, len(c.Instances))
	case min(c.RenewInterval, c.LeaseDuration, c.FenceDeadline, c.KillGrace, c.CandidateStagger, c.HeartbeatTimeout, c.StartTimeout, c.StopTimeout, c.CrashLoopWindow, c.CatchUpWait, c.LastPrimaryWait, c.ProbationPeriod, c.StallTimeout) <= 0:
		return errors.New("times must be above 0")
	case c.LeaseDuration-c.LeaseDuration/20 <= c.FenceDeadline+c.KillGrace+(c.FenceDeadline+c.KillGrace)/20:
		return fmt.Errorf("lease: %s must be at least 11 %% longer than fence and kill together, %s", c.LeaseDuration, c.FenceDeadline+c.KillGrace)
	case c.FenceDeadline < 3*c.RenewInterval:
		return fmt.Errorf("fence: %s leaves no room for two renewals, every %s", c.FenceDeadline, c.RenewInterval)
	}
	return nil
}
