package election

import (
	"cmp"
	"slices"
	"time"
)

// actAsStandby is what an instance without the lease does: be a standby of the holder. (1, 10)
func actAsStandby(v *decider) *Decision {
	h, s := v.holder(), v.server
	switch {
	case s.Data == Empty || s.Data == Incomplete:
		return v.clone(h)
	case s.SystemID != "" && !v.sameSystemID(s.SystemID):
		return needsHuman(CodeForeignData, "data belongs to another cluster (system identifier "+s.SystemID+"): remove the data or the volume")
	case s.Data == Unrecognized:
		return needsHuman(CodeUnrecognizedData, "volume holds files that are not data of this cluster and PostgreSQL version: check the volume")
	case s.Data == NeedsReclone:
		return v.reclone(h)
	case s.Process == Down:
		return v.startAsStandby(h)
	}
	return v.keepFollowing(h)
}

// keepFollowing is what a running standby does. (10)
func (v *decider) keepFollowing(h string) *Decision {
	switch {
	case v.hasDiverged(h) && v.Paused:
		return needsHuman(CodeRewindPaused, "timeline diverged from "+h+", and the cluster is paused: set spec.paused to false to rewind")
	case v.hasDiverged(h) && v.protectDivergedData(h) != nil:
		return v.protectDivergedData(h)
	case v.hasDiverged(h):
		return do(Stop{Mode: Fast}, CodeTimelineDiverged, "timeline diverged from "+h+": stopping to be rewound")
	case h != "" && v.server.Upstream != h && v.in.Lease.HolderActive:
		return do(Follow{Upstream: h}, CodeFollowingNewPrimary, h+" holds the lease: following it")
	case h == "":
		return wait(CodeWaitingForPrimary, "waiting for a primary")
	case v.defect() != cause{}:
		return v.reclone(h)
	}
	return wait(CodeFollowing, "following "+v.server.Upstream)
}

// hasDiverged reports that the WAL here contains something that the primary's WAL does not. (10)
func (v *decider) hasDiverged(h string) bool {
	return h != "" && v.lease.Primary == h && v.lease.diverged(v.server.Position)
}

// startAsStandby starts as a standby. A former primary, and an instance with a diverged timeline, is rewound first. It follows
// only a holder that it has seen writing: it must not confirm commits to a lost holder after it was counted among the instances
// that do not. (1, 9, 10)
func (v *decider) startAsStandby(h string) *Decision {
	s := v.server
	upstream := ""
	if v.in.Lease.HolderActive {
		upstream = h
	}
	switch {
	case v.noSpace():
		return v.waitForSpace()
	case v.hasDiverged(h):
		return v.rewind(h)
	case v.awaitingReclone() && v.recloneAhead() == "":
		return v.reclone(h)
	case s.hasCrashed() && v.in.Now < s.ProcessSince+v.backOff():
		return v.afterCrash(h)
	case s.Role == Standby:
		return do(StartStandby{Upstream: upstream}, CodeStartingStandby, "starting as a standby")
	case v.superseded() != "":
		return do(StartStandby{}, CodeStartingAsCandidate, v.superseded())
	case h == "" || v.lease.Primary != h:
		return wait(CodeWaitingForPrimary, "was the primary: waiting for the next primary")
	case s.CleanShutdown:
		return do(StartStandby{Upstream: upstream}, CodeStartingStandby, "shut down cleanly before the timeline switch: starting as a standby")
	}
	return v.rewind(h)
}

// backOff is how long a crashed server waits before its next start. It grows with the number of crashes.
func (v *decider) backOff() time.Duration {
	return min(v.RenewInterval<<max(0, min(v.server.Failures, 16)-1), max(v.CrashLoopWindow, v.RenewInterval))
}

// afterCrash waits before the next start, and says what a person has to do if the data counts as damaged.
func (v *decider) afterCrash(h string) *Decision {
	v.wake(v.server.ProcessSince + v.backOff())
	if v.defect() != (cause{}) {
		return v.reclone(h)
	}
	return wait(CodeCrashBackOff, "waiting to restart PostgreSQL after a crash")
}

