package election

import (
	"slices"
	"time"
)

// fault is a failure, or an action of a person. do returns false if it is impossible now.
type fault struct {
	name  string
	often int
	do    func(w *simulation, n, m *instance) bool
}

// faults are all faults. A cut connection stays cut until it is repaired, by the next fault or at the end.
var faults = []fault{
	{"cut from the API server", 3, func(w *simulation, n, _ *instance) bool {
		cut := w.apiCut[n.id]
		w.apiCut[n.id] = true
		return !cut && !w.apiDown && n.running
	}},
	{"no API server", 2, func(w *simulation, _, _ *instance) bool { w.apiDown = !w.apiDown; return true }},
	{"API server is read-only", 2, func(w *simulation, _, _ *instance) bool { w.readOnly = !w.readOnly; return true }},
	{"isolated", 3, func(w *simulation, n, _ *instance) bool {
		changed := !w.apiCut[n.id]
		w.apiCut[n.id] = true
		for i := range w.nodes {
			changed = w.cutLink(n.id, i) || changed
		}
		return changed && n.running
	}},
	{"link cut", 2, func(w *simulation, n, m *instance) bool { return w.cutLink(n.id, m.id) && n.running && m.running }},
	{"network heals", 3, func(w *simulation, _, _ *instance) bool { return w.repair() }},
	{"answers get lost", 2, func(w *simulation, _, _ *instance) bool { w.flaky = !w.flaky; return true }},
	{"agent hangs", 2, func(w *simulation, n, _ *instance) bool {
		if !n.running || n.frozen() {
			return false
		}
		n.agentFrozen = true // the watchdog enforces the deadline
		n.wakeAt = w.now + time.Duration(w.choose(int(w.timing.LeaseDuration*3)))
		return true
	}},
	{"machine is frozen", 2, func(w *simulation, n, _ *instance) bool {
		if !n.running || n.frozen() {
			return false
		}
		n.nodeFrozen, n.exempt = true, true
		n.wakeAt = w.now + time.Duration(w.choose(int(w.timing.LeaseDuration*2)))
		return true
	}},
	{"PostgreSQL crashes", 4, func(w *simulation, n, _ *instance) bool {
		if !n.running || n.nodeFrozen || n.pg.Process == Down {
			return false
		}
		w.pgEnds(n, true)
		return true
	}},
	{"PostgreSQL hangs", 3, func(_ *simulation, n, _ *instance) bool {
		if !n.running || n.pg.Process == Down {
			return false
		}
		n.pg.hung = true
		return true
	}},
	{"container is killed", 3, func(w *simulation, n, _ *instance) bool {
		if !n.running {
			return false
		}
		w.killInstance(n, time.Duration(w.choose(3000))*time.Millisecond, false)
		return true
	}},
	{"node is lost", 3, func(w *simulation, n, _ *instance) bool {
		if !n.running {
			return false
		}
		w.killInstance(n, second+time.Duration(w.choose(20000))*time.Millisecond, true)
		return true
	}},
	{"volume is lost", 1, func(w *simulation, n, _ *instance) bool {
		if !n.running || w.lostVol || n.pg.Data != Usable {
			return false
		}
		n.lostAt = w.now
		w.lostVol = w.sync > 0 || w.record.Holder.Name == n.name || w.record.Primary == n.name ||
			slices.ContainsFunc(w.nodes, func(m *instance) bool { return m.pg.damaged || m.pg.wedged })
		w.killInstance(n, second+time.Duration(w.choose(5000))*time.Millisecond, true)
		n.pg = database{}
		return true
	}},
	{"pod is deleted", 4, func(_ *simulation, n, _ *instance) bool { n.stop = n.running; return n.running }},
	{"Lease is deleted", 2, func(w *simulation, _, _ *instance) bool { return w.deleteLease() }},
	{"Lease is re-created", 1, func(w *simulation, _, _ *instance) bool { return w.makeLease() }},
	{"disk is full", 1, func(_ *simulation, n, _ *instance) bool { n.pg.FullDisk = !n.pg.FullDisk; return true }},
	{"replication is slow", 2, func(w *simulation, n, _ *instance) bool { n.pg.lag = !n.pg.lag; return len(w.nodes) > 1 }},
	{"WAL is removed", 2, func(_ *simulation, n, _ *instance) bool {
		if n.pg.Data != Usable || n.pg.Role != Primary || n.pg.Process == Down { // of a full volume, with slots that are given up
			return false
		}
		changed := n.pg.OldestWAL < uint64(len(n.pg.wal))
		n.pg.OldestWAL = uint64(len(n.pg.wal))
		return changed
	}},
	{"writes are rejected", 1, func(_ *simulation, n, _ *instance) bool { n.pg.rejects = !n.pg.rejects; return true }},
	{"data is damaged", 1, func(w *simulation, n, _ *instance) bool {
		if !w.mayDamage(n) {
			return false
		}
		n.pg.damaged = true
		w.pgEnds(n, true)
		return true
	}},
	{"a standby cannot stream", 1, func(w *simulation, n, _ *instance) bool {
		ok := w.mayDamage(n)
		n.pg.wedged = n.pg.wedged || ok
		return ok
	}},
	{"synchronous is turned on or off", 3, func(w *simulation, _, _ *instance) bool { return len(w.nodes) > 1 && w.turnSynchronous() }},
	{"replicas", 2, func(w *simulation, _, _ *instance) bool { return w.scale() }},
	{"paused", 1, func(w *simulation, _, _ *instance) bool {
		w.change(func(o *object) { o.paused = !o.paused })
		return true
	}},
	{"switchover", 3, func(w *simulation, n, _ *instance) bool {
		asked := w.choose(2) == 0
		changed := n.config.SwitchoverTarget != n.name && len(w.nodes) > 1
		for _, m := range w.nodes {
			m.config.SwitchoverTarget, m.config.SwitchoverRequested, m.config.TargetChangedAt = n.name, asked, m.clock(w.now)
		}
		return changed
	}},
}

