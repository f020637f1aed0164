package election

import (
	"slices"
	"time"
)

// check checks the invariants of a state.
func (w *simulation) check() {
	w.noteMode()
	for i, n := range w.nodes {
		if !n.runs() || n.exempt || !n.pg.mayWrite() {
			continue
		}
		w.checkDeadline(n)
		for _, m := range w.nodes[i+1:] {
			if n.accepts() && m.accepts() && !m.exempt {
				w.violated("1: %s and %s accept writes", n.name, m.name)
			}
		}
	}
}

// checkDeadline: nothing is read-write after the deadline, on any clock. A frozen server is being stopped.
func (w *simulation) checkDeadline(n *instance) {
	limit := (w.timing.FenceDeadline + w.timing.KillGrace) * 21 / 20
	thawed := n.pg.StopMode >= Immediate && w.now < n.thawedAt+w.timing.KillGrace*21/20
	if since := w.now - w.secure(n); since > limit && !thawed && len(w.nodes) > 1 {
		w.violated("2: %s may write %s after its last renewal", n.name, since)
	}
}

// secure is the true time that n's deadline counts from.
func (w *simulation) secure(n *instance) time.Duration {
	oldest := w.now
	for _, p := range w.nodes {
		if p != n && slices.Contains(n.listed, p.name) {
			oldest = min(oldest, n.granted[p.id])
		}
	}
	return max(n.renewedAt, oldest)
}

// is primary checks a primary that is about to accept connections: in synchronous mode it has every confirmed row.
func (w *simulation) leads(n *instance) {
	if n.exempt { // what was frozen acknowledges nothing, see ack
		return
	}
	w.checkLoss(n)
	for op, by := range w.protected {
		if !n.has(op) {
			w.violated("9: %s is primary without row %d, acknowledged by %d", n.name, op, by)
			return
		}
	}
}

func (n *instance) has(op int) bool {
	return slices.ContainsFunc(n.pg.wal, func(e entry) bool { return e.op == op })
}

// ack checks a row that is confirmed.
func (w *simulation) ack(n *instance, op int) {
	w.acked[op] = n.id
	if w.record.Holder == n.config.Self && !n.exempt {
		w.line[op] = w.now
	}
	w.checkMode(n, op)
	w.logf("%s acknowledges %d", n.name, op)
	for _, m := range w.nodes {
		if m == n || !m.accepts() || m.exempt {
			continue
		}
		// A machine that was frozen may acknowledge for a moment, but not in synchronous mode.
		if n.pg.Sync != nil || !n.exempt {
			w.violated("9: %s acknowledges row %d while %s is primary", n.name, op, m.name)
		}
	}
}

// checkLead checks a PostgreSQL that is about to become read-write.
func (w *simulation) checkLead(n *instance) {
	if w.record.Holder != n.config.Self && w.record.Holder != (Holder{}) {
		w.violated("1: %s is primary while the lease is held by %s", n.name, w.record.Holder.Name)
	}
	if n.clock(w.now) < n.promised {
		w.violated("7: %s is primary during its promise", n.name)
	}
	if n.pg.Receiving {
		w.violated("8: %s is primary with a WAL receiver", n.name)
	}
}

// checkAcquire checks an agent that is about to take the lease.
func (w *simulation) checkAcquire(n *instance, l Lease) {
	if n.clock(w.now) < n.promised {
		w.violated("7: %s takes the Lease during its promise", n.name)
	}
	if n.pg.Receiving {
		w.violated("8: %s takes the Lease with a WAL receiver", n.name)
	}
	if n.pg.mayWrite() {
		w.violated("1: %s takes the Lease with a primary that runs", n.name)
	}
	w.checkRank(n, l)
}

// checkRank: the instance that has received most takes the lease. It has left a step to each candidate that it knows to have
// more.
func (w *simulation) checkRank(n *instance, l Lease) {
	if l.Version != w.record.Version || w.record.Holder == n.config.Self {
		return
	}
	w.takeovers++
	for _, m := range w.nodes {
		if m != n && slices.Contains(n.config.Instances, m.name) && w.couldLead(n, m) {
			w.checkOrder(n, m)
		}
	}
}

