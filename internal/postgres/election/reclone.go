package election

import (
	"fmt"
	"slices"
	"time"
)

// A standby cannot follow if pg_rewind failed, if the primary has removed WAL that it needs next, if its PostgreSQL exits repeatedly, or if
// it receives nothing for long. Only a new copy of the data repairs that. The rules:
//
//   - The data counts as good until proven otherwise: the standby keeps running, can be read and can be elected until its turn.
//   - A primary that is restarting or unreachable is no evidence against the data of a standby. [Server.PrimaryReachedAt] is.
//   - A standby is recloned only while a primary is ready, one at a time, the lowest ordinal first, and only if an instance other than
//     the primary has a copy, or a person requested it. Each instance announces that it waits for its turn for longer than an answer
//     counts as current, so two cannot start at once.
//   - A new copy that cannot follow either is not replaced again: the cause is not the data.

// maxFailures is how often in a row PostgreSQL may exit before the data counts as damaged.
const maxFailures = 5

// Track returns the server with the times since which it cannot follow. The loop calls it before each decision.
func Track(c Config, in Input) Server {
	v := newDecider(c, in)
	s := &v.server
	since := func(is bool, before time.Duration) time.Duration {
		switch {
		case !is:
			return 0
		case before > 0:
			return before
		}
		return in.Now
	}
	s.WALGoneSince = since(v.walMissing(), s.WALGoneSince)
	s.StalledSince = since(v.isStandbyOf(v.holder()) && (s.Process == Up || s.StalledSince > 0), s.StalledSince)
	s.AwaitingRecloneSince = since(v.awaitingReclone(), s.AwaitingRecloneSince)
	return *s
}

// walMissing reports that the primary has removed WAL that this standby needs next, as far as both positions are known.
func (v *decider) walMissing() bool {
	s, h := v.server, v.holder()
	p, _ := v.peer(h, v.freshSince())
	return v.isStandbyOf(h) && s.Exact && s.Position.LSN < p.OldestWAL
}

// isStandbyOf reports that h is a ready primary, and that this is its standby with data, which runs, stops or is down.
func (v *decider) isStandbyOf(h string) bool {
	s := v.server
	return s.Role == Standby && s.Data == Usable && s.Process != Starting && (s.Process != Up || s.Upstream == h) &&
		v.isReadyPrimary(h) && v.lease.Primary == h && !v.hasDiverged(h)
}

// walGone reports that the primary has certainly removed WAL that is needed next: neither position was just outdated.
func (v *decider) walGone() bool {
	s := v.server
	switch {
	case s.WALGoneSince == 0 || !v.walMissing():
		return false
	case s.Process != Up:
		return true
	}
	v.wake(s.WALGoneSince + v.CatchUpWait)
	return s.SampledAt >= s.WALGoneSince+v.CatchUpWait
}

// stalled reports that this standby has received nothing for longer than limit, although the primary accepts its connections.
// While it waits for its turn to be recloned, that stays true when it stops. A standby that hung and is down starts first.
func (v *decider) stalled(limit time.Duration) bool {
	s := v.server
	if s.StalledSince == 0 || s.PrimaryReachedAt < s.StalledSince {
		return false
	}
	v.wake(s.StalledSince + limit)
	return v.in.Now >= s.StalledSince+limit && (s.Process != Up && s.AwaitingRecloneSince > 0 || v.in.Now < s.PrimaryReachedAt+v.LeaseDuration+v.CatchUpWait)
}

// defect returns why the data here cannot follow the primary; zero if it can. If a person requested a reclone, the first sign is
// enough.
func (v *decider) defect() cause {
	s, failures, limit := v.server, maxFailures, v.StallTimeout
	if v.RecloneRequested {
		failures, limit = 1, v.CatchUpWait
	}
	switch {
	case s.Data == NeedsReclone:
		return cause{CodeRewindFailed, "pg_rewind failed"}
	case s.Data != Usable || s.Role != Standby:
		return cause{}
	case v.walGone():
		return cause{CodeWALGone, "required WAL has been removed from the primary"}
	case s.Failures >= failures:
		return cause{CodeStandbyCrashLooping, "PostgreSQL exited repeatedly before it could follow the primary"}
	case v.RecloneRequested && s.Process == Starting && v.in.Now >= s.ProcessSince+limit:
		return cause{CodeStandbyNotReady, "PostgreSQL does not become ready"}
	case v.stalled(limit):
		return cause{CodeStandbyStalled, "nothing is received from the primary although it is reachable"}
	}
	return cause{}
}

