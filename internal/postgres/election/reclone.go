package election

import (
	"fmt"
	"slices"
	"time"
)

// A standby cannot follow when its data could not be rewound, when the primary has removed WAL that it needs next, when its
// PostgreSQL ends again and again, or when it receives nothing for long. Only a new copy of the data repairs that. The rules:
//
//   - The data are whole until proven otherwise: the standby keeps running, can be read and can be elected until its turn.
//   - A primary that is restarting or cannot be reached is no evidence against the data of a standby. [Server.Reached] is.
//   - A standby is recloned only while a primary serves, one at a time, the lowest ordinal first, and only if an instance
//     other than the primary keeps a copy, or a person asked for it. Each instance tells the others that it waits for its
//     turn for longer than an answer counts, so two cannot begin at once.
//   - A new copy that cannot follow either is not replaced again: the cause is not the data.

// maxFailures is how often PostgreSQL may end in a row before the data count as damaged.
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

// walMissing says that the primary has removed what this standby needs next, as far as both are known.
func (v *decider) walMissing() bool {
	s, h := v.server, v.holder()
	p, _ := v.peer(h, v.freshSince())
	return v.isStandbyOf(h) && s.Exact && s.Position.LSN < p.OldestWAL
}

// isStandbyOf says that the primary serves, and that this is a standby of it with data, which runs, stops, or is down.
func (v *decider) isStandbyOf(h string) bool {
	s := v.server
	return s.Role == Standby && s.Data == Usable && s.Process != Starting && (s.Process != Up || s.Upstream == h) &&
		v.isReadyPrimary(h) && v.lease.Primary == h && !v.hasDiverged(h)
}

// walGone says that it is certain that the primary has removed what is needed next: neither side's word was just out of date.
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

// stalled says that this standby has received nothing for so long, although the primary takes connections from it. Once it waits for its turn that
// stays so when it stops for that; one that hung and is down now starts first.
func (v *decider) stalled(limit time.Duration) bool {
	s := v.server
	if s.StalledSince == 0 || s.PrimaryReachedAt < s.StalledSince {
		return false
	}
	v.wake(s.StalledSince + limit)
	return v.in.Now >= s.StalledSince+limit && (s.Process != Up && s.AwaitingRecloneSince > 0 || v.in.Now < s.PrimaryReachedAt+v.LeaseDuration+v.CatchUpWait)
}

// defect says why the data here cannot follow the primary; "" if they can. When a person asks, the first sign is enough.
func (v *decider) defect() string {
	s, failures, limit := v.server, maxFailures, v.StallTimeout
	if v.RecloneRequested {
		failures, limit = 1, v.CatchUpWait
	}
	switch {
	case s.Data == NeedsReclone:
		return "rewinding failed"
	case s.Data != Usable || s.Role != Standby:
		return ""
	case v.walGone():
		return "the primary has removed WAL that is needed next"
	case s.Failures >= failures:
		return "PostgreSQL ended again and again before it could follow"
	case v.RecloneRequested && s.Process == Starting && v.in.Now >= s.ProcessSince+limit:
		return "PostgreSQL does not become ready"
	case v.stalled(limit):
		return "nothing is received from the primary although it is reachable"
	}
	return ""
}

// awaitingReclone says that this instance is to be recloned, and only waits for its turn.
func (v *decider) awaitingReclone() bool {
	h := v.holder()
	return v.defect() != "" && !v.Paused && !v.server.alreadyRecloned() && v.isReadyPrimary(h) && (v.RecloneRequested || v.AutoReclone && v.otherCopy(h) != "")
}

// alreadyRecloned says that the data that cannot follow are a new copy already.
func (s Server) alreadyRecloned() bool {
	return s.ClonedSinceFollowing && s.Data == Usable && s.WALGoneSince == 0
}

// reclone replaces data that cannot follow, with care. It stops PostgreSQL first. (10)
func (v *decider) reclone(h string) *Decision {
	s, why := v.server, "cannot follow the primary: "+v.defect()
	switch first := v.recloneAhead(); {
	case v.Paused:
		return needsHuman(why + "; it is not recloned while the cluster is paused: set spec.paused to false")
	case s.alreadyRecloned():
		return needsHuman(why + ", not even with a new copy of the data: the log of PostgreSQL says why")
	case !v.AutoReclone && !v.RecloneRequested:
		return v.askForReclone(why + "; it is not recloned, as spec.autoReclone is false")
	case !v.isReadyPrimary(h):
		return wait("waits for " + h + " to serve, to be recloned")
	case s.Data == Usable && v.hasDiverged(h) && v.protectDivergedData(h) != nil:
		return v.protectDivergedData(h)
	case first != "":
		return wait(why + "; waits for " + first + " to be recloned first")
	case v.otherCopy(h) == "" && !v.RecloneRequested:
		return v.waitForOtherCopy(h, why)
	case s.AwaitingRecloneSince == 0 || v.in.Now < s.AwaitingRecloneSince+v.announceTime():
		return v.waitUntil(s.AwaitingRecloneSince+v.announceTime(), why+"; tells the others that it is to be recloned")
	case s.Process != Down:
		return do(Stop{Mode: Fast}, why+"; stops to be recloned")
	}
	return do(Reclone{Source: v.cloneSource(h)}, why)
}

// announceTime is how long an instance announces its turn to be recloned: two that count on each other's copy hear of each other.
func (v *decider) announceTime() time.Duration { return 7 * v.RenewInterval }

// waitForOtherCopy waits for another copy than the primary's, or asks a person if none is being made.
func (v *decider) waitForOtherCopy(h, why string) *Decision {
	if name := v.findPeer(func(name string, p State) bool { return name != h && (p.Data == Empty || p.Data == Incomplete) }); name != "" {
		return wait(why + "; waits for " + name + " to have a copy first")
	}
	return v.askForReclone(why + "; it is not recloned, as " + h + " has the only other copy")
}

// otherCopy returns an instance other than h that keeps a copy of the data; "" if there is none.
func (v *decider) otherCopy(h string) string {
	return v.findPeer(func(name string, p State) bool {
		return name != h && p.Data == Usable && p.DataTask == NoDataTask && v.sameSystemID(p.SystemID)
	})
}

func (v *decider) askForReclone(why string) *Decision {
	d := needsHuman(fmt.Sprintf("%s: save what is needed of its data, then annotate the PostgreSQL with fettle.dev/reclone=%s", why, v.Self.Name))
	d.NeedsRecloneConsent = true
	return d
}

// recloneAhead returns which instance is being recloned, or comes before this one.
func (v *decider) recloneAhead() string {
	return v.findPeer(func(name string, p State) bool {
		return p.DataTask == Cloning || p.AwaitingReclone && slices.Index(v.Instances, name) < slices.Index(v.Instances, v.Self.Name)
	})
}