// mayDamage reports that n is a standby that has followed, and that all others have undamaged data.
func (w *simulation) mayDamage(n *instance) bool {
	sound := func(m *instance) bool {
		return m.pg.Data == Usable && m.pg.DataTask == NoDataTask && !m.pg.damaged && !m.pg.wedged
	}
	return n.runs() && n.pg.isStandby() && !n.pg.ClonedSinceFollowing && !slices.ContainsFunc(w.nodes, func(m *instance) bool { return !sound(m) })
}

// cutLink reports whether it changed anything.
func (w *simulation) cutLink(a, b int) bool {
	if a == b || w.cut[a][b] && w.cut[b][a] {
		return false
	}
	w.cut[a][b], w.cut[b][a] = true, true
	return true
}

// repair restores all cut connections, and reports whether any was cut.
func (w *simulation) repair() bool {
	changed := w.apiDown || w.readOnly
	w.apiDown, w.readOnly = false, false
	for i := range w.nodes {
		changed = changed || w.apiCut[i] || slices.Contains(w.cut[i], true)
		w.apiCut[i] = false
		for j := range w.nodes {
			w.cut[i][j] = false
		}
	}
	return changed
}

// repairAll ends all faults.
func (w *simulation) repairAll() {
	w.repair()
	w.flaky = false
	if w.object.paused || w.object.replicas < len(w.nodes) {
		w.change(func(o *object) { o.paused, o.replicas = false, len(w.nodes) })
	}
	for _, n := range w.nodes {
		n.pg.FullDisk, n.pg.lag, n.pg.rejects = false, false, false
		n.wakeAt = min(n.wakeAt, w.now)
		if n.pg.hung && (!n.pg.isPrimary() || len(w.nodes) == 1) { // the liveness probe sees that
			w.killInstance(n, second, false)
		}
	}
	w.calm = w.now
}

// inject injects one fault; false if it has no effect now.
func (w *simulation) inject() bool {
	total := 0
	for _, f := range w.faults {
		total += f.often
	}
	pick := w.choose(total)
	for _, f := range w.faults {
		if pick -= f.often; pick >= 0 {
			continue
		}
		n, m := w.nodes[w.choose(len(w.nodes))], w.nodes[w.choose(len(w.nodes))]
		if w.choose(2) == 0 { // the interesting one
			for _, h := range w.nodes {
				if h.name == w.record.Holder.Name {
					n = h
				}
			}
		}
		if !f.do(w, n, m) {
			return false
		}
		w.calm = w.now + 30*second
		w.logf("FAULT %s: %s", f.name, n.name)
		return true
	}
	return false
}
