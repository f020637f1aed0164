package election

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// hibernate hibernates a cluster under a writing client, and starts it again without its last primary. It returns what is wrong.
func hibernate(seed uint64) string {
	rng := rand.New(rand.NewPCG(seed, 2))
	s := &schedule{timing: DefaultTiming(), sim: newSimulation(rng, 3, int(seed%2), DefaultTiming())}
	w := s.sim
	for w.now < 60*second && !w.settled() {
		s.advance()
	}
	s.pass(time.Duration(rng.IntN(5000)) * time.Millisecond)
	last := w.record.Primary
	for _, i := range rng.Perm(len(w.nodes)) { // each learns of it in its own time
		w.nodes[i].config.Hibernated = true
		s.pass(time.Duration(rng.IntN(3000)) * time.Millisecond)
	}
	s.pass(30 * second)
	if wrong := settledAfterHibernation(w); wrong != "" {
		return wrong
	}
	for _, n := range w.nodes {
		n.config.Hibernated = false
		if n.name == last { // its node does not come back
			w.killInstance(n, time.Hour, true)
		}
	}
	for end := w.now + 60*second; w.now < end && len(w.broken) == 0; {
		s.advance()
	}
	for _, n := range w.nodes {
		if n.accepts() {
			return lacksRows(w, n)
		}
	}
	return "there is no primary after it was woken up"
}

// pass advances the time.
func (s *schedule) pass(d time.Duration) {
	for end := s.sim.now + d; s.sim.now < end; {
		s.advance()
	}
}

// settledAfterHibernation returns what is wrong with a cluster that should be hibernated.
func settledAfterHibernation(w *simulation) string {
	for _, n := range w.nodes {
		switch {
		case n.pg.Process != Down || !n.pg.CleanShutdown:
			return fmt.Sprintf("%s is %s, clean %v", n.name, n.pg.Process, n.pg.CleanShutdown)
		case n.pg.end() != w.nodes[0].pg.end():
			return fmt.Sprintf("%s ends at %v, %s at %v", n.name, n.pg.end(), w.nodes[0].name, w.nodes[0].pg.end())
		}
	}
	if w.promos > 0 || !w.record.Released || !w.record.CleanShutdown {
		return fmt.Sprintf("%d promotions, the Lease is %+v", w.promos, w.record)
	}
	return ""
}

// lacksRows names a confirmed row that is missing.
func lacksRows(w *simulation, n *instance) string {
	there := map[int]bool{}
	for _, e := range n.pg.wal {
		there[e.op] = true
	}
	for op, by := range w.acked {
		if !there[op] {
			return fmt.Sprintf("%s lacks row %d, which %s acknowledged", n.name, op, w.nodes[by].name)
		}
	}
	if len(w.broken) > 0 {
		return w.broken[0]
	}
	return ""
}

// TestModel_hibernation checks that all instances have the same WAL when a cluster is hibernated, so any of them can start first
// and no row is lost, with asynchronous replication too.
func TestModel_hibernation(t *testing.T) {
	for seed := range uint64(200) {
		if wrong := hibernate(seed); wrong != "" {
			t.Fatalf("seed %d: %s", seed, wrong)
		}
	}
}
