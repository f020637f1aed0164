package election

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// campaign takes an available lease. (3, 5, 6, 8, 9)
func campaign(v *decider) *Decision {
	if v.lease.Version == "" {
		return nil
	}
	if v.noDataAnywhere() && (v.leaseAvailable() || v.lease.Holder == (Holder{})) {
		return v.bootstrap()
	}
	if !v.leaseAvailable() {
		v.wake(v.leaseAvailableAt())
		return nil
	}
	return v.runForLease()
}

// runForLease takes the available lease when it is this instance's turn, if it may become the primary at all.
func (v *decider) runForLease() *Decision {
	switch {
	case v.server.isStandby() && v.server.Upstream != "":
		return do(Follow{}, CodeStoppingWALReceiver, v.whyAvailable()+": stopping the WAL receiver to compare positions")
	case v.server.isStandby() && v.server.Receiving:
		return wait(CodeStoppingWALReceiver, "waiting for the WAL receiver to stop")
	case v.server.isStandby() && v.notListed():
		v.wake(v.leaseAvailableAt() + v.CatchUpWait)
		why := fmt.Sprintf("was down for too long when the primary %s was lost: waiting for one of %v; if they are lost for good, delete the Lease of this PostgreSQL",
			v.lease.Primary, v.lease.Instances)
		return &Decision{Action: Wait{}, Code: CodeNotListedInLease, Reason: why, ManualIntervention: v.in.Now >= v.leaseAvailableAt()+v.CatchUpWait}
	case !v.candidate():
		return nil
	case v.hasPromised():
		return v.waitUntil(v.in.PromisedUntil, CodeWaitingForPromise, "waiting: promised a peer not to take the lease")
	}
	if why := v.dataLossRisk(); why != (cause{}) {
		if v.positionUnknown() {
			return nil
		}
		v.wake(v.leaseAvailableAt() + v.CatchUpWait)
		late := v.in.Now >= v.leaseAvailableAt()+v.CatchUpWait
		consent := late && v.quorumUnreachable() == cause{}
		return &Decision{Action: Wait{}, Code: why.code, Reason: why.text, ManualIntervention: late, NeedsDataLossConsent: consent}
	}
	if at, why := v.turnAt(); v.in.Now < at {
		v.wake(at)
		late := v.lacksShutdownWAL() && v.in.Now >= v.leaseAvailableAt()+v.CatchUpWait
		return &Decision{Action: Wait{}, Code: why.code, Reason: why.text, ManualIntervention: late, NeedsDataLossConsent: late}
	}
	return do(Acquire{Lease: v.acquisitionRecord()}, CodeAcquiringLease, "acquiring the lease")
}

// whyAvailable says for people why the lease can be taken.
func (v *decider) whyAvailable() string {
	if v.lease.Released {
		return "lease was released"
	}
	return "lease of " + v.lease.Holder.Name + " expired"
}

// wasLastPrimary reports that the data here is that of the last primary, which has every confirmed commit.
func (v *decider) wasLastPrimary() bool {
	return v.server.Process == Down && v.server.Role == Primary && v.lease.Primary == v.Self.Name
}

// candidate reports that this instance can take an available lease. (3, 6)
func (v *decider) candidate() bool {
	s := v.server
	switch {
	case v.in.ShuttingDown, v.Fenced, v.Hibernated, s.DataTask != NoDataTask, s.Data != Usable, s.SystemID == "", !v.sameSystemID(s.SystemID):
		return false
	case !slices.Contains(v.Instances, v.Self.Name), !v.in.Lease.Reachable(), v.notListed():
		return false
	}
	return s.isStandby() || v.wasLastPrimary() ||
		v.lease.Primary == "" && s.Process == Down && s.Role == Primary
}

// notListed reports that the last holder did not release the lease and did not ask this instance for a promise: the holder may
// still run. (3, 7)
func (v *decider) notListed() bool {
	return !v.lease.Released && len(v.lease.Instances) > 0 && !slices.Contains(v.lease.Instances, v.Self.Name)
}

