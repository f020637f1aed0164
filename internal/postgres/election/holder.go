package election

func waitForPending(v *decider) *Decision {
	switch {
	case v.server.DataTask != NoDataTask && !v.in.ShuttingDown && !v.Fenced && !v.Hibernated:
		return wait("waits for " + string(v.server.DataTask))
	case v.followsWrongUpstream():
		return do(Stop{Mode: Fast}, "may lack some of the log that it needs to start: starts anew, to follow "+v.holder())
	case v.server.Process == Starting && !v.in.ShuttingDown && v.defect() != "":
		return v.reclone(v.holder())
	case v.server.Process == Stopping, v.server.Process == Promoting, v.server.Process == Starting && !v.in.ShuttingDown:
		return wait("waits: PostgreSQL is " + string(v.server.Process))
	}
	return nil
}

// followsWrongUpstream says that a standby that has been starting for a while follows somebody else than the holder. It may need some of
// the log before it is consistent, as after a rewind, which nobody else sends. (10)
func (v *decider) followsWrongUpstream() bool {
	s, h := v.server, v.holder()
	if v.in.ShuttingDown || s.Process != Starting || s.Role != Standby || h == "" || s.Upstream == h || !v.in.Lease.HolderActive {
		return false
	}
	v.wake(s.ProcessSince + v.RenewInterval)
	return v.in.Now >= s.ProcessSince+v.RenewInterval
}

// shutdown stops PostgreSQL where it shall not run, and only then gives the Lease back. (5)
func shutdown(v *decider) *Decision {
	why := v.shutdownReason()
	switch {
	case why == "":
		return nil
	case v.server.Process != Down && why == hibernated:
		return v.plannedStop(why)
	case v.server.Process != Down:
		return do(Stop{Mode: Fast}, why)
	case v.in.Tenure.Pending != nil && v.recordNamesSelf():
		return wait("waits for a write of the Lease")
	case v.recordNamesSelf() && !v.leaseExpiredForPeers() && (v.holdsLease() || !v.lease.Recreated):
		return v.releaseLease(why)
	case v.in.ShuttingDown:
		return do(Exit{}, why)
	}
	return wait(why)
}

// hibernated is why all instances stop.
const hibernated = "the cluster is hibernated"

// shutdownReason says why PostgreSQL shall not run here; "" while it may. On hibernation the primary stops once no other would take over, and a
// standby when nobody has the Lease any more.
func (v *decider) shutdownReason() string {
	switch {
	case v.in.ShuttingDown:
		return "the agent was told to end"
	case v.Fenced:
		return "this instance is fenced"
	case !v.Hibernated, v.server.isStandby() && v.holder() != "", v.server.isPrimary() && v.peerWouldTakeOver():
		return ""
	}
	return hibernated
}

// peerWouldTakeOver says that another instance would take the Lease if it were free.
func (v *decider) peerWouldTakeOver() bool {
	return v.findPeer(func(_ string, p State) bool { return p.Candidate && p.API }) != ""
}

// leaseExpiredForPeers says that the Lease is free to the others by now whether it is released or not.
func (v *decider) leaseExpiredForPeers() bool {
	at, bounded := deadlineBase(v.Config, v.in)
	return v.in.ShuttingDown && !v.in.Lease.Reachable() && bounded && v.in.Now > at+2*v.LeaseDuration
}

// releaseLease gives the Lease back, a moment after the last try. PostgreSQL is down. Of a record that was lost it stays known
// that it was. (5)
func (v *decider) releaseLease(why string) *Decision {
	h := v.in.Tenure
	if due := h.TriedAt + v.RenewInterval/4; !v.in.Lease.Reachable() && v.in.Now < due {
		return v.waitUntil(due, "waits to release the Lease: "+why)
	}
	l := v.lease
	l.Holder, l.Released, l.Recreated, l.Preferred = Holder{}, true, v.lease.Recreated && v.recordLost(), ""
	if v.SwitchoverTarget != v.Self.Name && !v.targetOnProbation() {
		l.Preferred = v.SwitchoverTarget
	}
	if l.Primary == v.Self.Name && v.server.Role == Primary && v.server.CleanShutdown {
		l.End, l.CleanShutdown = v.server.Position, true
	}
	return do(Release{Lease: l}, "releases the Lease: "+why)
}

func actAsHolder(v *decider) *Decision {
	s := v.server
	switch {
	case v.in.Tenure.Pending != nil && !s.mayWrite() && !v.renewalPending():
		return wait("waits for a write of the Lease")
	case !v.holdsLease():
		return v.reacquire()
	case s.isPrimary():
		return v.actAsPrimary()
	case v.leaseAbsent():
		return wait("waits for the Lease, which somebody deleted")
	case s.Process == Up:
		return v.promote()
	case s.Data == Usable:
		return v.startHolder()
	case v.noDataAnywhere() && v.Self.Name == v.Instances[0]:
		return do(InitDB{}, "makes a new cluster")
	}
	return v.releaseLease("this instance has no data that can be started")
}

// renewalPending says that the write under way only renews a Lease that is held without it. Starting need not wait for its
// answer: while the API server is away, one such write follows the other. (7)
func (v *decider) renewalPending() bool {
	return v.holdsLease() && v.in.Tenure.Pending.Lease.Holder == v.Self && v.server.Process == Down && v.server.Data == Usable
}

