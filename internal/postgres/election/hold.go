package election

func unfinished(v *view) *Decision {
	switch {
	case v.server.Work != NoWork && !v.in.Stop && !v.Fenced && !v.Hibernated:
		return wait("waits for " + string(v.server.Work))
	case v.astray():
		return do(Stop{Mode: Fast}, "may lack some of the log that it needs to start: starts anew, to follow "+v.holder())
	case v.server.Process == Starting && !v.in.Stop && v.defect() != "":
		return v.reclone(v.holder())
	case v.server.Process == Stopping, v.server.Process == Promoting, v.server.Process == Starting && !v.in.Stop:
		return wait("waits: PostgreSQL is " + string(v.server.Process))
	}
	return nil
}

// astray says that a standby that has been starting for a while follows somebody else than the holder. It may need some of
// the log before it is consistent, as after a rewind, which nobody else sends. (10)
func (v *view) astray() bool {
	s, h := v.server, v.holder()
	if v.in.Stop || s.Process != Starting || s.Role != Standby || h == "" || s.Upstream == h || !v.in.Lease.Alive {
		return false
	}
	v.wake(s.Since + v.Renew)
	return v.in.Now >= s.Since+v.Renew
}

// end stops PostgreSQL where it shall not run, and only then gives the Lease back. (5)
func end(v *view) *Decision {
	why := v.ending()
	switch {
	case why == "":
		return nil
	case v.server.Process != Down && why == hibernated:
		return v.planned(why)
	case v.server.Process != Down:
		return do(Stop{Mode: Fast}, why)
	case v.in.Holding.Pending != nil && v.mine():
		return wait("waits for a write of the Lease")
	case v.mine() && !v.outdated() && (v.held() || !v.lease.Remade):
		return v.release(why)
	case v.in.Stop:
		return do(Exit{}, why)
	}
	return wait(why)
}

// hibernated is why all instances stop.
const hibernated = "the cluster is hibernated"

// ending says why PostgreSQL shall not run here; "" while it may. On hibernation the primary stops once no other would take over, and a
// standby when nobody has the Lease any more.
func (v *view) ending() string {
	switch {
	case v.in.Stop:
		return "the agent was told to end"
	case v.Fenced:
		return "this instance is fenced"
	case !v.Hibernated, v.server.standby() && v.holder() != "", v.server.primary() && v.contested():
		return ""
	}
	return hibernated
}

// contested says that another instance would take the Lease if it were free.
func (v *view) contested() bool {
	return v.find(func(_ string, p State) bool { return p.Candidate && p.API }) != ""
}

// outdated says that the Lease is free to the others by now whether it is released or not.
func (v *view) outdated() bool {
	at, bounded := secured(v.Config, v.in)
	return v.in.Stop && !v.in.Lease.Reachable() && bounded && v.in.Now > at+2*v.Lease
}

// release gives the Lease back, a moment after the last try. PostgreSQL is down. Of a record that was lost it stays known
// that it was. (5)
func (v *view) release(why string) *Decision {
	h := v.in.Holding
	if due := h.TriedAt + v.Renew/4; !v.in.Lease.Reachable() && v.in.Now < due {
		return v.waitUntil(due, "waits to release the Lease: "+why)
	}
	l := v.lease
	l.Holder, l.Released, l.Remade, l.Preferred = Holder{}, true, v.lease.Remade && v.forgotten(), ""
	if v.SwitchoverTarget != v.Self.Name && !v.distrusted() {
		l.Preferred = v.SwitchoverTarget
	}
	if l.Primary == v.Self.Name && v.server.Role == Primary && v.server.Clean {
		l.End, l.Whole = v.server.Position, true
	}
	return do(Release{Lease: l}, "releases the Lease: "+why)
}

func hold(v *view) *Decision {
	s := v.server
	switch {
	case v.in.Holding.Pending != nil && !s.mayWrite() && !v.renewing():
		return wait("waits for a write of the Lease")
	case !v.held():
		return v.takeBack()
	case s.primary():
		return v.lead()
	case v.absent():
		return wait("waits for the Lease, which somebody deleted")
	case s.Process == Up:
		return v.promote()
	case s.Data == Usable:
		return v.start()
	case v.blank() && v.Self.Name == v.Instances[0]:
		return do(InitDB{}, "makes a new cluster")
	}
	return v.release("this instance has no data that can be started")
}

// renewing says that the write under way only renews a Lease that is held without it. Starting need not wait for its
// answer: while the API server is away, one such write follows the other. (7)
func (v *view) renewing() bool {
	return v.held() && v.in.Holding.Pending.Lease.Holder == v.Self && v.server.Process == Down && v.server.Data == Usable
}

