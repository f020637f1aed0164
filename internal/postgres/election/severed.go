package election

import (
	"slices"
	"time"
)

// A standby that was away for long may come back to a primary that has removed the log which it needs next: its slot was
// given up for want of space (max_slot_wal_keep_size), or is gone. It would ask for that log for ever. What holds then:
//
//   - It is noticed by what both know: the primary says where its log begins, the standby where its own ends. A primary
//     never gets back what it has removed, and a standby gets no further without it, so what was true of both at one time
//     stays true. No message of PostgreSQL's is read, and no slot, which may have been made anew meanwhile.
//   - Neither an answer that is old nor a position that is can make it look so: it counts once the standby was found not to
//     have moved for [Timing.Patience] since. What was on its way, or is on its disk and not yet read, has arrived by then.
//   - The data are whole. The standby goes on to run, can be read, and can be elected, until it may be made anew.
//   - It is made anew by the same rules as data that can't be rewound, see reclone: never where no primary serves, one at
//     a time, and never where the primary has the only other copy unless a person asks for it.
//   - Of several that are severed, all are the beginning of the same log. One that has more, or as much and a higher
//     number, is another copy of all that one has which has less; it is none the other way round. So the last in this order
//     is not removed while there is no healthy one, and with it stays all that would be left if the primary were lost. No
//     two can begin at once, see keeper.
//   - A new primary that still has the log ends it.

// Severed returns what Server.Severed becomes. The loop calls it before each decision, and clears Server.Severed when the
// standby has received or replayed more.
func Severed(c Config, in Input) time.Duration {
	switch v := newView(c, in); {
	case !v.lacks():
		return 0
	case in.Server.Severed > 0:
		return in.Server.Severed
	}
	return in.Now
}

// lacks says that the primary has removed what this standby needs next, as far as both are known.
func (v *view) lacks() bool {
	s, h := v.server, v.holder()
	if s.Role != Standby || s.Data != Usable || !s.Exact || s.Process != Down && (s.Process != Up || s.Upstream != h) {
		return false
	}
	p, _ := v.peer(h, v.recent())
	return v.serves(h) && v.lease.Primary == h && !v.left(h) && s.Position.LSN < p.Oldest
}

// severed says that it is certain. Of a server that is down the log has an end that is known.
func (v *view) severed() bool {
	s := v.server
	switch {
	case s.Severed == 0 || !v.lacks():
		return false
	case s.Process == Down:
		return true
	}
	v.wake(s.Severed + v.Patience)
	return s.Looked >= s.Severed+v.Patience
}

// awaits says that this instance is to be made anew, and only waits for its turn.
func (v *view) awaits() bool {
	return v.severed() && !v.Paused && (v.RecloneAsked || v.AutoReclone && v.lastCopy(v.holder(), "") == nil)
}

// lastCopy is what to do instead of removing the data here, where no other instance but the primary keeps a copy of what they
// have; nil if one does, or a person asked for it. (10)
func (v *view) lastCopy(h, why string) *Decision {
	if v.RecloneAsked || v.replica(h) != "" {
		return nil
	}
	switch keeper, sure := v.keeper(h); {
	case sure:
		return nil
	case keeper != "":
		return wait("waits for " + keeper + " to say that it keeps its copy meanwhile")
	}
	if d := v.copySoon(h); d != nil {
		return d
	}
	return stuck("can't follow the primary, " + why + ", and is not made anew, as " + h + " has the only other copy: " + v.howToAsk())
}

// copySoon waits for another instance that is about to have a copy, or to be known to keep one; nil if there is none.
func (v *view) copySoon(h string) *Decision {
	for _, name := range without(v.Instances, v.Self.Name, h) {
		p, ok := v.peer(name, v.recent())
		switch {
		case !ok:
		case p.Data == Empty || p.Data == Partial:
			return wait("waits for " + name + " to have a copy first")
		case v.server.Data != Usable:
		case v.severedToo(p, h):
			return wait("waits for " + name + ", which has less, to be made anew first")
		case p.Exact && v.severedToo(found(p), h):
			return wait("waits to know whether " + name + " can follow the primary")
		}
	}
	return nil
}

// keeper returns a severed standby that runs and is later in the order than this one, which is severed for certain; "" if there
// is none. It is sure to keep its data while those here are removed, if it said that it runs when this one had been down, or
// severed, for so long that nobody has an answer any more of a time before. So none of two can begin while the other one does:
// each of them would have to have heard, after it was down for that long itself, that the other one runs. (10)
func (v *view) keeper(h string) (name string, sure bool) {
	s := v.server
	if !v.severed() {
		return "", false
	}
	for _, other := range without(v.Instances, v.Self.Name, h) {
		p, ok := v.peer(other, v.recent())
		if !ok || !v.severedToo(p, h) || !v.keeps(other, p) {
			continue
		}
		name, sure = other, v.in.Peers[other].Sent >= max(s.Severed, s.Since)+v.Patience+3*v.Renew
		if sure {
			break
		}
	}
	return name, sure
}

// holdsStill says that this standby, which is down, is about to be made anew, and waits for the word of the one that keeps a
// copy meanwhile.
func (v *view) holdsStill(h string) bool {
	keeper, sure := v.keeper(h)
	return keeper != "" && !sure && !v.Paused && v.AutoReclone && v.othersFirst() == ""
}

// severedToo says that p is a standby of h that is severed, and runs.
func (v *view) severedToo(p State, h string) bool {
	return p.Severed && p.Data == Usable && p.Process == Up && p.Role == Standby && p.Upstream == h && v.kin(p.SystemID)
}

// found is p as it will be when it is found to be severed.
func found(p State) State {
	p.Severed = true
	return p
}

// keeps says that of two severed standbys, the other one is later in the order in which they are removed.
func (v *view) keeps(name string, p State) bool {
	order := p.Position.Compare(v.server.Position)
	return order > 0 || order == 0 && slices.Index(v.Instances, name) > slices.Index(v.Instances, v.Self.Name)
}

// anew is what a severed standby does that runs: it ends to be made anew, if it may be.
func (v *view) anew(h string) *Decision {
	d := v.reclone(h)
	if _, ok := d.Action.(Reclone); ok {
		return do(Stop{Mode: Fast}, d.Reason+": stops to be made anew")
	}
	return d
}