// awaitingReclone reports that this instance should be recloned, and only waits for its turn.
func (v *decider) awaitingReclone() bool {
	h := v.holder()
	return v.defect() != cause{} && !v.Paused && !v.server.alreadyRecloned() && v.isReadyPrimary(h) && (v.RecloneRequested || v.AutoReclone && v.otherCopy(h) != "")
}

// alreadyRecloned reports that the data that cannot follow is already a new copy.
func (s Server) alreadyRecloned() bool {
	return s.ClonedSinceFollowing && s.Data == Usable && s.WALGoneSince == 0
}

// reclone replaces data that cannot follow, with care. It stops PostgreSQL first. (10)
func (v *decider) reclone(h string) *Decision {
	s, defect := v.server, v.defect()
	why := defect.text
	switch first := v.recloneAhead(); {
	case v.Paused:
		return needsHuman(CodeReclonePaused, why+"; not recloned while the cluster is paused: set spec.paused to false")
	case s.alreadyRecloned():
		return needsHuman(CodeRecloneDidNotHelp, why+"; a new copy of the data did not help: see the PostgreSQL log")
	case !v.AutoReclone && !v.RecloneRequested:
		return v.askForReclone(CodeRecloneNeedsConsent, why+"; not recloned, because spec.replicaRecovery is Manual")
	case !v.isReadyPrimary(h):
		return wait(CodeWaitingForReadyPrimary, "waiting until "+h+" is ready to be recloned")
	case s.Data == Usable && v.hasDiverged(h) && v.protectDivergedData(h) != nil:
		return v.protectDivergedData(h)
	case first != "":
		return wait(CodeWaitingForRecloneTurn, why+"; waiting until "+first+" is recloned")
	case v.otherCopy(h) == "" && !v.RecloneRequested:
		return v.waitForOtherCopy(h, why)
	case s.AwaitingRecloneSince == 0 || v.in.Now < s.AwaitingRecloneSince+v.announceTime():
		return v.waitUntil(s.AwaitingRecloneSince+v.announceTime(), defect.code, why+"; waiting to be recloned")
	case s.Process != Down:
		return do(Stop{Mode: Fast}, defect.code, why+"; stopping to be recloned")
	}
	return do(Reclone{Source: v.cloneSource(h)}, defect.code, why+"; recloning")
}

// announceTime is how long an instance announces its turn to be recloned, so two instances that rely on each other's copy learn
// of each other.
func (v *decider) announceTime() time.Duration { return 7 * v.RenewInterval }

// waitForOtherCopy waits for another copy than the primary's, or asks a person if no copy is in progress.
func (v *decider) waitForOtherCopy(h, why string) *Decision {
	if name := v.findPeer(func(name string, p State) bool { return name != h && (p.Data == Empty || p.Data == Incomplete) }); name != "" {
		return wait(CodeWaitingForRecloneTurn, why+"; waiting until "+name+" has a copy")
	}
	return v.askForReclone(CodeOnlyOtherCopy, why+"; not recloned, because "+h+" has the only other copy")
}

// otherCopy returns an instance other than h that has a copy of the data; "" if there is none.
func (v *decider) otherCopy(h string) string {
	return v.findPeer(func(name string, p State) bool {
		return name != h && p.Data == Usable && p.DataTask == NoDataTask && v.sameSystemID(p.SystemID)
	})
}

// askForReclone asks a person to request a reclone.
func (v *decider) askForReclone(code Code, why string) *Decision {
	d := needsHuman(code, fmt.Sprintf("%s: save what you need of its data, then annotate the PostgreSQL with fettle.dev/reclone=%s", why, v.Self.Name))
	d.NeedsRecloneConsent = true
	return d
}

// recloneAhead returns which instance is being recloned, or has its turn before this one.
func (v *decider) recloneAhead() string {
	return v.findPeer(func(name string, p State) bool {
		return p.DataTask == Cloning || p.AwaitingReclone && slices.Index(v.Instances, name) < slices.Index(v.Instances, v.Self.Name)
	})
}
