package election

// waitForPending waits for actions in progress, unless they have to be interrupted.
func waitForPending(v *decider) *Decision {
	switch {
	case v.server.DataTask != NoDataTask && !v.in.ShuttingDown && !v.Fenced && !v.Hibernated:
		return wait(CodeWaitingForDataTask, "waiting for the data task: "+string(v.server.DataTask))
	case v.followsWrongUpstream():
		return do(Stop{Mode: Fast}, CodeRestartingToFollow, "restarting to follow "+v.holder()+": WAL needed for recovery may only be there")
	case v.server.Process == Starting && !v.in.ShuttingDown && v.defect() != cause{}:
		return v.reclone(v.holder())
	case v.server.Process == Stopping, v.server.Process == Promoting, v.server.Process == Starting && !v.in.ShuttingDown:
		return wait(CodeWaitingForPostgreSQL, "waiting: PostgreSQL is "+string(v.server.Process))
	}
	return nil
}

// followsWrongUpstream reports that a standby that has been starting for a while follows another instance than the holder. It may
// need WAL before it is consistent, as after a rewind, which only the holder sends. (10)
func (v *decider) followsWrongUpstream() bool {
	s, h := v.server, v.holder()
	if v.in.ShuttingDown || s.Process != Starting || s.Role != Standby || h == "" || s.Upstream == h || !v.in.Lease.HolderActive {
		return false
	}
	v.wake(s.ProcessSince + v.RenewInterval)
	return v.in.Now >= s.ProcessSince+v.RenewInterval
}

// shutdown stops PostgreSQL where it should not run, and only then releases the lease. (5)
func shutdown(v *decider) *Decision {
	why := v.shutdownReason()
	switch {
	case why == cause{}:
		return nil
	case v.server.Process != Down && why.code == CodeHibernated:
		return v.plannedStop(why)
	case v.server.Process != Down:
		return do(Stop{Mode: Fast}, why.code, why.text)
	case v.in.Tenure.Pending != nil && v.recordNamesSelf():
		return wait(CodeWaitingForLeaseWrite, "waiting for a write of the lease")
	case v.recordNamesSelf() && !v.leaseExpiredForPeers() && (v.holdsLease() || !v.lease.Recreated):
		return v.releaseLease(why)
	case v.in.ShuttingDown:
		return do(Exit{}, why.code, why.text)
	}
	return wait(why.code, why.text)
}

// shutdownReason returns why PostgreSQL should not run here; zero while it may. On hibernation the primary stops once no other
// instance would take over, and a standby once no instance holds the lease.
func (v *decider) shutdownReason() cause {
	switch {
	case v.in.ShuttingDown:
		return cause{CodeAgentStopping, "agent is stopping"}
	case v.Fenced:
		return cause{CodeFenced, "instance is fenced by annotation fettle.dev/fenced"}
	case !v.Hibernated, v.server.isStandby() && v.holder() != "", v.server.isPrimary() && v.peerWouldTakeOver():
		return cause{}
	}
	return cause{CodeHibernated, "cluster is hibernated"}
}

// peerWouldTakeOver reports that another instance would take the lease if it were available.
func (v *decider) peerWouldTakeOver() bool {
	return v.findPeer(func(_ string, p State) bool { return p.Candidate && p.API }) != ""
}

// leaseExpiredForPeers reports that peers can take the lease by now whether it is released or not.
func (v *decider) leaseExpiredForPeers() bool {
	at, bounded := deadlineBase(v.Config, v.in)
	return v.in.ShuttingDown && !v.in.Lease.Reachable() && bounded && v.in.Now > at+2*v.LeaseDuration
}

// releaseLease releases the lease, a moment after the last try. PostgreSQL is down. If the record was lost, the released lease
// says so. (5)
func (v *decider) releaseLease(why cause) *Decision {
	h := v.in.Tenure
	if due := h.TriedAt + v.RenewInterval/4; !v.in.Lease.Reachable() && v.in.Now < due {
		return v.waitUntil(due, CodeWaitingToReleaseLease, "waiting to release the lease: "+why.text)
	}
	l := v.lease
	l.Holder, l.Released, l.Recreated, l.Preferred = Holder{}, true, v.lease.Recreated && v.recordLost(), ""
	if v.SwitchoverTarget != v.Self.Name && !v.targetOnProbation() {
		l.Preferred = v.SwitchoverTarget
	}
	if l.Primary == v.Self.Name && v.server.Role == Primary && v.server.CleanShutdown {
		l.End, l.CleanShutdown = v.server.Position, true
	}
	return do(Release{Lease: l}, why.code, "releasing the lease: "+why.text)
}

