package election

import (
	"cmp"
	"slices"
	"time"
)

// actAsStandby is what an instance without the Lease does: be a standby of the holder. (1, 10)
func actAsStandby(v *decider) *Decision {
	h, s := v.holder(), v.server
	switch {
	case s.Data == Empty || s.Data == Incomplete:
		return v.clone(h)
	case s.SystemID != "" && !v.sameSystemID(s.SystemID):
		return needsHuman("the data are of another cluster (system identifier " + s.SystemID + "): remove them, or their volume")
	case s.Data == Unrecognized:
		return needsHuman("the volume holds something else than data of this PostgreSQL and its version, and is left alone")
	case s.Data == NeedsReclone:
		return v.reclone(h)
	case s.Process == Down:
		return v.startAsStandby(h)
	}
	return v.keepFollowing(h)
}

// keepFollowing is what a standby that runs does. (10)
func (v *decider) keepFollowing(h string) *Decision {
	switch {
	case v.hasDiverged(h) && v.Paused:
		return needsHuman("has left the history of " + h + ", and the cluster is paused: nothing is rewound")
	case v.hasDiverged(h) && v.protectDivergedData(h) != nil:
		return v.protectDivergedData(h)
	case v.hasDiverged(h):
		return do(Stop{Mode: Fast}, "has left the history of "+h+": stops to be rewound")
	case h != "" && v.server.Upstream != h && v.in.Lease.HolderActive:
		return do(Follow{Upstream: h}, h+" has the Lease")
	case h == "":
		return wait("waits for a primary")
	case v.defect() != "":
		return v.reclone(h)
	}
	return wait("follows " + v.server.Upstream)
}

// hasDiverged says that the log here has something that the primary's does not. (10)
func (v *decider) hasDiverged(h string) bool {
	return h != "" && v.lease.Primary == h && v.lease.diverged(v.server.Position)
}

// startAsStandby starts as a standby; what was a primary, or has left the history, is rewound first. It follows only a holder that it has seen
// writing: it must confirm nothing to one that is lost, after it was counted among those that don't. (1, 9, 10)
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
		return do(StartStandby{Upstream: upstream}, "starts as a standby")
	case v.superseded() != "":
		return do(StartStandby{}, v.superseded())
	case h == "" || v.lease.Primary != h:
		return wait("was a primary: waits for the next one")
	case s.CleanShutdown:
		return do(StartStandby{Upstream: upstream}, "stopped before the fork: starts as a standby")
	}
	return v.rewind(h)
}

// backOff is how long a server that has crashed waits to start again: the longer the more often it has.
func (v *decider) backOff() time.Duration {
	return min(v.RenewInterval<<max(0, min(v.server.Failures, 16)-1), max(v.CrashLoopWindow, v.RenewInterval))
}

// afterCrash waits to start again, and says what a person is to do if the data count as damaged.
func (v *decider) afterCrash(h string) *Decision {
	v.wake(v.server.ProcessSince + v.backOff())
	if v.defect() != "" {
		return v.reclone(h)
	}
	return wait("waits to start again after a crash")
}

// superseded says why what was a primary starts as a standby that can be elected, as another may have led since; "" if not.
func (v *decider) superseded() string {
	switch {
	case v.leaseAvailable() && v.lease.Primary != "" && !v.wasLastPrimary():
		return "was a primary before the last one: starts as a standby that can be elected"
	case v.positionUnknown():
		return "was a primary, and nobody knows who was the last one: starts as a standby, to be compared with the others"
	}
	return ""
}

// positionUnknown says that this was a primary, and that nobody can take the Lease, of which the record was lost, without knowing what
// its log has. Only a standby that runs and receives nothing tells that: it has read its log to the end. (9)
func (v *decider) positionUnknown() bool {
	s := v.server
	unknown := v.recordLost() || v.lease.Primary == "" && len(v.lease.Sync) > 0 // one that took such a Lease was lost before it was a primary
	return v.leaseAvailable() && unknown && v.in.Now >= v.leaseAvailableAt()+v.CatchUpWait && s.Process == Down && s.Role == Primary &&
		v.candidate() && v.quorumUnreachable() != ""
}

// rewind goes back to where the primary's history was left. Where a person accepted a loss, the data are kept beside a copy. (10, 13)
func (v *decider) rewind(h string) *Decision {
	switch {
	case v.Paused:
		return needsHuman("has left the history of " + h + ", and the cluster is paused: nothing is rewound")
	case !v.isReadyPrimary(h):
		return wait("waits for " + h + " to serve, to rewind to it")
	case v.protectDivergedData(h) != nil:
		return v.protectDivergedData(h)
	}
	if bytes, known := v.divergedBytes(); !v.boundedByQuorum() && (!known || bytes > v.MaximumLag || v.server.Role == Primary && !v.server.Exact) {
		return do(RecloneKeepingData{Source: v.cloneSource(h)}, "has left the history of "+h+", and a person accepts the loss")
	}
	return do(Rewind{Source: h}, "has left the history of "+h)
}

// isReadyPrimary says that h answers as a primary.
func (v *decider) isReadyPrimary(h string) bool {
	p, ok := v.peer(h, v.freshSince())
	return h != "" && ok && p.Writable && v.sameSystemID(p.SystemID)
}

func (v *decider) clone(h string) *Decision {
	if !v.isReadyPrimary(h) {
		return wait("has no data: waits for a primary to copy")
	}
	if due := v.server.ProcessSince + v.CandidateStagger; v.in.Now < due && v.peersMissing() {
		return v.waitUntil(due, "has no data: waits for the others to answer, as one of them may be copied instead of "+h)
	}
	return do(Clone{Source: v.cloneSource(h)}, "has no data")
}

func (v *decider) peersMissing() bool {
	return slices.ContainsFunc(without(v.Instances, v.Self.Name), func(name string) bool {
		_, ok := v.peer(name, v.freshSince())
		return !ok
	})
}

// cloneSource returns whom to copy: a standby that follows h, or h. One that is counted among those which confirmed commits
// copies the primary: a standby may lack what only the lost data had confirmed. (9)
func (v *decider) cloneSource(h string) string {
	if slices.ContainsFunc(v.lease.Sync, func(q Quorum) bool { return slices.Contains(q.Names, v.Self.Name) }) {
		return h
	}
	return cmp.Or(v.findPeer(func(name string, p State) bool { return name != h && v.isHealthyStandby(p, h) }), h)
}

// isHealthyStandby says that p is a standby of h that has reached h's timeline, and can go on: a healthy copy.
func (v *decider) isHealthyStandby(p State, h string) bool {
	primary, _ := v.peer(h, v.freshSince())
	return p.Data == Usable && p.Process == Up && p.Role == Standby && p.Upstream == h && v.sameSystemID(p.SystemID) &&
		p.Position.Timeline == v.lease.End.Timeline && !p.WALGone && p.Position.LSN >= primary.OldestWAL
}