// dataLossRisk returns why this instance must not become the primary for lack of data; zero if it may. (6, 9, 13)
func (v *decider) dataLossRisk() cause {
	if why := v.quorumUnreachable(); why != (cause{}) || v.wasLastPrimary() {
		return why
	}
	return v.excessiveLag()
}

// quorumUnreachable returns why confirmed commits could be missing here; zero if none can be. None can be if this was the
// primary, if the primary shut down cleanly and all of its WAL is here, or if R + W > N for each setting that may have been in
// force. (9)
func (v *decider) quorumUnreachable() cause {
	p := v.server.Position
	switch {
	case v.Synchronous == 0, v.wasLastPrimary():
		return cause{}
	case v.lease.CleanShutdown && p.Timeline == v.lease.End.Timeline && p.LSN >= v.lease.End.LSN:
		return cause{}
	}
	for _, q := range v.quorums() {
		if r := v.readableMembers(q); r+q.Number <= len(q.Names) {
			return cause{CodeSyncStandbysUnreadable, fmt.Sprintf(
				"waiting: only %d of the synchronous standbys %v can be read, %d confirmed each commit", r, q.Names, q.Number,
			)}
		}
	}
	return cause{}
}

// quorums returns the settings to satisfy. Without a record, the primary was any of the instances with data, and its standbys any
// others. An empty instance may have had data too, unless the Lease is as old as the cluster.
func (v *decider) quorums() []Quorum {
	if len(v.lease.Sync) > 0 || v.lease.Primary != "" {
		return v.lease.Sync
	}
	empty := func(name string) bool {
		p, ok := v.peer(name, v.freshSince())
		return ok && (p.Data == Empty || p.Data == Incomplete) && !v.recordLost()
	}
	return []Quorum{{Number: v.Synchronous + 1, Names: slices.DeleteFunc(slices.Clone(v.Instances), empty)}}
}

// readableMembers counts the members of q whose received WAL is all here, and which receive nothing more from the last primary:
// they stopped their WAL receiver for the record that this instance is about to replace.
func (v *decider) readableMembers(q Quorum) int {
	n := 0
	for _, name := range q.Names {
		p, ok := v.peer(name, 1)
		switch {
		case name == v.Self.Name && (v.server.walReceiverStopped() || v.server.CleanShutdown):
			n++
		case name == v.Self.Name || !ok || !v.hasCopy(p) || !p.Exact || p.WALReceiverStoppedFor != v.lease.Version:
		case p.Position.Compare(v.server.Position) <= 0:
			n++
		}
	}
	return n
}

// turnAt returns when it is this instance's turn. Each better candidate that answers gets one step, all silent instances share
// one. (6, 8)
func (v *decider) turnAt() (time.Duration, cause) {
	at, why := v.firstTurnAt()
	first := at
	for i, name := range v.Instances {
		p, ok := v.peer(name, v.leaseAvailableAt())
		if ok && name != v.Self.Name && p.Candidate && v.hasCopy(p) && v.ranksBefore(p, i) && !v.lagsTooFar(p) {
			// It may have started to observe the lease later than this instance, or wait for a better candidate.
			theirs := min(v.in.Peers[name].RequestedAt+p.FirstIn, v.leaseAvailableAt()+v.LeaseDuration+v.CatchUpWait)
			at, why = max(at, theirs)+v.CandidateStagger, cause{CodeDeferringToCandidate, "leaving the lease to " + name + ", the better candidate"}
		}
	}
	if at > first && v.recentlyUnresponsive() {
		at = max(at, first+v.RenewInterval) // the others may still be reading their WAL
	}
	if v.peersSilent() {
		at, why = at+v.CandidateStagger, cmp.Or(why, cause{CodeWaitingForPeers, "waiting for the other instances to answer"})
	}
	return at, why
}

