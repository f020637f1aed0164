package election

import "time"

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
//     a time, and never where the primary has the only other copy unless a person asks for it. A standby that is severed
//     too is no such copy.
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
	return v.severed() && !v.Paused && (v.RecloneAsked || v.AutoReclone && v.replica(v.holder()) != "")
}

// anew is what a severed standby does that runs: it ends to be made anew, if it may be.
func (v *view) anew(h string) *Decision {
	d := v.reclone(h)
	if _, ok := d.Action.(Reclone); ok {
		return do(Stop{Mode: Fast}, d.Reason+": stops to be made anew")
	}
	return d
}
