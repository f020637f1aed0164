package election

import (
	"flag"
	"maps"
	"slices"
	"testing"
	"time"
)

var exhaustive = flag.Duration("exhaustive", 4*time.Second,
	"how long the model searches all schedules of three agents; 60s is the longer mode")

// quick are the times of the exhaustive search, in which one round is a second.
var quick = Timing{
	RenewInterval: second, LeaseDuration: 5 * second, FenceDeadline: 3 * second, KillGrace: second, CandidateStagger: second, HeartbeatTimeout: second,
	StartTimeout: 6 * second, StopTimeout: 3 * second, CrashLoopWindow: 4 * second, CatchUpWait: 2 * second, StallTimeout: 4 * second,
}

// timer ends a fault.
type timer struct {
	at  time.Duration
	end func(w *simulation)
}

// move is a fault of the exhaustive search.
type move struct {
	name string
	do   func(w *simulation, n *instance) bool
}

func (w *simulation) later(d time.Duration, end func(w *simulation)) {
	w.timers = append(slices.Clone(w.timers), timer{at: w.now + d, end: end})
}

// cutAPI cuts n from the API server for a while.
func cutAPI(d time.Duration) func(w *simulation, n *instance) bool {
	return func(w *simulation, n *instance) bool {
		i := n.id
		w.apiCut[i] = true
		w.later(d, func(w *simulation) { w.apiCut[i] = false })
		return true
	}
}

// isolate cuts n from everything for a while.
func isolate(d time.Duration) func(w *simulation, n *instance) bool {
	return func(w *simulation, n *instance) bool {
		i := n.id
		w.apiCut[i] = true
		for j := range w.nodes {
			w.cutLink(i, j)
		}
		w.later(d, func(w *simulation) {
			w.apiCut[i] = false
			for j := range w.nodes {
				w.cut[i][j], w.cut[j][i] = false, false
			}
		})
		return true
	}
}

// moves are tried on each instance at each point.
var moves = []move{
	{"cut from the API server for 2 s", cutAPI(2 * second)},
	{"cut from the API server for 9 s", cutAPI(9 * second)},
	{"isolated for 9 s", isolate(9 * second)},
	{"no API server for 4 s", func(w *simulation, n *instance) bool {
		w.apiDown = true
		w.later(4*second, func(w *simulation) { w.apiDown = false })
		return n.id == 0
	}},
	{"no API server for 12 s", func(w *simulation, n *instance) bool {
		w.apiDown = true
		w.later(12*second, func(w *simulation) { w.apiDown = false })
		return n.id == 0
	}},
	{"API server is read-only for 12 s", func(w *simulation, n *instance) bool {
		w.readOnly = true
		w.later(12*second, func(w *simulation) { w.readOnly = false })
		return n.id == 0
	}},
	{"machine is frozen for 8 s", func(w *simulation, n *instance) bool {
		ok := n.running && !n.frozen()
		if ok {
			n.nodeFrozen, n.exempt, n.wakeAt = true, true, w.now+8*second
		}
		return ok
	}},
	{"agent hangs for 10 s, and is ended", func(w *simulation, n *instance) bool {
		ok := n.running && !n.frozen()
		if ok {
			n.agentFrozen, n.wakeAt = true, w.now+10*second
		}
		return ok
	}},
	{"PostgreSQL crashes", func(w *simulation, n *instance) bool {
		ok := n.running && !n.nodeFrozen && n.pg.Process != Down
		if ok {
			w.pgEnds(n, true)
		}
		return ok
	}},
	{"PostgreSQL hangs", func(_ *simulation, n *instance) bool {
		ok := n.running && n.pg.isPrimary()
		n.pg.hung = n.pg.hung || ok
		return ok
	}},
	{"container is killed", func(w *simulation, n *instance) bool {
		ok := n.running
		if ok {
			w.killInstance(n, second, false)
		}
		return ok
	}},
	{"node is lost for 7 s", func(w *simulation, n *instance) bool {
		ok := n.running
		if ok {
			w.killInstance(n, 7*second, true)
		}
		return ok
	}},
	{"pod is deleted", func(_ *simulation, n *instance) bool {
		ok := n.running && !n.stop
		n.stop = n.running
		return ok
	}},
	{"the answer to the next write is lost", func(_ *simulation, n *instance) bool {
		ok := n.running && !n.lose
		n.lose = true
		return ok
	}},
	{"nothing is replicated here for 6 s", func(w *simulation, n *instance) bool {
		i := n.id
		ok := !n.pg.lag
		n.pg.lag = true
		w.later(6*second, func(w *simulation) { w.nodes[i].pg.lag = false })
		return ok
	}},
	{"Lease is deleted", func(w *simulation, n *instance) bool { return n.id == 0 && w.deleteLease() }},
	{"Lease is deleted, and re-created", func(w *simulation, n *instance) bool { return n.id == 0 && w.deleteLease() && w.makeLease() }},
	{"synchronous is turned on or off, and one learns of it 8 s later", func(w *simulation, n *instance) bool {
		ok := w.turnSynchronous()
		n.sees = w.now + 8*second
		return ok
	}},
	{"switchover", func(w *simulation, n *instance) bool {
		for _, m := range w.nodes {
			m.config.SwitchoverTarget, m.config.TargetChangedAt = n.name, m.clock(w.now)
		}
		return w.record.Holder.Name != n.name
	}},
}

