package election

import (
	"fmt"
	"time"
)

// Report returns what this agent tells its peers and the operator about its instance.
func Report(c Config, in Input) State {
	v, s := newDecider(c, in), in.Server
	out := State{
		Name: c.Self.Name, UID: c.Self.UID, SystemID: s.SystemID,
		Data: s.Data, Process: s.Process, Role: s.Role, DataTask: s.DataTask,
		Position: s.Position, Exact: s.Exact, Upstream: s.Upstream,
		Writable: s.isPrimary() && v.holdsLease(), Candidate: v.candidate(), RecentlyUnresponsive: v.recentlyUnresponsive(), API: in.Lease.Reachable(),
	}
	if s.isPrimary() {
		out.OldestWAL = s.OldestWAL
	}
	if s.isPrimary() && v.targetOnProbation() {
		out.TargetOnProbation = v.SwitchoverTarget
	}
	if s.isPrimary() && v.switchoverTimedOut() && v.SwitchoverTarget != c.Self.Name {
		out.SwitchoverTimedOut = v.SwitchoverTarget
	}
	out.WALGone, out.AwaitingReclone = v.walGone(), v.awaitingReclone() && s.AwaitingRecloneSince > 0
	if first, _ := v.firstTurnAt(); out.Candidate {
		out.FirstIn = first - in.Now
	}
	if v.leaseAvailable() && s.walReceiverStopped() {
		out.WALReceiverStoppedFor = v.lease.Version
	}
	return out
}

// Reply answers a holder that asks for a promise.
type Reply struct {
	Granted bool `json:"granted"`
	// Reason says why it was not.
	Reason string `json:"reason,omitempty"`
	// Until is on the clock of the one who promises: it goes into Input.Promised before the answer is sent.
	Until time.Duration `json:"-"`
}

// Promise answers asker, which has the Lease and can't renew it: no listed instance may take the Lease while each has promised not to. A
// peer refuses that may have the Lease, or knows of another holder, or of none. It also refuses if it reaches the API server and the asker
// does not even read the Lease: one that is cut off alone should give way. A new process needs no memory of promises: it has to observe the
// record for as long again. (7)
func Promise(c Config, in Input, asker Holder, reads bool) Reply {
	l, h := in.Lease.Lease, in.Tenure
	switch {
	case in.Lease.Reachable() && !reads:
		return Reply{Reason: "the API server can be reached from here"}
	case in.Server.mayWrite():
		return Reply{Reason: "PostgreSQL is a primary here"}
	case h.Confirmed.Sent > 0 || h.Pending != nil || len(h.Indeterminate) > 0:
		return Reply{Reason: "this instance may have taken the Lease"}
	case l.Version != "" && l.Holder != asker:
		return Reply{Reason: fmt.Sprintf("the Lease was seen with %q as its holder", l.Holder.Name)}
	}
	return Reply{Granted: true, Until: in.Now + c.LeaseDuration}
}

// StandbySync is the synchronous setting under which nothing is acknowledged, of starting servers and standbys; nil if asynchronous.
func StandbySync(c Config, in Input) *Quorum { return newDecider(c, in).standbySync() }

func (v *decider) standbySync() *Quorum {
	if v.Synchronous == 0 {
		return nil
	}
	return &Quorum{Number: v.Synchronous}
}

// loadStandbySync has a standby that runs load the setting of Blocked, where the mode was turned on or off since it started: before it can take the
// Lease or be promoted. Else it would acknowledge by itself what nobody has, until it loads its first setting as a primary. (9)
func loadStandbySync(v *decider) *Decision {
	if want := v.standbySync(); v.server.isStandby() && (want == nil) != (v.server.Sync == nil) {
		return do(SetSync{Quorum: want}, "synchronous replication was turned on or off: loads the setting of a standby")
	}
	return nil
}