// firstTurnAt returns when this instance would take the lease if it were the only one. A candidate that lacks known WAL leaves
// time for one that does not. An instance that gave the lease away leaves time for the intended one.
func (v *decider) firstTurnAt() (time.Duration, cause) {
	if v.wasLastPrimary() {
		if v.lease.Preferred != "" && v.lease.Preferred != v.Self.Name {
			return v.leaseAvailableAt() + v.RenewInterval, cause{CodeDeferringToCandidate, "leaving the lease to " + v.lease.Preferred + ", the switchover target"}
		}
		return v.leaseAvailableAt(), cause{}
	}
	lack, known := v.lease.missing(v.server.Position)
	switch {
	case v.lacksShutdownWAL():
		return v.leaseAvailableAt() + v.LastPrimaryWait, cause{CodeWaitingForLastPrimary, fmt.Sprintf("lacks %d bytes of WAL from the clean shutdown of %s: waiting %s for it%s",
			lack, v.lease.Primary, v.LastPrimaryWait, v.consentAdvice(v.Self.Name))}
	case lack > 0 || !known:
		return v.leaseAvailableAt() + v.CatchUpWait, cause{CodeWaitingForBetterCandidate, "lacks WAL of the last primary: waiting for an instance that has it"}
	}
	return v.leaseAvailableAt(), cause{}
}

// peersSilent reports that an instance other than the last holder has not answered since the lease is available.
func (v *decider) peersSilent() bool {
	return slices.ContainsFunc(v.Instances, func(name string) bool {
		_, ok := v.peer(name, v.leaseAvailableAt())
		return !ok && name != v.Self.Name && name != v.lease.Primary && name != v.lease.Holder.Name
	})
}

// ranksBefore reports that a peer, the i-th instance, ranks before this one: by received WAL, preference, recent
// unresponsiveness, running, or ordinal.
func (v *decider) ranksBefore(p State, i int) bool {
	if order := p.Position.Compare(v.server.Position); order != 0 {
		return order > 0
	}
	if (p.Name == v.lease.Preferred) != (v.Self.Name == v.lease.Preferred) {
		return p.Name == v.lease.Preferred
	}
	if suspect := v.recentlyUnresponsive(); p.RecentlyUnresponsive != suspect {
		return suspect
	}
	if p.Process != v.server.Process {
		return p.Process == Up
	}
	return i < slices.Index(v.Instances, v.Self.Name)
}

// noDataAnywhere reports that no data is known, here or elsewhere.
func (v *decider) noDataAnywhere() bool {
	return (v.server.Data == Empty || v.server.Data == Incomplete) && v.SystemID == "" &&
		v.lease.SystemID == "" && v.lease.Primary == ""
}

// bootstrap takes a lease that never had a holder, to run initdb. The first instance does so once no other has data. It does not
// wait for the lease to expire, because no instance can be read-write without data. (1)
func (v *decider) bootstrap() *Decision {
	if v.Self.Name != v.Instances[0] {
		return wait(CodeWaitingForInitialization, "waiting for "+v.Instances[0]+" to initialize the cluster")
	}
	for _, name := range without(v.Instances, v.Self.Name) {
		p, ok := v.peer(name, v.freshSince())
		switch {
		case ok && p.Data != Empty && p.Data != Incomplete:
			return wait(CodeWaitingForEmptyPeers, "waiting: "+name+" has data")
		case !ok && !v.MayInitialize:
			return wait(CodeWaitingForEmptyPeers, "waiting for "+name+" to confirm that it has no data")
		}
	}
	if v.hasPromised() {
		return v.waitUntil(v.in.PromisedUntil, CodeWaitingForPromise, "waiting: promised a peer not to take the lease")
	}
	return do(Acquire{Lease: v.acquisitionRecord()}, CodeAcquiringLease, "acquiring the lease to initialize a new cluster")
}
