package election

import (
	"cmp"
	"slices"
	"time"
)

// follow is what an instance without the Lease does: be a standby of the holder. (1, 10)
func follow(v *view) *Decision {
	h, s := v.holder(), v.server
	switch {
	case s.Data == Empty || s.Data == Partial:
		return v.clone(h)
	case s.SystemID != "" && !v.kin(s.SystemID):
		return stuck("the data are of another cluster (system identifier " + s.SystemID + "): remove them, or their volume")
	case s.Data == Foreign:
		return stuck("the volume holds something else than data of this PostgreSQL and its version, and is left alone")
	case s.Data == Unfit:
		return v.reclone(h)
	case s.Process == Down:
		return v.join(h)
	}
	return v.stay(h)
}

// stay is what a standby that runs does. (10)
func (v *view) stay(h string) *Decision {
	switch {
	case v.left(h) && v.Paused:
		return stuck("has left the history of " + h + ", and the cluster is paused: nothing is rewound")
	case v.left(h) && v.withheld(h) != nil:
		return v.withheld(h)
	case v.left(h):
		return do(Stop{Mode: Fast}, "has left the history of "+h+": stops to be rewound")
	case h != "" && v.server.Upstream != h && v.in.Lease.Alive:
		return do(Follow{Upstream: h}, h+" has the Lease")
	case h == "":
		return wait("waits for a primary")
	case v.defect() != "":
		return v.reclone(h)
	}
	return wait("follows " + v.server.Upstream)
}

// left says that the log here has something that the primary's does not. (10)
func (v *view) left(h string) bool {
	return h != "" && v.lease.Primary == h && v.lease.diverged(v.server.Position)
}

// join starts as a standby; what was a primary, or has left the history, is rewound first. It follows only a holder that it has seen
// writing: it must confirm nothing to one that is lost, after it was counted among those that don't. (1, 9, 10)
func (v *view) join(h string) *Decision {
	s := v.server
	upstream := ""
	if v.in.Lease.Alive {
		upstream = h
	}
	switch {
	case v.noSpace():
		return v.full()
	case v.left(h):
		return v.rewind(h)
	case v.awaits() && v.othersFirst() == "":
		return v.reclone(h)
	case s.crashed() && v.in.Now < s.Since+v.backOff():
		return v.afterCrash(h)
	case s.Role == Standby:
		return do(StartStandby{Upstream: upstream}, "starts as a standby")
	case v.superseded() != "":
		return do(StartStandby{}, v.superseded())
	case h == "" || v.lease.Primary != h:
		return wait("was a primary: waits for the next one")
	case s.Clean:
		return do(StartStandby{Upstream: upstream}, "stopped before the fork: starts as a standby")
	}
	return v.rewind(h)
}

// backOff is how long a server that has crashed waits to start again: the longer the more often it has.
func (v *view) backOff() time.Duration {
	return min(v.Renew<<max(0, min(v.server.Failed, 16)-1), max(v.Calm, v.Renew))
}

// afterCrash waits to start again, and says what a person is to do if the data count as damaged.
func (v *view) afterCrash(h string) *Decision {
	v.wake(v.server.Since + v.backOff())
	if v.defect() != "" {
		return v.reclone(h)
	}
	return wait("waits to start again after a crash")
}

// superseded says why what was a primary starts as a standby that can be elected, as another may have led since; "" if not.
func (v *view) superseded() string {
	switch {
	case v.free() && v.lease.Primary != "" && !v.lastPrimary():
		return "was a primary before the last one: starts as a standby that can be elected"
	case v.unread():
		return "was a primary, and nobody knows who was the last one: starts as a standby, to be compared with the others"
	}
	return ""
}

// unread says that this was a primary, and that nobody can take the Lease, of which the record was lost, without knowing what
// its log has. Only a standby that runs and receives nothing tells that: it has read its log to the end. (9)
func (v *view) unread() bool {
	s := v.server
	unknown := v.forgotten() || v.lease.Primary == "" && len(v.lease.Sync) > 0 // one that took such a Lease was lost before it was a primary
	return v.free() && unknown && v.in.Now >= v.freeAt()+v.Patience && s.Process == Down && s.Role == Primary &&
		v.candidate() && v.outvoted() != ""
}

// rewind goes back to where the primary's history was left. Where a person accepted a loss, the data are kept beside a copy. (10, 13)
func (v *view) rewind(h string) *Decision {
	switch {
	case v.Paused:
		return stuck("has left the history of " + h + ", and the cluster is paused: nothing is rewound")
	case !v.serves(h):
		return wait("waits for " + h + " to serve, to rewind to it")
	case v.withheld(h) != nil:
		return v.withheld(h)
	}
	if bytes, known := v.surplus(); !v.confirmed() && (!known || bytes > v.MaximumLag || v.server.Role == Primary && !v.server.Exact) {
		return do(PutAside{Source: v.source(h)}, "has left the history of "+h+", and a person accepts the loss")
	}
	return do(Rewind{Source: h}, "has left the history of "+h)
}

// serves says that h answers as a primary.
func (v *view) serves(h string) bool {
	p, ok := v.peer(h, v.recent())
	return h != "" && ok && p.Writable && v.kin(p.SystemID)
}

func (v *view) clone(h string) *Decision {
	if !v.serves(h) {
		return wait("has no data: waits for a primary to copy")
	}
	if due := v.server.Since + v.Step; v.in.Now < due && v.unheard() {
		return v.waitUntil(due, "has no data: waits for the others to answer, as one of them may be copied instead of "+h)
	}
	return do(Clone{Source: v.source(h)}, "has no data")
}

func (v *view) unheard() bool {
	return slices.ContainsFunc(without(v.Instances, v.Self.Name), func(name string) bool {
		_, ok := v.peer(name, v.recent())
		return !ok
	})
}

// source returns whom to copy: a standby that follows h, or h. One that is counted among those which confirmed commits
// copies the primary: a standby may lack what only the lost data had confirmed. (9)
func (v *view) source(h string) string {
	if slices.ContainsFunc(v.lease.Sync, func(q Quorum) bool { return slices.Contains(q.Names, v.Self.Name) }) {
		return h
	}
	return cmp.Or(v.find(func(name string, p State) bool { return name != h && v.follows(p, h) }), h)
}

// follows says that p is a standby of h that has reached h's timeline, and can go on: a healthy copy.
func (v *view) follows(p State, h string) bool {
	primary, _ := v.peer(h, v.recent())
	return p.Data == Usable && p.Process == Up && p.Role == Standby && p.Upstream == h && v.kin(p.SystemID) &&
		p.Position.Timeline == v.lease.End.Timeline && !p.Severed && p.Position.LSN >= primary.Oldest
}
