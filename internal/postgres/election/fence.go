package election

import (
	"slices"
	"time"
)

// deadlineBase returns the instant that the deadline counts from: when the last successful renewal was sent, or the last request
// for a promise that every peer granted. bounded is false while the Lease lists no instance that could take it. (2, 7)
func deadlineBase(c Config, in Input) (at time.Duration, bounded bool) {
	h := in.Tenure
	var peers []string
	for _, w := range possibleRecords(h) {
		others := without(w.Lease.Instances, c.Self.Name)
		if len(others) > 0 && (!bounded || w.Sent < at) {
			at, bounded = w.Sent, true
		}
		peers = append(peers, others...)
	}
	if c.Failsafe && bounded {
		at = max(at, oldestPromise(h, peers))
	}
	return at, bounded
}

// possibleRecords returns the writes that may be the record that peers see. A write without an answer counts.
func possibleRecords(h Tenure) []Write {
	out := append([]Write{h.Confirmed}, h.Indeterminate...)
	if h.Pending != nil {
		out = append(out, *h.Pending)
	}
	return out
}

// oldestPromise returns the oldest of the peers' last granted requests; 0 unless each peer granted one.
func oldestPromise(h Tenure, peers []string) time.Duration {
	var oldest time.Duration
	for i, p := range peers {
		sent := h.Promises[p]
		if sent == 0 {
			return 0
		}
		if i == 0 || sent < oldest {
			oldest = sent
		}
	}
	return oldest
}

func without(names []string, these ...string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(n string) bool { return slices.Contains(these, n) })
}

// Deadline returns when the holder must have stopped PostgreSQL, and when it must kill the remaining processes. ok is false if
// there is no deadline. A watchdog beside the loop enforces both.
func Deadline(c Config, in Input) (fence, kill time.Duration, ok bool) {
	at, bounded := deadlineBase(c, in)
	switch {
	case !in.Server.mayWrite() || !bounded && in.Tenure.Confirmed.Sent > 0:
		return 0, 0, false
	case in.Tenure.Confirmed.Sent == 0:
		return in.Now, in.Now + c.KillGrace, true
	}
	return at + c.FenceDeadline, at + c.FenceDeadline + c.KillGrace, true
}

// fence immediately stops a PostgreSQL that may be read-write without the lease. (1, 2)
func fence(v *decider) *Decision {
	if !v.server.mayWrite() || v.holdsLease() {
		return nil
	}
	mode := Immediate
	if _, kill, ok := Deadline(v.Config, v.in); ok && v.in.Now >= kill || v.stopTimedOut(Immediate, v.KillGrace) {
		mode = Kill
	}
	if v.server.StopMode >= mode {
		return wait(CodeWaitingForExit, "waiting for PostgreSQL to exit")
	}
	if !v.recordNamesSelf() {
		return do(Stop{Mode: mode}, CodeLeaseLost, "lease is no longer held: stopping PostgreSQL")
	}
	return do(Stop{Mode: mode}, CodeLeaseNotRenewed, "lease was not renewed in time: stopping PostgreSQL")
}

func (v *decider) stopTimedOut(mode StopMode, d time.Duration) bool {
	if v.server.Process != Stopping || v.server.StopMode != mode {
		return false
	}
	v.wake(v.server.ProcessSince + d)
	return v.in.Now >= v.server.ProcessSince+d
}

// escalateStop makes a stop that lasts too long harder. (8)
func escalateStop(v *decider) *Decision {
	switch {
	case v.stopTimedOut(Fast, v.StopTimeout):
		return do(Stop{Mode: Immediate}, CodeFastStopTimedOut, "fast stop took too long: stopping immediately")
	case v.stopTimedOut(Immediate, v.KillGrace):
		return do(Stop{Mode: Kill}, CodeImmediateStopTimedOut, "immediate stop took too long: killing PostgreSQL")
	}
	return nil
}

