package election

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// campaign takes a Lease that is free. (3, 5, 6, 8, 9)
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

// runForLease takes the free Lease when it is this instance's turn, if it may be the primary at all.
func (v *decider) runForLease() *Decision {
	switch {
	case v.server.isStandby() && v.server.Upstream != "":
		return do(Follow{}, "the Lease is free: ends the WAL receiver, to know what was received")
	case v.server.isStandby() && v.server.Receiving:
		return wait("waits for the WAL receiver to end")
	case v.server.isStandby() && v.notListed():
		v.wake(v.leaseAvailableAt() + v.CatchUpWait)
		why := fmt.Sprintf("was down for too long when the primary %s was lost: waits for one of %v; if they are lost for good, delete the Lease of this PostgreSQL",
			v.lease.Primary, v.lease.Instances)
		return &Decision{Action: Wait{}, Reason: why, ManualIntervention: v.in.Now >= v.leaseAvailableAt()+v.CatchUpWait}
	case !v.candidate():
		return nil
	case v.hasPromised():
		return v.waitUntil(v.in.PromisedUntil, "waits: it was promised not to take the Lease")
	}
	if why := v.dataLossRisk(); why != "" {
		if v.positionUnknown() {
			return nil
		}
		v.wake(v.leaseAvailableAt() + v.CatchUpWait)
		late := v.in.Now >= v.leaseAvailableAt()+v.CatchUpWait
		return &Decision{Action: Wait{}, Reason: why, ManualIntervention: late, NeedsDataLossConsent: late && v.quorumUnreachable() == ""}
	}
	if at, why := v.turnAt(); v.in.Now < at {
		v.wake(at)
		late := v.lacksShutdownWAL() && v.in.Now >= v.leaseAvailableAt()+v.CatchUpWait
		return &Decision{Action: Wait{}, Reason: why, ManualIntervention: late, NeedsDataLossConsent: late}
	}
	return do(Acquire{Lease: v.acquisitionRecord()}, "takes the Lease, which is free")
}

// wasLastPrimary says that the data here are those of the last primary, which has everything that was acknowledged.
func (v *decider) wasLastPrimary() bool {
	return v.server.Process == Down && v.server.Role == Primary && v.lease.Primary == v.Self.Name
}

// candidate says that this instance can take the Lease when it is free. (3, 6)
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

// notListed says that the last holder did not release the Lease, and asked this instance for no promise: it may still run. (3, 7)
func (v *decider) notListed() bool {
	return !v.lease.Released && len(v.lease.Instances) > 0 && !slices.Contains(v.lease.Instances, v.Self.Name)
}

// dataLossRisk says why this instance must not become the primary for want of data; "" if it may. (6, 9, 13)
func (v *decider) dataLossRisk() string {
	if why := v.quorumUnreachable(); why != "" || v.wasLastPrimary() {
		return why
	}
	return v.excessiveLag()
}

// quorumUnreachable says why rows that were acknowledged could be missing here; "" if none can be: this was the primary, or the
// primary stopped in order and all of its log is here, or R + W > N for each setting that may have been in force. (9)
func (v *decider) quorumUnreachable() string {
	p := v.server.Position
	switch {
	case v.Synchronous == 0, v.wasLastPrimary():
		return ""
	case v.lease.CleanShutdown && p.Timeline == v.lease.End.Timeline && p.LSN >= v.lease.End.LSN:
		return ""
	}
	for _, q := range v.quorums() {
		if r := v.readableMembers(q); r+q.Number <= len(q.Names) {
			return fmt.Sprintf("only %d of the synchronous standbys %v can be read, and %d confirmed each commit",
				r, q.Names, q.Number)
		}
	}
	return ""
}

// quorums returns the settings to satisfy. Without a record the primary was any one of the instances that have data, its standbys any
// others; one that is empty may have had data too, unless the Lease is as old as the cluster.
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

// readableMembers counts the members of q of which all that they have received is here, and which receive nothing more from
// the last primary: they have given that up for the very record that this instance is about to replace.
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