// couldLead reports that n has read recently that m is a candidate with all its WAL, and that m's time is not over.
func (w *simulation) couldLead(n, m *instance) bool {
	free := n.obs.UnchangedSince
	if !n.obs.Lease.Released {
		free = max(free+w.timing.LeaseDuration, n.promised)
	}
	a, c := n.peers[m.name], n.clock(w.now)
	if a.RequestedAt < max(free, c-w.timing.RenewInterval, second) || !a.State.Candidate || a.State.Position != m.pg.end() {
		return false
	}
	if m.pg.end() != n.pg.end() {
		w.ranked++
	}
	return c < min(a.RequestedAt+a.State.FirstIn, free+w.timing.LeaseDuration+w.timing.CatchUpWait)+w.timing.CandidateStagger*9/10
}

// checkOrder checks n that takes the lease where m could.
func (w *simulation) checkOrder(n, m *instance) {
	switch more := m.pg.end().Compare(n.pg.end()); {
	case more > 0:
		w.violated("6: %s takes the Lease at %v, %s is at %v", n.name, n.pg.end(), m.name, m.pg.end())
	case more == 0 && w.hasHung(n) && m.pg.UnresponsiveAt == 0 && (w.record.Preferred != n.name || !n.config.SwitchoverRequested):
		w.violated("6: %s, which was unresponsive, takes the Lease at %v, where %s is as well", n.name, n.pg.end(), m.name)
	}
}

// hasHung reports that n was unresponsive, and has not run for so long since that its agent may have ended its probation.
func (w *simulation) hasHung(n *instance) bool {
	d := &n.pg
	return d.UnresponsiveAt > 0 && (d.Process == Down || n.clock(w.now)-max(d.ProcessSince, d.UnresponsiveAt) < w.timing.ProbationPeriod-w.timing.LeaseDuration)
}

// checkSwitchover checks a primary that is about to stop for another instance.
func (w *simulation) checkSwitchover(n *instance) {
	w.checkPlanned(n)
	for _, m := range w.nodes {
		if m.name == n.config.SwitchoverTarget && w.hasHung(m) && !n.config.SwitchoverRequested {
			w.violated("6: %s gives way to %s, which was unresponsive, and no instance asks for that now", n.name, m.name)
		}
	}
}

// checkRelease checks an agent that is about to release the lease.
func (w *simulation) checkRelease(n *instance) {
	if n.pg.mayWrite() {
		w.violated("5: %s releases the Lease while PostgreSQL is %s", n.name, n.pg.Process)
	}
	if n.pg.FullDisk && !n.stop && n.config.SwitchoverTarget == "" {
		w.violated("12: %s gives up for a full disk", n.name)
	}
}

// checkTakeover checks a lease that changes its holder.
func (w *simulation) checkTakeover(f *flight) {
	from, to := w.record.Holder, f.lease.Holder
	n := w.nodes[f.by]
	if from == to || to == (Holder{}) || w.record.Version == "" || from == (Holder{}) && w.mayTake(n, f) {
		return
	}
	if len(w.record.Instances) > 0 && !slices.Contains(w.record.Instances, n.name) {
		w.violated("3: %s takes the Lease of %s, which lists only %v", n.name, from.Name, w.record.Instances)
	}
	if n.config.Self.UID != f.uid || n.seenVersion != w.record.Version {
		return // its process is gone, and nothing is known of what it saw
	}
	if f.clock-n.seenSince < w.timing.LeaseDuration && f.clock >= n.seenSince {
		w.violated("3: %s takes the Lease of %s after %s", n.name, from.Name, f.clock-n.seenSince)
	}
}

// mayTake reports that a record without a holder can be taken without observing it: it was released, or never had a holder. A
// re-created record can be taken at once only by its holder, which writes itself into it, and by an instance without data that it
// could serve.
func (w *simulation) mayTake(n *instance, f *flight) bool {
	if !w.anew {
		return w.record.Released || w.record.SystemID == ""
	}
	return w.record.Released || f.sent-w.secure(n) < w.timing.FenceDeadline*21/20 || n.pg.Data == Empty || n.pg.Data == Incomplete
}