// renewLease writes the lease while PostgreSQL is alive, or to publish what other instances rely on. (2, 4)
func renewLease(v *decider) *Decision {
	h := v.in.Tenure
	if !v.holdsLease() || h.Pending != nil || v.server.Process == Down && v.in.ShuttingDown || !v.makesProgress() {
		return nil
	}
	next, urgent := v.renewalRecord()
	due := h.Confirmed.Sent + v.RenewInterval
	if h.TriedAt > h.Confirmed.Sent {
		urgent, due = true, h.TriedAt+v.RenewInterval/4
	}
	switch {
	case v.in.Now >= due:
		return do(Renew{Lease: next}, CodeRenewingLease, "renewing the lease")
	case urgent && h.TriedAt == h.Confirmed.Sent:
		return do(Renew{Lease: next}, CodePublishingRecord, "publishing changes in the lease")
	}
	v.wake(due)
	return nil
}

// makesProgress reports that PostgreSQL answers, or is within the time that starting and stopping may take. On a full disk, or
// without a successor, a silent primary keeps the lease: another instance could not do better, and a crash would not help. (4,
// 12)
func (v *decider) makesProgress() bool {
	s := v.server
	switch {
	case s.FullDisk:
		return true
	case s.Process == Stopping:
		return v.in.Now-s.ProcessSince <= v.StopTimeout
	case s.isPrimary():
		return v.in.Now-max(s.HeartbeatAt, s.ProcessSince) <= v.HeartbeatTimeout || !v.hasSuccessor()
	}
	return v.in.Now-max(s.ProcessSince, s.RecoveryAdvancedAt, v.in.Tenure.AcquiredAt) <= v.StartTimeout || !v.hasSuccessor()
}

// Unresponsive reports that a primary has not answered for longer than a heartbeat and a stop may take, or that a starting or
// promoting primary has made no progress for too long: its disk hangs, or it was suspended. The loop calls it when it carries out
// an order to stop, and when the server exits without one, and records the result in Server.UnresponsiveAt.
func Unresponsive(c Config, in Input) bool {
	s := in.Server
	switch {
	case s.FullDisk || s.Role != Primary:
		return false
	case s.Process == Starting, s.Process == Promoting:
		return in.Now-max(s.ProcessSince, s.RecoveryAdvancedAt) > c.StartTimeout
	}
	return s.Process == Up && in.Now-max(s.HeartbeatAt, s.ProcessSince) > c.HeartbeatTimeout+c.KillGrace
}

// recentlyUnresponsive reports that PostgreSQL was unresponsive here and has not run for long since. Its disk may hang again, so
// another candidate with the same WAL is preferred. A standby with a hanging disk falls behind, which already ranks it last. (4,
// 6)
func (v *decider) recentlyUnresponsive() bool {
	s := v.server
	return s.UnresponsiveAt > 0 && (s.Process != Up || v.in.Now-max(s.ProcessSince, s.UnresponsiveAt) < v.ProbationPeriod)
}

// leaseWritable reports that the API server accepts writes of the Lease: it answered last, and no write is without an answer.
func (v *decider) leaseWritable() bool {
	return v.in.Lease.Reachable() && len(v.in.Tenure.Indeterminate) == 0
}

// requestPromises asks the peers for a promise while the lease cannot be renewed. (7)
func requestPromises(v *decider) *Decision {
	h := v.in.Tenure
	if !v.Failsafe || !v.holdsLease() || !v.server.mayWrite() || v.leaseWritable() || v.in.RequestingPromises || !v.makesProgress() {
		return nil
	}
	var peers []string
	for _, w := range possibleRecords(h) {
		peers = append(peers, without(w.Lease.Instances, v.Self.Name)...)
	}
	slices.Sort(peers)
	if peers = slices.Compact(peers); len(peers) == 0 {
		return nil
	}
	if due := h.PromisesRequestedAt + v.RenewInterval/2; v.in.Now < due && h.PromisesRequestedAt > 0 {
		v.wake(due)
		return nil
	}
	return do(RequestPromises{Peers: peers}, CodeRequestingPromises, "cannot renew the lease: requesting promises from peers")
}
