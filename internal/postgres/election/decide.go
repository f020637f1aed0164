package election

import (
	"slices"
	"time"
)

// decider is one input while it is evaluated.
type decider struct {
	Config
	in     Input
	lease  Lease
	server Server
	until  time.Duration
}

// Decide returns what to do next. Every input has an answer.
func Decide(c Config, in Input) Decision {
	v := newDecider(c, in)
	for _, rule := range []func(*decider) *Decision{
		// Safety first, then the lease, then everything that takes time.
		fence, escalateStop, renewLease, requestPromises, waitForPending, shutdown, loadStandbySync, actAsHolder, campaign, actAsStandby,
	} {
		if d := rule(v); d != nil {
			d.Until, d.Label = v.until, v.label()
			return *d
		}
	}
	return Decision{Action: Wait{}, Code: CodeIdle, Reason: "nothing to do", Until: v.until, Label: v.label()}
}

func newDecider(c Config, in Input) *decider {
	v := &decider{Config: c, in: in, lease: in.Lease.Lease, server: in.Server, until: in.Now + c.RenewInterval}
	switch held := v.holdsLease(); {
	case held && v.lease.withoutHolder():
		v.lease = in.Tenure.lastRecordAt(v.lease.Version)
	case !held && v.lease.Recreated: // it may be older than a write of another holder
		l := v.lease
		v.lease = Lease{Version: l.Version, Holder: l.Holder, Released: l.Released, Recreated: true, SystemID: l.SystemID, Instances: l.Instances}
	}
	// If the object here is older than that of the record's writer, the published settings are in force. A record without a generation counts
	// as older than an object that this process read from the API server.
	if n := len(v.lease.Sync); n > 0 && (c.Generation == 0 || c.Generation < v.lease.Generation) {
		v.Synchronous = v.lease.Sync[n-1].Number
	}
	if fence, kill, ok := Deadline(c, in); ok {
		v.wake(fence)
		v.wake(kill)
	}
	return v
}

func do(a Action, code Code, reason string) *Decision {
	return &Decision{Action: a, Code: code, Reason: reason}
}

func wait(code Code, reason string) *Decision { return do(Wait{}, code, reason) }

// needsHuman waits for a person.
func needsHuman(code Code, reason string) *Decision {
	return &Decision{Action: Wait{}, Code: code, Reason: reason, ManualIntervention: true}
}

// waitUntil waits, and decides again at t at the latest.
func (v *decider) waitUntil(t time.Duration, code Code, reason string) *Decision {
	v.wake(t)
	return wait(code, reason)
}

// wake decides again at t at the latest.
func (v *decider) wake(t time.Duration) {
	if t > v.in.Now {
		v.until = min(v.until, t)
	}
}

// leaseAbsent reports that there is no Lease, because it was deleted.
func (v *decider) leaseAbsent() bool { return v.lease.Version == "" }

// recordNamesSelf reports that the Lease, as last read, names this pod.
func (v *decider) recordNamesSelf() bool { return v.lease.Holder == v.Self }

// mayWrite reports that PostgreSQL is read-write, or may be before the next decision.
func (s Server) mayWrite() bool { return s.Role == Primary && s.Process != Down }

// isPrimary reports that PostgreSQL is out of recovery and accepts connections.
func (s Server) isPrimary() bool { return s.Role == Primary && s.Process == Up }

// isStandby reports that PostgreSQL is in recovery and can be promoted.
func (s Server) isStandby() bool { return s.Role == Standby && s.Process == Up }

// hasCrashed reports that PostgreSQL is down because it exited unexpectedly.
func (s Server) hasCrashed() bool {
	return s.Process == Down && s.CrashedAt > 0 && s.CrashedAt >= s.ProcessSince
}

// walReceiverStopped reports that PostgreSQL receives nothing, and will not until an action changes that.
func (s Server) walReceiverStopped() bool { return s.isStandby() && s.Upstream == "" && !s.Receiving }

// holdsLease reports that this pod certainly holds the lease. (1, 2)
func (v *decider) holdsLease() bool {
	if v.in.Tenure.Confirmed.Sent == 0 || !v.recordNamesSelf() && !v.lease.withoutHolder() {
		return false
	}
	if slices.ContainsFunc(possibleRecords(v.in.Tenure), func(w Write) bool { return w.Lease.Holder != v.Self }) {
		return false // it may have been released
	}
	at, bounded := deadlineBase(v.Config, v.in)
	return !bounded || v.in.Now < at+v.FenceDeadline
}

// leaseAvailable reports that the lease can be taken: it was released, or the same record was seen for a whole lease duration
// without a promise. (3, 7)
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

// holder returns which other instance holds the lease; "" for none. A pod that this pod has replaced cannot be followed.
func (v *decider) holder() string {
	if v.lease.Holder.Name == v.Self.Name || v.leaseAvailable() {
		return ""
	}
	return v.lease.Holder.Name
}

// hasPromised reports that a promise is in force. (7)
func (v *decider) hasPromised() bool { return v.in.Now < v.in.PromisedUntil }

// peer returns the last answer of a peer; ok reports that it answered a request sent at since or later.
func (v *decider) peer(name string, since time.Duration) (State, bool) {
	a, ok := v.in.Peers[name]
	return a.State, ok && a.RequestedAt > 0 && a.RequestedAt >= since
}

// freshSince is when a request was sent at the earliest whose answer still counts as current.
func (v *decider) freshSince() time.Duration { return v.in.Now - 3*v.RenewInterval }

// findPeer returns the first other instance that answered recently and for which is returns true; "" for none.
func (v *decider) findPeer(is func(name string, p State) bool) string {
	for _, name := range without(v.Instances, v.Self.Name) {
		if p, ok := v.peer(name, v.freshSince()); ok && is(name, p) {
			return name
		}
	}
	return ""
}

// sameSystemID reports that a system identifier is the cluster's, as far as it is known.
func (v *decider) sameSystemID(systemID string) bool {
	return (v.SystemID == "" || v.SystemID == systemID) && (v.lease.SystemID == "" || v.lease.SystemID == systemID)
}

// hasSuccessor reports that a peer could take over: a standby that answers, and that the record lists. (3, 4)
func (v *decider) hasSuccessor() bool {
	return slices.ContainsFunc(without(v.lease.Instances, v.Self.Name), func(name string) bool {
		p, ok := v.peer(name, v.freshSince())
		return ok && slices.Contains(v.Instances, name) && v.hasCopy(p) && p.Process == Up && p.Role == Standby
	})
}

// hasCopy reports that a peer has data of this cluster.
func (v *decider) hasCopy(p State) bool {
	return p.Data == Usable && p.SystemID == v.server.SystemID
}

func (v *decider) label() Label {
	switch {
	case v.server.isPrimary() && v.holdsLease():
		return LabelPrimary
	case v.server.isStandby(), v.server.Process == Promoting:
		// It serves reads during its promotion: Services handle one change of endpoints faster than two.
		return LabelReplica
	}
	return LabelNone
}