// clone copies everything that changes in place.
func (w *simulation) clone() *simulation {
	c := *w
	c.nodes = make([]*instance, len(w.nodes))
	for i, n := range w.nodes {
		m := *n
		m.peers, m.granted = maps.Clone(n.peers), slices.Clone(n.granted)
		c.nodes[i] = &m
	}
	c.flights, c.apiCut = slices.Clone(w.flights), slices.Clone(w.apiCut)
	c.cut = make([][]bool, len(w.cut))
	for i := range w.cut {
		c.cut[i] = slices.Clone(w.cut[i])
	}
	c.acked, c.used, c.protected, c.line = maps.Clone(w.acked), maps.Clone(w.used), maps.Clone(w.protected), maps.Clone(w.line)
	c.log = slices.Clip(w.log)
	return &c
}

// round is one second: every agent runs, and every client writes.
func (w *simulation) round() {
	w.timers = slices.DeleteFunc(slices.Clone(w.timers), func(t timer) bool {
		if w.now >= t.at {
			t.end(w)
			return true
		}
		return false
	})
	w.step(w.now + second)
	for _, n := range w.nodes {
		w.write(n)
	}
}

// search visits every schedule of so many faults.
type search struct {
	t       *testing.T
	until   time.Time
	seen    map[uint64]int8 // state to the most faults that were still to come there
	states  int
	chains  int
	stopped bool
}

// explore follows w while nothing happens, and from each state injects each fault if any are left. It ends at a state that it has
// visited before. With no fault left it must end at a healthy cluster.
func (s *search) explore(w *simulation, left int, path []string) {
	s.chains++
	for rounds := 0; ; rounds++ {
		if len(w.broken) > 0 {
			s.t.Fatalf("after %q, %s later:\n%v", path, time.Duration(rounds)*second, w.broken)
		}
		if s.stopped = s.stopped || time.Now().After(s.until); s.stopped {
			return
		}
		h := w.hash()
		if before, ok := s.seen[h]; ok && int(before) >= left {
			return
		}
		s.seen[h] = int8(left)
		s.states++
		if left == 0 && rounds > 60 && !w.settled() {
			s.t.Fatalf("after %q there is no primary, or not all instances follow, for a minute", path)
		}
		if left > 0 {
			s.branch(w, left, append(path, time.Duration(rounds*int(second)).String()))
		}
		w = w.clone()
		w.round()
	}
}

func (s *search) branch(w *simulation, left int, path []string) {
	for _, m := range moves {
		for i := range w.nodes {
			c := w.clone()
			if !m.do(c, c.nodes[i]) || s.stopped {
				continue
			}
			c.calm = c.now + 12*second
			s.explore(c, left-1, append(slices.Clone(path), m.name+": "+c.nodes[i].name))
		}
	}
}

func TestModel_exhaustive(t *testing.T) {
	begin := time.Now()
	for faults := 1; time.Since(begin) < *exhaustive && faults < 6; faults++ {
		for sync := range 2 {
			w := newSimulation(nil, 3, sync, quick)
			for range 40 {
				w.round()
			}
			if !w.settled() || len(w.broken) > 0 {
				t.Fatalf("the cluster does not come up: %v", w.broken)
			}
			left := time.Until(begin.Add(*exhaustive)) / time.Duration(2-sync)
			if faults == 1 {
				left = time.Hour // one is always seen whole
			}
			s := &search{t: t, until: time.Now().Add(left), seen: map[uint64]int8{}}
			s.explore(w, faults, nil)
			t.Logf("synchronous %d, all schedules of %d faults: %d states, %d schedules, complete: %v", sync, faults,
				s.states, s.chains, !s.stopped)
			if faults == 1 && (s.stopped || s.chains < len(moves)) {
				t.Errorf("this shows nothing: %d schedules of %d moves", s.chains, len(moves))
			}
		}
	}
}
