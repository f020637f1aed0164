package election

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Config is the configuration of one agent. It can change while the agent runs.
type Config struct {
	// Self is this instance: the name and the UID of its pod.
	Self Holder
	// Instances are the names of all instances, Self included, by ordinal.
	Instances []string
	// SystemID is the system identifier of the cluster from the status of the object; "" while it is unknown.
	SystemID string
	// MayInitialize means that no volume of the cluster can hold data, because each was created for this cluster. Without it,
	// initdb waits until each peer has confirmed that it has no data. It is false for a re-created Lease.
	MayInitialize bool
	// TimelinesKnown means that Server.HighestTimeline is not below any timeline that any instance has used, although the Lease has no record:
	// the operator started the Lease anew while no instance ran. It is false for a re-created Lease.
	TimelinesKnown bool
	// Synchronous is how many standbys confirm each commit; 0 is asynchronous.
	Synchronous int
	// Generation is that of the object of this Config. It is 0 while the object is known only from a previous process, and may be
	// old.
	Generation int64
	// Failsafe allows the holder to outlast an outage of the API server while every instance in Lease.Instances promises not to
	// take the lease.
	Failsafe bool
	// SwitchoverTarget is the instance that should be the primary; "" leaves the choice to the election.
	SwitchoverTarget string
	// SwitchoverRequested means that the target comes from a current request. Otherwise it is a permanent preference, which last
	// changed at PreferenceChangedAt; 0 means that it never changed.
	SwitchoverRequested bool
	PreferenceChangedAt time.Duration
	// TargetChangedAt is when the agent saw SwitchoverTarget or SwitchoverRequested change; 0 means never.
	TargetChangedAt time.Duration
	// Fenced keeps PostgreSQL down on this instance.
	Fenced bool
	// Hibernated keeps PostgreSQL down on all instances. The primary stops first, while the standbys still follow it: a clean
	// shutdown waits until its standbys have all WAL. The standbys stop after it has released the lease.
	Hibernated bool
	// Paused forbids switchovers, rewinds and reclones. Failover stays active.
	Paused bool
	// AutoReclone allows to replace the data of an instance that can no longer follow the primary.
	AutoReclone bool
	// RecloneRequested means that a person requested a reclone. It is done at the first sign of a defect, even if the primary has
	// the only other copy.
	RecloneRequested bool
	// MaximumLag is how many bytes of WAL an asynchronous cluster may lose without consent.
	MaximumLag uint64
	// AcceptDataLoss is the instance that a person accepts as the primary whatever it lacks; "" for none. A new process does not
	// remember it.
	AcceptDataLoss string

	Timing
}

// Timing holds the time limits.
type Timing struct {
	// RenewInterval is the time between two renewals of the lease, and the timeout of one request to the API server.
	RenewInterval time.Duration
	// LeaseDuration is how long a candidate must have seen the same record before it takes the lease.
	LeaseDuration time.Duration
	// FenceDeadline is how long after sending its last successful renewal the holder stops PostgreSQL immediately.
	FenceDeadline time.Duration
	// KillGrace is how long after FenceDeadline the remaining processes are killed.
	KillGrace time.Duration
	// CandidateStagger is how long a candidate waits for each better candidate, and for silent peers.
	CandidateStagger time.Duration
	// HeartbeatTimeout is how old the last answered heartbeat may be while PostgreSQL counts as alive.
	HeartbeatTimeout time.Duration
	// StartTimeout is how long start, recovery and promotion may last without progress before another instance should get the
	// lease.
	StartTimeout time.Duration
	// StopTimeout is how long a fast stop may last before it becomes an immediate one.
	StopTimeout time.Duration
	// CrashLoopWindow is how long after a crash another crash counts as the second one in a row.
	CrashLoopWindow time.Duration
	// CatchUpWait is how long a candidate that lacks WAL of the last primary waits for a candidate that has it all.
	CatchUpWait time.Duration
	// LastPrimaryWait is the same after a clean shutdown of the last primary: the missing WAL is on its volume, so its return is
	// awaited.
	LastPrimaryWait time.Duration
	// ProbationPeriod is how long PostgreSQL has to run after it was unresponsive before it ranks like other candidates.
	ProbationPeriod time.Duration
	// StallTimeout is how long a standby may receive nothing, although the primary accepts its connections, before its data
	// counts as damaged.
	StallTimeout time.Duration
}

// DefaultTiming returns the default times: renew every 2 s, lease duration 10 s, fence after 7 s, kill after 9 s.
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

// Validate returns why c is not safe. The old primary must be dead before the lease can be taken, even if two clocks differ by 5
// %. At least two renewals must fit before the deadline.
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
