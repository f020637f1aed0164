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
	v := newView(c, in)
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
	s.Severed = since(v.lacks(), s.Severed)
	s.Stalled = since(v.behind(v.holder()) && (s.Process == Up || s.Stalled > 0), s.Stalled)
	s.Awaits = since(v.awaits(), s.Awaits)
	return *s
}

// lacks says that the primary has removed what this standby needs next, as far as both are known.
func (v *view) lacks() bool {
	s, h := v.server, v.holder()
	p, _ := v.peer(h, v.recent())
	return v.behind(h) && s.Exact && s.Position.LSN < p.Oldest
}

// behind says that the primary serves, and that this is a standby of it with data, which runs, stops, or is down.
func (v *view) behind(h string) bool {
	s := v.server
	return s.Role == Standby && s.Data == Usable && s.Process != Starting && (s.Process != Up || s.Upstream == h) &&
		v.serves(h) && v.lease.Primary == h && !v.left(h)
}

// severed says that it is certain that the primary has removed what is needed next: neither side's word was just out of date.
func (v *view) severed() bool {
	s := v.server
	switch {
	case s.Severed == 0 || !v.lacks():
		return false
	case s.Process != Up:
		return true
	}
	v.wake(s.Severed + v.Patience)
	return s.Looked >= s.Severed+v.Patience
}

// stalled says that this standby has received nothing for so long, although the primary takes connections from it. Once it waits for its turn that
// stays so when it stops for that; one that hung and is down now starts first.
func (v *view) stalled(limit time.Duration) bool {
	s := v.server
	if s.Stalled == 0 || s.Reached < s.Stalled {
		return false
	}
	v.wake(s.Stalled + limit)
	return v.in.Now >= s.Stalled+limit && (s.Process != Up && s.Awaits > 0 || v.in.Now < s.Reached+v.Lease+v.Patience)
}

// defect says why the data here cannot follow the primary; "" if they can. When a person asks, the first sign is enough.
func (v *view) defect() string {
	s, failures, limit := v.server, maxFailures, v.Stall
	if v.RecloneAsked {
		failures, limit = 1, v.Patience
	}
	switch {
	case s.Data == Unfit:
		return "rewinding failed"
	case s.Data != Usable || s.Role != Standby:
		return ""
	case v.severed():
		return "the primary has removed WAL that is needed next"
	case s.Failed >= failures:
		return "PostgreSQL ended again and again before it could follow"
	case v.RecloneAsked && s.Process == Starting && v.in.Now >= s.Since+limit:
		return "PostgreSQL does not become ready"
	case v.stalled(limit):
		return "nothing is received from the primary although it is reachable"
	}
	return ""
}

// awaits says that this instance is to be recloned, and only waits for its turn.
func (v *view) awaits() bool {
	h := v.holder()
	return v.defect() != "" && !v.Paused && !v.server.copied() && v.serves(h) && (v.RecloneAsked || v.AutoReclone && v.otherCopy(h) != "")
}

// copied says that the data that cannot follow are a new copy already.
func (s Server) copied() bool { return s.Copied && s.Data == Usable && s.Severed == 0 }

// reclone replaces data that cannot follow, with care. It stops PostgreSQL first. (10)
func (v *view) reclone(h string) *Decision {
	s, why := v.server, "cannot follow the primary: "+v.defect()
	switch first := v.othersFirst(); {
	case v.Paused:
		return stuck(why + "; it is not recloned while the cluster is paused: set spec.paused to false")
	case s.copied():
		return stuck(why + ", not even with a new copy of the data: the log of PostgreSQL says why")
	case !v.AutoReclone && !v.RecloneAsked:
		return v.askPerson(why + "; it is not recloned, as spec.autoReclone is false")
	case !v.serves(h):
		return wait("waits for " + h + " to serve, to be recloned")
	case s.Data == Usable && v.left(h) && v.withheld(h) != nil:
		return v.withheld(h)
	case first != "":
		return wait(why + "; waits for " + first + " to be recloned first")
	case v.otherCopy(h) == "" && !v.RecloneAsked:
		return v.onlyCopy(h, why)
	case s.Awaits == 0 || v.in.Now < s.Awaits+v.turnTime():
		return v.waitUntil(s.Awaits+v.turnTime(), why+"; tells the others that it is to be recloned")
	case s.Process != Down:
		return do(Stop{Mode: Fast}, why+"; stops to be recloned")
	}
	return do(Reclone{Source: v.source(h)}, why)
}

// turnTime is how long an instance announces its turn to be recloned: two that count on each other's copy hear of each other.
func (v *view) turnTime() time.Duration { return 7 * v.Renew }

// onlyCopy waits for another copy than the primary's, or asks a person if none is being made.
func (v *view) onlyCopy(h, why string) *Decision {
	if name := v.find(func(name string, p State) bool { return name != h && (p.Data == Empty || p.Data == Partial) }); name != "" {
		return wait(why + "; waits for " + name + " to have a copy first")
	}
	return v.askPerson(why + "; it is not recloned, as " + h + " has the only other copy")
}

// otherCopy returns an instance other than h that keeps a copy of the data; "" if there is none.
func (v *view) otherCopy(h string) string {
	return v.find(func(name string, p State) bool {
		return name != h && p.Data == Usable && p.Work == NoWork && v.kin(p.SystemID)
	})
}

func (v *view) askPerson(why string) *Decision {
	d := stuck(fmt.Sprintf("%s: save what is needed of its data, then annotate the PostgreSQL with fettle.dev/reclone=%s", why, v.Self.Name))
	d.NeedsReclone = true
	return d
}

// othersFirst returns which instance is being recloned, or comes before this one.
func (v *view) othersFirst() string {
	return v.find(func(name string, p State) bool {
		return p.Work == Cloning || p.Awaits && slices.Index(v.Instances, name) < slices.Index(v.Instances, v.Self.Name)
	})
}