// checkSync checks a setting that is about to be loaded.
func (w *simulation) checkSync(n *instance, q *Quorum) {
	if q != nil && q.satisfiable() && !slices.ContainsFunc(w.record.Sync, q.Equal) && w.record.Holder == n.config.Self {
		w.violated("9: %s loads %v, the Lease has %v", n.name, q.Names, w.record.Sync)
	}
}

// checkReclone checks data that is about to be removed. A copy that was lost a moment ago counts, because no instance can know of
// that yet. The agent keeps the old data until the new copy is complete.
func (w *simulation) checkReclone(n *instance) {
	damaged := n.pg.damaged || n.pg.wedged || n.pg.Failures >= maxFailures || n.config.RecloneRequested
	if n.pg.Data == Usable && n.pg.Role == Standby && w.couldFollow(n) && !damaged {
		w.violated("10: %s is re-created, and could follow", n.name)
	}
	copies := 0
	for _, m := range w.nodes {
		if m != n && (w.isCopy(m) || w.wasCopy(m)) {
			copies++
		}
	}
	if copies < 2 && !n.config.RecloneRequested {
		w.violated("10: %s removes the only other copy", n.name)
	}
}

func (w *simulation) isCopy(m *instance) bool { return m.pg.Data == Usable && m.pg.DataTask != Cloning }

// wasCopy reports that m lost its volume so recently that no instance may know.
func (w *simulation) wasCopy(m *instance) bool {
	return m.lostAt > 0 && w.now-m.lostAt <= 3*w.timing.RenewInterval*21/20
}

// couldFollow reports that a primary has all WAL that n needs.
func (w *simulation) couldFollow(n *instance) bool {
	p := w.leader()
	return p != nil && p != n && p.pg.has(len(n.pg.wal)) && prefix(n.pg.wal, p.pg.wal)
}

// leader is the primary that holds the lease; nil if there is none.
func (w *simulation) leader() *instance {
	for _, n := range w.nodes {
		if n.running && n.pg.isPrimary() && w.record.Holder == n.config.Self {
			return n
		}
	}
	return nil
}

// needsPerson reports that the cluster rightly has no primary until a person decides: no data is left, or the record was lost, or
// data is damaged, and so few instances have data that none can know that it has every confirmed row. Then each of them says what
// the person has to decide.
func (w *simulation) needsPerson() bool {
	data, told, damaged := 0, 0, 0
	for _, n := range w.nodes {
		switch {
		case n.pg.Data != Usable:
			continue
		case n.pg.damaged, n.pg.wedged:
			damaged++
			continue
		}
		data++
		if d := Decide(n.config, w.input(n)); d.ManualIntervention && d.Code == CodeSyncStandbysUnreadable {
			told++
		}
	}
	return data == 0 || w.sync > 0 && told == data && (damaged > 0 || w.lost() && data+w.sync+1 <= len(w.nodes))
}

// lost reports that the record was lost, and that no instance has taken the lease since.
func (w *simulation) lost() bool {
	return w.record.Recreated || w.record.Primary == "" && w.record.Timeline == 0 && !w.nodes[0].config.MayInitialize
}

// settled reports that one primary holds the lease and all other instances stream from it.
func (w *simulation) settled() bool {
	primary := w.leader()
	if primary == nil {
		return false
	}
	for _, n := range w.nodes {
		if n == primary {
			continue
		}
		if _, ok := w.confirms(primary, n); !ok || len(n.pg.wal) != len(primary.pg.wal) {
			return false
		}
	}
	if w.sync == 0 {
		return primary.pg.Sync == nil
	}
	return primary.pg.Sync != nil && primary.pg.Sync.Number == w.sync && len(primary.pg.Sync.Names) == len(w.nodes)-1 &&
		len(w.record.Sync) == 1
}
