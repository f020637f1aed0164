package election

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

// runUnresponsive makes the primary of a cluster of that size hang. alone means that the others are lost before. It returns which
// instance it was, which one is primary then, and what is wrong.
func runUnresponsive(seed uint64, size int, alone bool) (s *schedule, first, next *instance, wrong string) {
	rng := rand.New(rand.NewPCG(seed, 3))
	sync := 0
	if size > 1 && !alone {
		sync = int(seed % 2)
	}
	s = &schedule{timing: DefaultTiming(), sim: newSimulation(rng, size, sync, DefaultTiming())}
	w := s.sim
	s.await(w.settled)
	s.pass(time.Duration(rng.IntN(5000)) * time.Millisecond)
	first = w.leader()
	for _, n := range w.nodes {
		if alone && n != first {
			w.killInstance(n, time.Hour, true)
		}
	}
	if alone { // and the first knows
		s.pass(8 * second)
	}
	first.pg.hung = true
	if size == 1 { // its probe sees that
		w.killInstance(first, second, false)
	}
	s.pass(15 * second)
	s.await(func() bool { return w.leader() != nil })
	if next = w.leader(); next == nil {
		return s, first, nil, fmt.Sprintf("there is no primary: %v", w.broken)
	}
	return s, first, next, lacksRows(w, next)
}

// await advances the time until a condition is true, at most for a minute.
func (s *schedule) await(is func() bool) {
	for end := s.sim.now + 60*second; !is() && s.sim.now < end && len(s.sim.broken) == 0; {
		s.advance()
	}
}

// 4, 6. A primary that was unresponsive is not the next primary if another instance has the same WAL, nor the one after that.
func TestModel_unresponsive(t *testing.T) {
	for seed := range uint64(60) {
		s, first, next, wrong := runUnresponsive(seed, 3, false)
		switch {
		case wrong != "":
			t.Fatalf("seed %d: %s", seed, wrong)
		case next == first && s.sim.sync == 0 && !isAhead(s.sim, first):
			t.Fatalf("seed %d: %s, which was unresponsive, is primary again", seed, first.name)
		case next != first && s.sim.sync == 0: // else one that is missing is too many
			if wrong := s.lose(first, next); wrong != "" {
				t.Fatalf("seed %d: %s", seed, wrong)
			}
		}
	}
}

// lose loses next after first was unresponsive, and returns what is wrong.
func (s *schedule) lose(first, next *instance) string {
	w := s.sim
	s.await(w.settled)
	s.pass(time.Second)
	third := w.nodes[3-first.id-next.id]
	if third.pg.end() != first.pg.end() {
		return ""
	}
	w.killInstance(next, time.Hour, true)
	s.pass(40 * second)
	if w.leader() != third && third.pg.end().Compare(first.pg.end()) >= 0 {
		return fmt.Sprintf("%s does not lead: %v", third.name, w.broken)
	}
	return ""
}

// isAhead reports that n has more WAL than any other instance.
func isAhead(w *simulation, n *instance) bool {
	for _, m := range w.nodes {
		if m != n && len(m.pg.wal) >= len(n.pg.wal)-1 { // n began with an entry of its own
			return false
		}
	}
	return true
}

// It stays primary if no other instance may be, without a crash that would help nothing, and a cluster of one continues as
// before.
func TestModel_unresponsiveAlone(t *testing.T) {
	for seed := range uint64(40) {
		size := 1 + int(seed%3)
		_, first, next, wrong := runUnresponsive(seed, size, true)
		if wrong != "" || next != first {
			t.Fatalf("seed %d, %d instances: %s is primary, not %s: %s", seed, size, next.name, first.name, wrong)
		}
		if first.fenced > 0 {
			t.Fatalf("seed %d, %d instances: %s was stopped, and no instance could take over", seed, size, first.name)
		}
	}
}