// turnAt returns when this instance's turn is: each better candidate that answers has a step, the silent ones have one together. (6, 8)
func (v *decider) turnAt() (time.Duration, string) {
	at, why := v.firstTurnAt()
	first := at
	for i, name := range v.Instances {
		p, ok := v.peer(name, v.leaseAvailableAt())
		if ok && name != v.Self.Name && p.Candidate && v.hasCopy(p) && v.ranksBefore(p, i) && !v.lagsTooFar(p) {
			// It may have started to observe the Lease later than this one, or wait for a better one.
			theirs := min(v.in.Peers[name].RequestedAt+p.FirstIn, v.leaseAvailableAt()+v.LeaseDuration+v.CatchUpWait)
			at, why = max(at, theirs)+v.CandidateStagger, "leaves the Lease to "+name+", which comes first"
		}
	}
	if at > first && v.recentlyUnresponsive() {
		at = max(at, first+v.RenewInterval) // the others may be busy with their logs
	}
	if v.peersSilent() {
		at, why = at+v.CandidateStagger, cmp.Or(why, "waits for the other instances to answer")
	}
	return at, why
}

// firstTurnAt returns when this instance would take the Lease if it were the only one. Who lacks something known to be written
// leaves time for one that doesn't, and who gave the Lease away for the one it is meant for.
func (v *decider) firstTurnAt() (time.Duration, string) {
	if v.wasLastPrimary() {
		if v.lease.Preferred != "" && v.lease.Preferred != v.Self.Name {
			return v.leaseAvailableAt() + v.RenewInterval, "leaves the Lease to " + v.lease.Preferred + ", which shall have it"
		}
		return v.leaseAvailableAt(), ""
	}
	lack, known := v.lease.missing(v.server.Position)
	switch {
	case v.lacksShutdownWAL():
		return v.leaseAvailableAt() + v.LastPrimaryWait, fmt.Sprintf("lacks %d bytes of what %s wrote before it stopped in order: waits %s for it%s",
			lack, v.lease.Primary, v.LastPrimaryWait, v.consentAdvice(v.Self.Name))
	case lack > 0 || !known:
		return v.leaseAvailableAt() + v.CatchUpWait, "lacks some of what the last primary wrote: waits for one that has it"
	}
	return v.leaseAvailableAt(), ""
}

// peersSilent says that an instance other than the last holder has not answered since the Lease is free.
func (v *decider) peersSilent() bool {
	return slices.ContainsFunc(v.Instances, func(name string) bool {
		_, ok := v.peer(name, v.leaseAvailableAt())
		return !ok && name != v.Self.Name && name != v.lease.Primary && name != v.lease.Holder.Name
	})
}

// ranksBefore says that a peer, the i-th instance, comes first: by what it received, preference, standing still, running, or ordinal.
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

// noDataAnywhere says that nothing is known of any data, here or elsewhere.
func (v *decider) noDataAnywhere() bool {
	return (v.server.Data == Empty || v.server.Data == Incomplete) && v.SystemID == "" &&
		v.lease.SystemID == "" && v.lease.Primary == ""
}

// bootstrap takes a Lease that nobody ever had, to run initdb: the first instance does, once no other has data. It
// does not wait for the Lease to lapse, as no instance can be read-write without data. (1)
func (v *decider) bootstrap() *Decision {
	if v.Self.Name != v.Instances[0] {
		return wait("waits for " + v.Instances[0] + " to make the cluster")
	}
	for _, name := range without(v.Instances, v.Self.Name) {
		p, ok := v.peer(name, v.freshSince())
		switch {
		case ok && p.Data != Empty && p.Data != Incomplete:
			return wait("waits: " + name + " has data")
		case !ok && !v.MayInitialize:
			return wait("waits for " + name + " to say that it has no data")
		}
	}
	if v.hasPromised() {
		return v.waitUntil(v.in.PromisedUntil, "waits: it was promised not to take the Lease")
	}
	return do(Acquire{Lease: v.acquisitionRecord()}, "takes the Lease to make a new cluster")
}