// reacquire writes a Lease that names this very pod again: its process before this one is dead, or was fenced. No quorum is asked for: the
// record has named this pod ever since, so nobody else can have led. Only of a record that may have come late that is not known: it is
// given away, and not before it was observed. One that did not answer has lost it. (3, 4, 9)
func (v *decider) reacquire() *Decision {
	switch {
	case !v.recordNamesSelf():
		return nil
	case v.lease.Recreated && (v.in.Now < v.leaseAvailableAt() || !v.in.Lease.Reachable()):
		return v.waitUntil(v.leaseAvailableAt(), "waits: it may have made the Lease again too late")
	case v.lease.Recreated:
		return v.releaseLease("it may have made the Lease again too late, and another may have led since")
	case v.wasUnresponsive():
		return v.releaseLease("PostgreSQL did not answer")
	case v.hasPromised():
		return v.waitUntil(v.in.PromisedUntil, "waits: it was promised not to take the Lease")
	}
	if due := v.in.Tenure.TriedAt + v.RenewInterval/4; !v.in.Lease.Reachable() && v.in.Now < due {
		return v.waitUntil(due, "waits to take the Lease back")
	}
	return do(Acquire{Lease: v.acquisitionRecord()}, "takes its own Lease back")
}

// wasUnresponsive says that PostgreSQL was ended because it did not answer, and that this process has not taken the Lease since.
func (v *decider) wasUnresponsive() bool {
	s, taken := v.server, v.in.Tenure.Confirmed.Sent
	return s.Process == Down && !s.FullDisk && taken > 0 && s.UnresponsiveAt > taken && s.CrashedAt < s.ProcessSince
}

// startHolder starts the holder's PostgreSQL: read-write if it was the primary and nobody has claimed a later timeline since,
// else as a standby to be promoted; so a higher timeline always is the later one. (1, 5)
func (v *decider) startHolder() *Decision {
	s := v.server
	switch {
	case v.hasPromised():
		return v.waitUntil(v.in.PromisedUntil, "waits: it was promised not to become the primary")
	case !v.sameSystemID(s.SystemID):
		return v.releaseLease("the data are of another cluster")
	case s.Role == Standby && s.Failures >= maxFailures && v.otherCopy("") != "":
		return v.releaseLease("PostgreSQL ended again and again before it could be promoted")
	case s.Role == Standby || v.lease.Timeline > s.Position.Timeline:
		return do(StartStandby{}, "starts to be promoted")
	case v.lease.Primary == "" || v.lease.SystemID == "":
		return wait("waits for the Lease to say that there is a primary")
	case v.noSpace():
		return v.waitForSpace()
	}
	if v.in.Tenure.AcquiredAt <= s.ProcessSince || s.FullDisk { // not if it was given away, and nobody else took it
		if d := v.handOver(); d != nil {
			return d
		}
	}
	return do(StartPrimary{}, "starts as the primary")
}

// waitForSpace waits for space. (12)
func (v *decider) waitForSpace() *Decision {
	return needsHuman("the volume of " + v.Self.Name + " is full: raise spec.storage, or make space on it; PostgreSQL will start again when there is space")
}

// noSpace says that a server which ended on a full volume is not tried again yet. It is now and then, as it may be read. (12)
func (v *decider) noSpace() bool {
	s := v.server
	if !s.FullDisk || !s.hasCrashed() || v.in.Now >= s.ProcessSince+v.CrashLoopWindow {
		return false
	}
	v.wake(s.ProcessSince + v.CrashLoopWindow)
	return true
}

// handOver releases the Lease of a PostgreSQL that has just ended, where another instance shall have it: after a second
// crash, and for a switchover, unless the target lacks some of the log. (5, 12)
func (v *decider) handOver() *Decision {
	s := v.server
	again := s.hasCrashed() && s.PreviousCrashAt > 0 && s.CrashedAt-s.PreviousCrashAt <= v.CrashLoopWindow
	switch {
	case again && !s.FullDisk && v.hasSuccessor() && v.leaseWritable():
		return v.releaseLease("PostgreSQL crashed again")
	case again && v.in.Now < s.ProcessSince+v.RenewInterval:
		return v.waitUntil(s.ProcessSince+v.RenewInterval, "waits to start again after a crash")
	case !s.CleanShutdown || v.switchoverObstacle() != nil:
		return nil
	}
	p, ok := v.peer(v.SwitchoverTarget, s.ProcessSince)
	switch {
	case ok && p.Position.Compare(s.Position) >= 0:
		return v.releaseLease("switches over to " + v.SwitchoverTarget)
	case v.in.Now < s.ProcessSince+v.CandidateStagger:
		return v.waitUntil(s.ProcessSince+v.CandidateStagger, "waits for "+v.SwitchoverTarget+" to say that it has all of the log")
	}
	return nil
}

// promote ends the recovery of the holder's standby, once it is certain to hold the Lease. (1, 4, 8)
func (v *decider) promote() *Decision {
	switch {
	case !v.server.walReceiverStopped():
		if v.server.Upstream == "" {
			return wait("waits for the WAL receiver to end")
		}
		return do(Follow{}, "ends the WAL receiver")
	case v.hasPromised():
		return v.waitUntil(v.in.PromisedUntil, "waits: it was promised not to become the primary")
	case v.in.Now-v.in.Tenure.Confirmed.Sent >= v.RenewInterval || !v.recordNamesSelf() || !v.timelineClaimed():
		return wait("waits for a renewal of the Lease before promoting")
	}
	return do(Promote{After: v.lease.Timeline - 1}, "won the election")
}

// actAsPrimary is what a primary that serves does.
func (v *decider) actAsPrimary() *Decision {
	if q, ok := v.nextSync(); ok {
		return do(SetSync{Quorum: q}, "changes the synchronous standbys")
	}
	if v.leaseAbsent() {
		return wait("serves; the Lease is gone")
	}
	if why := v.switchoverObstacle(); why == nil {
		return v.plannedStop("switches over to " + v.SwitchoverTarget)
	} else if *why != "" {
		return wait("serves; no switchover: " + *why)
	}
	return wait("serves")
}
