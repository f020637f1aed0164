package election

import (
	"slices"
	"time"
)

// decider is one input while it is judged.
type decider struct {
	Config
	in     Input
	lease  Lease
	server Server
	until  time.Duration
}

// Decide returns what to do next. It is total: each input has an answer.
func Decide(c Config, in Input) Decision {
	v := newDecider(c, in)
	for _, rule := range []func(*decider) *Decision{
		// Safety first, then what keeps the Lease, then what takes its time.
		fence, escalateStop, renewLease, requestPromises, waitForPending, shutdown, loadStandbySync, actAsHolder, campaign, actAsStandby,
	} {
		if d := rule(v); d != nil {
			d.Until, d.Label = v.until, v.label()
			return *d
		}
	}
	return Decision{Action: Wait{}, Reason: "nothing to do", Until: v.until, Label: v.label()}
}

func newDecider(c Config, in Input) *decider {
	v := &decider{Config: c, in: in, lease: in.Lease.Lease, server: in.Server, until: in.Now + c.RenewInterval}
	switch held := v.holdsLease(); {
	case held && v.lease.withoutHolder():
		v.lease = in.Tenure.lastRecordAt(v.lease.Version)
	case !held && v.lease.Recreated: // it may be from before what another holder wrote
		l := v.lease
		v.lease = Lease{Version: l.Version, Holder: l.Holder, Released: l.Released, Recreated: true, SystemID: l.SystemID, Instances: l.Instances}
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

// needsHuman waits for a person.
func needsHuman(reason string) *Decision {
	return &Decision{Action: Wait{}, Reason: reason, ManualIntervention: true}
}

// waitUntil waits, and has Decide called again at t.
func (v *decider) waitUntil(t time.Duration, reason string) *Decision {
	v.wake(t)
	return wait(reason)
}

// wake has Decide called again at t.
func (v *decider) wake(t time.Duration) {
	if t > v.in.Now {
		v.until = min(v.until, t)
	}
}

// leaseAbsent says that there is no Lease: somebody deleted it.
func (v *decider) leaseAbsent() bool { return v.lease.Version == "" }

// recordNamesSelf says that the Lease, as last read, names this very pod.
func (v *decider) recordNamesSelf() bool { return v.lease.Holder == v.Self }

// mayWrite says that PostgreSQL is read-write, or may be before anybody looks again.
func (s Server) mayWrite() bool { return s.Role == Primary && s.Process != Down }

// isPrimary says that PostgreSQL is out of recovery and serves.
func (s Server) isPrimary() bool { return s.Role == Primary && s.Process == Up }

// isStandby says that PostgreSQL is in recovery and can be promoted.
func (s Server) isStandby() bool { return s.Role == Standby && s.Process == Up }

// hasCrashed says that PostgreSQL is down because it ended by itself.
func (s Server) hasCrashed() bool {
	return s.Process == Down && s.CrashedAt > 0 && s.CrashedAt >= s.ProcessSince
}

// walReceiverStopped says that PostgreSQL receives nothing, and won't unless it is told to.
func (s Server) walReceiverStopped() bool { return s.isStandby() && s.Upstream == "" && !s.Receiving }

// holdsLease says that this pod has the Lease for certain. (1, 2)
func (v *decider) holdsLease() bool {
	if v.in.Tenure.Confirmed.Sent == 0 || !v.recordNamesSelf() && !v.lease.withoutHolder() {
		return false
	}
	if slices.ContainsFunc(possibleRecords(v.in.Tenure), func(w Write) bool { return w.Lease.Holder != v.Self }) {
		return false // it may have been given back
	}
	at, bounded := deadlineBase(v.Config, v.in)
	return !bounded || v.in.Now < at+v.FenceDeadline
}

// leaseAvailable says that the Lease may be taken: it was released, or the same record was seen for its whole length without a promise. (3, 7)
func (v *decider) leaseAvailable() bool {
	switch {
	case v.lease.Version == "" || v.recordNamesSelf():
		return false
	case v.lease.Released:
		return true
	}
	return v.in.Lease.Reachable() && v.in.Now >= v.leaseAvailableAt()
}

func (v *decider) leaseAvailableAt() time.Duration {
	if v.lease.Released {
		return v.in.Lease.UnchangedSince
	}
	return max(v.in.Lease.UnchangedSince+v.LeaseDuration, v.in.PromisedUntil)
}

// holder is which other instance has the Lease: "" for none. A pod that this one has replaced can't be followed.
func (v *decider) holder() string {
	if v.lease.Holder.Name == v.Self.Name || v.leaseAvailable() {
		return ""
	}
	return v.lease.Holder.Name
}

// hasPromised says that a promise is in force. (7)
func (v *decider) hasPromised() bool { return v.in.Now < v.in.PromisedUntil }

// peer returns what a peer said; ok says that it answered a question sent at since or later.
func (v *decider) peer(name string, since time.Duration) (State, bool) {
	a, ok := v.in.Peers[name]
	return a.State, ok && a.RequestedAt > 0 && a.RequestedAt >= since
}

// freshSince is since when an answer counts as what is.
func (v *decider) freshSince() time.Duration { return v.in.Now - 3*v.RenewInterval }

// findPeer returns the first other instance that answered lately and that is says yes to; "" for none.
func (v *decider) findPeer(is func(name string, p State) bool) string {
	for _, name := range without(v.Instances, v.Self.Name) {
		if p, ok := v.peer(name, v.freshSince()); ok && is(name, p) {
			return name
		}
	}
	return ""
}

// sameSystemID says that a system identifier is the cluster's, as far as anybody knows it.
func (v *decider) sameSystemID(systemID string) bool {
	return (v.SystemID == "" || v.SystemID == systemID) && (v.lease.SystemID == "" || v.lease.SystemID == systemID)
}

// hasSuccessor says that a peer could take over: a standby that answers, and that the record lists, or it could not take it. (3, 4)
func (v *decider) hasSuccessor() bool {
	return slices.ContainsFunc(without(v.lease.Instances, v.Self.Name), func(name string) bool {
		p, ok := v.peer(name, v.freshSince())
		return ok && slices.Contains(v.Instances, name) && v.hasCopy(p) && p.Process == Up && p.Role == Standby
	})
}

// hasCopy says that a peer has data of this cluster.
func (v *decider) hasCopy(p State) bool {
	return p.Data == Usable && p.SystemID == v.server.SystemID
}

func (v *decider) label() Label {
	switch {
	case v.server.isPrimary() && v.holdsLease():
		return LabelPrimary
	case v.server.isStandby(), v.server.Process == Promoting:
		// While it is promoted it answers to those who read: Services take one change of endpoints sooner than two.
		return LabelReplica
	}
	return LabelNone
}