// actAsHolder is what the holder of the lease does: start, promote, and be the primary.
func actAsHolder(v *decider) *Decision {
	s := v.server
	switch {
	case v.in.Tenure.Pending != nil && !s.mayWrite() && !v.renewalPending():
		return wait(CodeWaitingForLeaseWrite, "waiting for a write of the lease")
	case !v.holdsLease():
		return v.reacquire()
	case s.isPrimary():
		return v.actAsPrimary()
	case v.leaseAbsent():
		return wait(CodeLeaseDeleted, "lease was deleted: waiting until it exists")
	case s.Process == Up:
		return v.promote()
	case s.Data == Usable:
		return v.startHolder()
	case v.noDataAnywhere() && v.Self.Name == v.Instances[0]:
		return do(InitDB{}, CodeInitializingCluster, "initializing a new cluster")
	}
	return v.releaseLease(cause{CodeNoUsableData, "instance has no usable data"})
}

// renewalPending reports that the write in progress only renews a lease that is held without it. The start need not wait for its
// answer: during an outage of the API server one such write follows the other. (7)
func (v *decider) renewalPending() bool {
	return v.holdsLease() && v.in.Tenure.Pending.Lease.Holder == v.Self && v.server.Process == Down && v.server.Data == Usable
}

// reacquire writes a lease that names this pod again: the previous process is dead, or was fenced. No quorum is needed, because
// the record has named this pod ever since, so no other instance can have been primary. Only a record that may have been
// re-created too late does not prove that: the lease is released, after it was observed. An instance that was unresponsive has
// lost it. (3, 4, 9)
func (v *decider) reacquire() *Decision {
	switch {
	case !v.recordNamesSelf():
		return nil
	case v.lease.Recreated && (v.in.Now < v.leaseAvailableAt() || !v.in.Lease.Reachable()):
		return v.waitUntil(v.leaseAvailableAt(), CodeLeaseRecreatedLate, "waiting: the lease may have been re-created too late")
	case v.lease.Recreated:
		return v.releaseLease(cause{CodeLeaseRecreatedLate, "lease may have been re-created too late, another instance may have been primary since"})
	case v.wasUnresponsive():
		return v.releaseLease(cause{CodeUnresponsive, "PostgreSQL did not respond"})
	case v.hasPromised():
		return v.waitUntil(v.in.PromisedUntil, CodeWaitingForPromise, "waiting: promised a peer not to take the lease")
	}
	if due := v.in.Tenure.TriedAt + v.RenewInterval/4; !v.in.Lease.Reachable() && v.in.Now < due {
		return v.waitUntil(due, CodeWaitingToReacquireLease, "waiting to take back the lease")
	}
	return do(Acquire{Lease: v.acquisitionRecord()}, CodeReacquiringLease, "taking back the lease of this pod")
}

// wasUnresponsive reports that PostgreSQL was stopped because it was unresponsive, and that this process has not taken the lease
// since.
func (v *decider) wasUnresponsive() bool {
	s, taken := v.server, v.in.Tenure.Confirmed.Sent
	return s.Process == Down && !s.FullDisk && taken > 0 && s.UnresponsiveAt > taken && s.CrashedAt < s.ProcessSince
}

// startHolder starts the holder's PostgreSQL. It is read-write if it was the primary and no later timeline has been claimed
// since. Otherwise it is a standby that gets promoted, so a higher timeline always is the later one. (1, 5)
func (v *decider) startHolder() *Decision {
	s := v.server
	switch {
	case v.hasPromised():
		return v.waitUntil(v.in.PromisedUntil, CodeWaitingForPromise, "waiting: promised a peer not to become the primary")
	case !v.sameSystemID(s.SystemID):
		return v.releaseLease(cause{CodeForeignData, "data belongs to another cluster"})
	case s.Role == Standby && s.Failures >= maxFailures && v.otherCopy("") != "":
		return v.releaseLease(cause{CodePromotionFailed, "PostgreSQL exited repeatedly before it could be promoted"})
	case s.Role == Standby || v.lease.Timeline > s.Position.Timeline:
		return do(StartStandby{}, CodeStartingForPromotion, "starting, then promoting")
	case v.lease.Primary == "" || v.lease.SystemID == "":
		return wait(CodeWaitingForLeaseRecord, "waiting until the lease records the primary")
	case v.noSpace():
		return v.waitForSpace()
	}
	if v.in.Tenure.AcquiredAt <= s.ProcessSince || s.FullDisk { // not if it was released and no other instance took it
		if d := v.handOver(); d != nil {
			return d
		}
	}
	return do(StartPrimary{}, CodeStartingPrimary, "starting as the primary")
}

