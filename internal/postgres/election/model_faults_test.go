package election

import (
	"slices"
	"time"
)

// fault is something that goes wrong, or that people do; it returns false if it can't now.
type fault struct {
	name  string
	often int
	do    func(w *world, n, m *instance) bool
}

// faults are all of them. What is cut stays so until it is healed, by the next fault or at the end.
var faults = []fault{
	{"cut from the API server", 3, func(w *world, n, _ *instance) bool { w.apiCut[n.id] = true; return true }},
	{"no API server", 2, func(w *world, _, _ *instance) bool { w.apiDown = !w.apiDown; return true }},
	{"API server takes no writes", 2, func(w *world, _, _ *instance) bool { w.readOnly = !w.readOnly; return true }},
	{"isolated", 3, func(w *world, n, _ *instance) bool {
		w.apiCut[n.id] = true
		for i := range w.nodes {
			w.cutLink(n.id, i)
		}
		return true
	}},
	{"link cut", 2, func(w *world, n, m *instance) bool { w.cutLink(n.id, m.id); return n != m }},
	{"network heals", 3, func(w *world, _, _ *instance) bool { w.heal(); return true }},
	{"answers get lost", 2, func(w *world, _, _ *instance) bool { w.flaky = !w.flaky; return true }},
	{"agent hangs", 2, func(w *world, n, _ *instance) bool {
		if !n.running || n.frozen() {
			return false
		}
		n.agentFrozen = true // the watchdog enforces the deadline
		n.wakeAt = w.now + time.Duration(w.choose(int(w.timing.Lease*3)))
		return true
	}},
	{"machine is frozen", 2, func(w *world, n, _ *instance) bool {
		if !n.running || n.frozen() {
			return false
		}
		n.nodeFrozen, n.exempt = true, true
		n.wakeAt = w.now + time.Duration(w.choose(int(w.timing.Lease*2)))
		return true
	}},
	{"PostgreSQL crashes", 4, func(w *world, n, _ *instance) bool {
		if !n.running || n.nodeFrozen || n.pg.Process == Down {
			return false
		}
		w.pgEnds(n, true)
		return true
	}},
	{"PostgreSQL hangs", 3, func(_ *world, n, _ *instance) bool {
		if !n.running || n.pg.Process == Down {
			return false
		}
		n.pg.hung = true
		return true
	}},
	{"container is killed", 3, func(w *world, n, _ *instance) bool {
		if !n.running {
			return false
		}
		w.die(n, time.Duration(w.choose(3000))*time.Millisecond, false)
		return true
	}},
	{"node is lost", 3, func(w *world, n, _ *instance) bool {
		if !n.running {
			return false
		}
		w.die(n, second+time.Duration(w.choose(20000))*time.Millisecond, true)
		return true
	}},
	{"volume is lost", 1, func(w *world, n, _ *instance) bool {
		if !n.running || w.lostVol || n.pg.Data != Usable {
			return false
		}
		n.lostAt = w.now
		w.lostVol = w.sync > 0 || w.record.Holder.Name == n.name || w.record.Primary == n.name
		w.die(n, second+time.Duration(w.choose(5000))*time.Millisecond, true)
		n.pg = database{}
		return true
	}},
	{"pod is deleted", 4, func(_ *world, n, _ *instance) bool { n.stop = n.running; return n.running }},
	{"Lease is deleted", 2, func(w *world, _, _ *instance) bool { return w.deleteLease() }},
	{"Lease is made anew", 1, func(w *world, _, _ *instance) bool { return w.makeLease() }},
	{"disk is full", 1, func(_ *world, n, _ *instance) bool { n.pg.FullDisk = !n.pg.FullDisk; return true }},
	{"replication is slow", 2, func(_ *world, n, _ *instance) bool { n.pg.lag = !n.pg.lag; return true }},
	{"log is removed", 2, func(_ *world, n, _ *instance) bool {
		if n.pg.Data != Usable || n.pg.Role != Primary || n.pg.Process == Down { // of a full volume, with slots that are given up
			return false
		}
		n.pg.Oldest = uint64(len(n.pg.wal))
		return true
	}},
	{"writes are rejected", 1, func(_ *world, n, _ *instance) bool { n.pg.rejects = !n.pg.rejects; return true }},
	{"data are damaged", 1, func(w *world, n, _ *instance) bool {
		if !w.mayDamage(n) {
			return false
		}
		n.pg.damaged = true
		w.pgEnds(n, true)
		return true
	}},
	{"a standby cannot stream", 1, func(w *world, n, _ *instance) bool {
		ok := w.mayDamage(n)
		n.pg.wedged = n.pg.wedged || ok
		return ok
	}},
	{"switchover", 3, func(w *world, n, _ *instance) bool {
		asked := w.choose(2) == 0
		for _, m := range w.nodes {
			m.config.SwitchoverTarget, m.config.SwitchoverAsked = n.name, asked
		}
		return true
	}},
}

// mayDamage says that n is a standby that has followed, and that all others have data without damage.
func (w *world) mayDamage(n *instance) bool {
	sound := func(m *instance) bool {
		return m.pg.Data == Usable && m.pg.Work == NoWork && !m.pg.damaged && !m.pg.wedged
	}
	return n.runs() && n.pg.standby() && !n.pg.Copied && !slices.ContainsFunc(w.nodes, func(m *instance) bool { return !sound(m) })
}

func (w *world) cutLink(a, b int) {
	if a != b {
		w.cut[a][b], w.cut[b][a] = true, true
	}
}

func (w *world) heal() {
	w.apiDown, w.readOnly = false, false
	for i := range w.nodes {
		w.apiCut[i] = false
		for j := range w.nodes {
			w.cut[i][j] = false
		}
	}
}

// healAll ends all faults.
func (w *world) healAll() {
	w.heal()
	w.flaky = false
	for _, n := range w.nodes {
		n.pg.FullDisk, n.pg.lag, n.pg.rejects = false, false, false
		n.wakeAt = min(n.wakeAt, w.now)
		if n.pg.hung && (!n.pg.primary() || len(w.nodes) == 1) { // the liveness probe sees that
			w.die(n, second, false)
		}
	}
	w.calm = w.now
}

// inject lets one fault happen.
func (w *world) inject() {
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
		if f.do(w, n, m) {
			w.calm = w.now + 30*second
			w.say("FAULT %s: %s", f.name, n.name)
		}
		return
	}
}