// takeBack writes a Lease that names this very pod again: its process before this one is dead, or was fenced. No quorum is asked for: the
// record has named this pod ever since, so nobody else can have led. Only of a record that may have come late that is not known: it is
// given away, and not before it was observed. One that did not answer has lost it. (3, 4, 9)
func (v *view) takeBack() *Decision {
	switch {
	case !v.mine():
		return nil
	case v.lease.Remade && (v.in.Now < v.freeAt() || !v.in.Lease.Reachable()):
		return v.waitUntil(v.freeAt(), "waits: it may have made the Lease again too late")
	case v.lease.Remade:
		return v.release("it may have made the Lease again too late, and another may have led since")
	case v.hung():
		return v.release("PostgreSQL did not answer")
	case v.promised():
		return v.waitUntil(v.in.Promised, "waits: it was promised not to take the Lease")
	}
	if due := v.in.Holding.TriedAt + v.Renew/4; !v.in.Lease.Reachable() && v.in.Now < due {
		return v.waitUntil(due, "waits to take the Lease back")
	}
	return do(Acquire{Lease: v.claim()}, "takes its own Lease back")
}

// hung says that PostgreSQL was ended because it did not answer, and that this process has not taken the Lease since.
func (v *view) hung() bool {
	s, taken := v.server, v.in.Holding.Confirmed.Sent
	return s.Process == Down && !s.FullDisk && taken > 0 && s.StoodStill > taken && s.Crashed < s.Since
}

// start starts the holder's PostgreSQL: read-write if it was the primary and nobody has claimed a later timeline since,
// else as a standby to be promoted; so a higher timeline always is the later one. (1, 5)
func (v *view) start() *Decision {
	s := v.server
	switch {
	case v.promised():
		return v.waitUntil(v.in.Promised, "waits: it was promised not to become the primary")
	case !v.kin(s.SystemID):
		return v.release("the data are of another cluster")
	case s.Role == Standby && s.Failed >= maxFailures && v.otherCopy("") != "":
		return v.release("PostgreSQL ended again and again before it could be promoted")
	case s.Role == Standby || v.lease.Timeline > s.Position.Timeline:
		return do(StartStandby{}, "starts to be promoted")
	case v.lease.Primary == "" || v.lease.SystemID == "":
		return wait("waits for the Lease to say that there is a primary")
	case v.noSpace():
		return v.full()
	}
	if v.in.Holding.From <= s.Since || s.FullDisk { // not if it was given away, and nobody else took it
		if d := v.giveAway(); d != nil {
			return d
		}
	}
	return do(StartPrimary{}, "starts as the primary")
}

// full waits for space. (12)
func (v *view) full() *Decision {
	return stuck("the volume of " + v.Self.Name + " is full: raise spec.storage, or make space on it; PostgreSQL will start again when there is space")
}

// noSpace says that a server which ended on a full volume is not tried again yet. It is now and then, as it may be read. (12)
func (v *view) noSpace() bool {
	s := v.server
	if !s.FullDisk || !s.crashed() || v.in.Now >= s.Since+v.Calm {
		return false
	}
	v.wake(s.Since + v.Calm)
	return true
}

// giveAway releases the Lease of a PostgreSQL that has just ended, where another instance shall have it: after a second
// crash, and for a switchover, unless the target lacks some of the log. (5, 12)
func (v *view) giveAway() *Decision {
	s := v.server
	again := s.crashed() && s.CrashedBefore > 0 && s.Crashed-s.CrashedBefore <= v.Calm
	switch {
	case again && !s.FullDisk && v.successor() && v.writable():
		return v.release("PostgreSQL crashed again")
	case again && v.in.Now < s.Since+v.Renew:
		return v.waitUntil(s.Since+v.Renew, "waits to start again after a crash")
	case !s.Clean || v.switchover() != nil:
		return nil
	}
	p, ok := v.peer(v.SwitchoverTarget, s.Since)
	switch {
	case ok && p.Position.Compare(s.Position) >= 0:
		return v.release("switches over to " + v.SwitchoverTarget)
	case v.in.Now < s.Since+v.Step:
		return v.waitUntil(s.Since+v.Step, "waits for "+v.SwitchoverTarget+" to say that it has all of the log")
	}
	return nil
}

// promote ends the recovery of the holder's standby, once it is certain to hold the Lease. (1, 4, 8)
func (v *view) promote() *Decision {
	switch {
	case !v.server.yielded():
		if v.server.Upstream == "" {
			return wait("waits for the WAL receiver to end")
		}
		return do(Follow{}, "ends the WAL receiver")
	case v.promised():
		return v.waitUntil(v.in.Promised, "waits: it was promised not to become the primary")
	case v.in.Now-v.in.Holding.Confirmed.Sent >= v.Renew || !v.mine() || !v.claimed():
		return wait("waits for a renewal of the Lease before promoting")
	}
	return do(Promote{After: v.lease.Timeline - 1}, "won the election")
}

// lead is what a primary that serves does.
func (v *view) lead() *Decision {
	if q, ok := v.nextSync(); ok {
		return do(SetSync{Quorum: q}, "changes the synchronous standbys")
	}
	if v.absent() {
		return wait("serves; the Lease is gone")
	}
	if why := v.switchover(); why == nil {
		return v.planned("switches over to " + v.SwitchoverTarget)
	} else if *why != "" {
		return wait("serves; no switchover: " + *why)
	}
	return wait("serves")
}
