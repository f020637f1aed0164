package election

import (
	"slices"
	"time"
)

// view is one input while it is judged.
type view struct {
	Config
	in     Input
	lease  Lease
	server Server
	until  time.Duration
}

// Decide returns what to do next. It is total: each input has an answer.
func Decide(c Config, in Input) Decision {
	v := newView(c, in)
	for _, rule := range []func(*view) *Decision{
		// Safety first, then what keeps the Lease, then what takes its time.
		fence, harden, renew, ask, unfinished, end, block, hold, elect, follow,
	} {
		if d := rule(v); d != nil {
			d.Until, d.Label = v.until, v.label()
			return *d
		}
	}
	return Decision{Action: Wait{}, Reason: "nothing to do", Until: v.until, Label: v.label()}
}

func newView(c Config, in Input) *view {
	v := &view{Config: c, in: in, lease: in.Lease.Lease, server: in.Server, until: in.Now + c.Renew}
	switch held := v.held(); {
	case held && v.lease.unowned():
		v.lease = in.Holding.restored(v.lease.Version)
	case !held && v.lease.Remade: // it may be from before what another holder wrote
		l := v.lease
		v.lease = Lease{Version: l.Version, Holder: l.Holder, Released: l.Released, Remade: true, SystemID: l.SystemID, Instances: l.Instances}
	}
	// Whose object is older than that of the record's writer goes by the settings that are published: those that are in force. An agent of a release
	// before publishes no generation; then an object that the API server gave to this process is taken for as new.
	if n := len(v.lease.Sync); n > 0 && (c.Generation == 0 || c.Generation < v.lease.Generation) {
		v.Synchronous = v.lease.Sync[n-1].Number
	}
	if fence, kill, ok := Deadline(c, in); ok {
		v.wake(fence)
		v.wake(kill)
	}
	return v
}

func do(a Action, reason string) *Decision { return &Decision{Action: a, Reason: reason} }

func wait(reason string) *Decision { return &Decision{Action: Wait{}, Reason: reason} }

// stuck waits for a person.
func stuck(reason string) *Decision {
	return &Decision{Action: Wait{}, Reason: reason, Blocked: true}
}

// waitUntil waits, and has Decide called again at t.
func (v *view) waitUntil(t time.Duration, reason string) *Decision {
	v.wake(t)
	return wait(reason)
}

// wake has Decide called again at t.
func (v *view) wake(t time.Duration) {
	if t > v.in.Now {
		v.until = min(v.until, t)
	}
}

// absent says that there is no Lease: somebody deleted it.
func (v *view) absent() bool { return v.lease.Version == "" }

// mine says that the Lease, as last read, names this very pod.
func (v *view) mine() bool { return v.lease.Holder == v.Self }

// mayWrite says that PostgreSQL is read-write, or may be before anybody looks again.
func (s Server) mayWrite() bool { return s.Role == Primary && s.Process != Down }

// primary says that PostgreSQL is out of recovery and serves.
func (s Server) primary() bool { return s.Role == Primary && s.Process == Up }

// standby says that PostgreSQL is in recovery and can be promoted.
func (s Server) standby() bool { return s.Role == Standby && s.Process == Up }

// crashed says that PostgreSQL is down because it ended by itself.
func (s Server) crashed() bool { return s.Process == Down && s.Crashed > 0 && s.Crashed >= s.Since }

// yielded says that PostgreSQL receives nothing, and won't unless it is told to.
func (s Server) yielded() bool { return s.standby() && s.Upstream == "" && !s.Receiving }

// held says that this pod has the Lease for certain. (1, 2)
func (v *view) held() bool {
	if v.in.Holding.Confirmed.Sent == 0 || !v.mine() && !v.lease.unowned() {
		return false
	}
	if slices.ContainsFunc(possible(v.in.Holding), func(w Write) bool { return w.Lease.Holder != v.Self }) {
		return false // it may have been given back
	}
	at, bounded := secured(v.Config, v.in)
	return !bounded || v.in.Now < at+v.Fence
}

// free says that the Lease may be taken: it was released, or the same record was seen for its whole length without a promise. (3, 7)
func (v *view) free() bool {
	switch {
	case v.lease.Version == "" || v.mine():
		return false
	case v.lease.Released:
		return true
	}
	return v.in.Lease.Reachable() && v.in.Now >= v.freeAt()
}

func (v *view) freeAt() time.Duration {
	if v.lease.Released {
		return v.in.Lease.Since
	}
	return max(v.in.Lease.Since+v.Lease, v.in.Promised)
}

// holder is which other instance has the Lease: "" for none. A pod that this one has replaced can't be followed.
func (v *view) holder() string {
	if v.lease.Holder.Name == v.Self.Name || v.free() {
		return ""
	}
	return v.lease.Holder.Name
}

// promised says that a promise is in force. (7)
func (v *view) promised() bool { return v.in.Now < v.in.Promised }

// peer returns what a peer said; ok says that it answered a question sent at since or later.
func (v *view) peer(name string, since time.Duration) (State, bool) {
	a, ok := v.in.Peers[name]
	return a.State, ok && a.Sent > 0 && a.Sent >= since
}

// recent is since when an answer counts as what is.
func (v *view) recent() time.Duration { return v.in.Now - 3*v.Renew }

// find returns the first other instance that answered lately and that is says yes to; "" for none.
func (v *view) find(is func(name string, p State) bool) string {
	for _, name := range without(v.Instances, v.Self.Name) {
		if p, ok := v.peer(name, v.recent()); ok && is(name, p) {
			return name
		}
	}
	return ""
}

// kin says that a system identifier is the cluster's, as far as anybody knows it.
func (v *view) kin(systemID string) bool {
	return (v.SystemID == "" || v.SystemID == systemID) && (v.lease.SystemID == "" || v.lease.SystemID == systemID)
}

// successor says that a peer could take over: a standby that answers, and that the record lists, or it could not take it. (3, 4)
func (v *view) successor() bool {
	return slices.ContainsFunc(without(v.lease.Instances, v.Self.Name), func(name string) bool {
		p, ok := v.peer(name, v.recent())
		return ok && slices.Contains(v.Instances, name) && v.copyOf(p) && p.Process == Up && p.Role == Standby
	})
}

// copyOf says that a peer has data of this cluster.
func (v *view) copyOf(p State) bool {
	return p.Data == Usable && p.SystemID == v.server.SystemID
}

func (v *view) label() Label {
	switch {
	case v.server.primary() && v.held():
		return LabelPrimary
	case v.server.standby(), v.server.Process == Promoting:
		// While it is promoted it answers to those who read: Services take one change of endpoints sooner than two.
		return LabelReplica
	}
	return LabelNone
}