// superseded returns why a former primary starts as a standby that can be elected, because another instance may have been primary
// since; "" if not.
func (v *decider) superseded() string {
	switch {
	case v.leaseAvailable() && v.lease.Primary != "" && !v.wasLastPrimary():
		return "was a primary before the last one: starting as a standby that can be elected"
	case v.positionUnknown():
		return "was a primary, and the last primary is unknown: starting as a standby to compare positions"
	}
	return ""
}

// positionUnknown reports that this was a primary, and that no instance can take the lease, whose record was lost, without
// knowing the WAL here. Only a running standby without a WAL receiver tells that: it has read its WAL to the end. (9)
func (v *decider) positionUnknown() bool {
	s := v.server
	unknown := v.recordLost() || v.lease.Primary == "" && len(v.lease.Sync) > 0 // the instance that took such a lease was lost before it was a primary
	return v.leaseAvailable() && unknown && v.in.Now >= v.leaseAvailableAt()+v.CatchUpWait && s.Process == Down && s.Role == Primary &&
		v.candidate() && v.quorumUnreachable() != (cause{})
}

// rewind rewinds to where the primary's timeline diverged. If a person accepted data loss, the data is kept beside a new copy.
// (10, 13)
func (v *decider) rewind(h string) *Decision {
	switch {
	case v.Paused:
		return needsHuman(CodeRewindPaused, "timeline diverged from "+h+", and the cluster is paused: set spec.paused to false to rewind")
	case !v.isReadyPrimary(h):
		return wait(CodeWaitingForReadyPrimary, "waiting until "+h+" is ready to rewind to it")
	case v.protectDivergedData(h) != nil:
		return v.protectDivergedData(h)
	}
	if bytes, known := v.divergedBytes(); !v.boundedByQuorum() && (!known || bytes > v.MaximumLag || v.server.Role == Primary && !v.server.Exact) {
		return do(RecloneKeepingData{Source: v.cloneSource(h)}, CodeDataLossAccepted, "timeline diverged from "+h+", data loss is accepted: recloning and keeping the replaced data")
	}
	return do(Rewind{Source: h}, CodeTimelineDiverged, "timeline diverged from "+h+": rewinding")
}

// isReadyPrimary reports that h answers as a ready primary.
func (v *decider) isReadyPrimary(h string) bool {
	p, ok := v.peer(h, v.freshSince())
	return h != "" && ok && p.Writable && v.sameSystemID(p.SystemID)
}

func (v *decider) clone(h string) *Decision {
	if !v.isReadyPrimary(h) {
		return wait(CodeWaitingForPrimaryToClone, "has no data: waiting for a primary to clone")
	}
	if due := v.server.ProcessSince + v.CandidateStagger; v.in.Now < due && v.peersMissing() {
		return v.waitUntil(due, CodeWaitingForPeers, "has no data: waiting for a standby to clone instead of "+h)
	}
	return do(Clone{Source: v.cloneSource(h)}, CodeCloning, "has no data: cloning")
}

// peersMissing reports that another instance has not answered recently.
func (v *decider) peersMissing() bool {
	return slices.ContainsFunc(without(v.Instances, v.Self.Name), func(name string) bool {
		_, ok := v.peer(name, v.freshSince())
		return !ok
	})
}

// cloneSource returns the instance to copy: a standby that follows h, or h. An instance that is listed among the synchronous
// standbys copies the primary, because a standby may lack commits that only the lost data had confirmed. (9)
func (v *decider) cloneSource(h string) string {
	if slices.ContainsFunc(v.lease.Sync, func(q Quorum) bool { return slices.Contains(q.Names, v.Self.Name) }) {
		return h
	}
	return cmp.Or(v.findPeer(func(name string, p State) bool { return name != h && v.isHealthyStandby(p, h) }), h)
}

// isHealthyStandby reports that p is a standby of h that has reached h's timeline and can continue: a healthy copy.
func (v *decider) isHealthyStandby(p State, h string) bool {
	primary, _ := v.peer(h, v.freshSince())
	return p.Data == Usable && p.Process == Up && p.Role == Standby && p.Upstream == h && v.sameSystemID(p.SystemID) &&
		p.Position.Timeline == v.lease.End.Timeline && !p.WALGone && p.Position.LSN >= primary.OldestWAL
}
