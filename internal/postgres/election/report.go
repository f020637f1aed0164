package election

import "time"

// Report returns what this agent reports to its peers and the operator about its instance.
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
	// Until is on the clock of the promising agent. It is stored in Input.PromisedUntil before the answer is sent.
	Until time.Duration `json:"-"`
}

// Promise answers asker, which holds the lease and cannot renew it: no listed instance may take the lease while each has promised
// not to. A peer rejects the request if it may hold the lease itself, or knows of another holder or of none. It also rejects it
// if it reaches the API server and the asker cannot even read the Lease: an instance that is partitioned alone should give way. A
// new process needs no memory of promises, because it has to observe the record for as long again. (7)
func Promise(c Config, in Input, asker Holder, reads bool) Reply {
	l, h := in.Lease.Lease, in.Tenure
	switch {
	case in.Lease.Reachable() && !reads, in.Server.mayWrite(),
		h.Confirmed.Sent > 0 || h.Pending != nil || len(h.Indeterminate) > 0, // may have taken the lease
		l.Version != "" && l.Holder != asker:
		return Reply{}
	}
	return Reply{Granted: true, Until: in.Now + c.LeaseDuration}
}

// StandbySync is the synchronous setting of starting servers and standbys, under which no commit returns; nil if asynchronous.
func StandbySync(c Config, in Input) *Quorum { return newDecider(c, in).standbySync() }

func (v *decider) standbySync() *Quorum {
	if v.Synchronous == 0 {
		return nil
	}
	return &Quorum{Number: v.Synchronous}
}

// loadStandbySync makes a running standby load StandbySync if the mode was turned on or off since it started, before it can take
// the lease or be promoted. Otherwise it would confirm commits that no standby has, until it loads its first setting as a
// primary. (9)
func loadStandbySync(v *decider) *Decision {
	if want := v.standbySync(); v.server.isStandby() && (want == nil) != (v.server.Sync == nil) {
		return do(SetSync{Quorum: want}, CodeSyncModeChanged, "synchronous replication was turned on or off: loading the setting")
	}
	return nil
}