// waitForSpace waits for free space. (12)
func (v *decider) waitForSpace() *Decision {
	return needsHuman(CodeVolumeFull, "volume of "+v.Self.Name+" is full: raise spec.storage, or free space; PostgreSQL starts again when there is space")
}

// noSpace reports that a server that exited on a full volume is not started again yet. It is started now and then, because it may
// be readable. (12)
func (v *decider) noSpace() bool {
	s := v.server
	if !s.FullDisk || !s.hasCrashed() || v.in.Now >= s.ProcessSince+v.CrashLoopWindow {
		return false
	}
	v.wake(s.ProcessSince + v.CrashLoopWindow)
	return true
}

// handOver releases the lease of a PostgreSQL that has just exited, if another instance should have it: after a second crash, and
// for a switchover, unless the target lacks WAL. (5, 12)
func (v *decider) handOver() *Decision {
	s := v.server
	again := s.hasCrashed() && s.PreviousCrashAt > 0 && s.CrashedAt-s.PreviousCrashAt <= v.CrashLoopWindow
	switch {
	case again && !s.FullDisk && v.hasSuccessor() && v.leaseWritable():
		return v.releaseLease(cause{CodeCrashedAgain, "PostgreSQL crashed again"})
	case again && v.in.Now < s.ProcessSince+v.RenewInterval:
		return v.waitUntil(s.ProcessSince+v.RenewInterval, CodeCrashBackOff, "waiting to restart PostgreSQL after a crash")
	case !s.CleanShutdown || !v.switchoverDue():
		return nil
	}
	p, ok := v.peer(v.SwitchoverTarget, s.ProcessSince)
	switch {
	case ok && p.Position.Compare(s.Position) >= 0:
		return v.releaseLease(cause{CodeSwitchover, "switchover to " + v.SwitchoverTarget})
	case v.in.Now < s.ProcessSince+v.CandidateStagger:
		return v.waitUntil(s.ProcessSince+v.CandidateStagger, CodeWaitingForSwitchoverTarget, "waiting for "+v.SwitchoverTarget+" to confirm that it has all WAL")
	}
	return nil
}

// promote ends the recovery of the holder's standby, once it certainly holds the lease. (1, 4, 8)
func (v *decider) promote() *Decision {
	switch {
	case !v.server.walReceiverStopped():
		if v.server.Upstream == "" {
			return wait(CodeStoppingWALReceiver, "waiting for the WAL receiver to stop")
		}
		return do(Follow{}, CodeStoppingWALReceiver, "stopping the WAL receiver")
	case v.hasPromised():
		return v.waitUntil(v.in.PromisedUntil, CodeWaitingForPromise, "waiting: promised a peer not to become the primary")
	case v.in.Now-v.in.Tenure.Confirmed.Sent >= v.RenewInterval || !v.recordNamesSelf() || !v.timelineClaimed():
		return wait(CodeWaitingForRenewal, "waiting for a lease renewal before promoting")
	}
	return do(Promote{After: v.lease.Timeline - 1}, CodePromoting, "lease acquired: promoting")
}

// actAsPrimary is what a running primary does.
func (v *decider) actAsPrimary() *Decision {
	if q, ok := v.nextSync(); ok {
		return do(SetSync{Quorum: q}, CodeSyncStandbysChanged, "changing the synchronous standbys")
	}
	if v.leaseAbsent() {
		return wait(CodeLeaseDeleted, "primary is ready; lease was deleted")
	}
	switch {
	case v.switchoverDue():
		return v.plannedStop(cause{CodeSwitchover, "switchover to " + v.SwitchoverTarget})
	case v.otherRequested():
		return wait(CodeSwitchoverDeferred, "switchover to "+v.SwitchoverTarget+" is deferred: "+v.switchoverObstacle())
	}
	return wait(CodePrimaryReady, "primary is ready")
}
