package election

import (
	"math/rand/v2"
	"testing"
	"time"
)

// longer is how much longer than usual an action sometimes takes: a checkpoint of much memory, or a stop that waits for one.
func (w *simulation) longer(n *instance, a Action) time.Duration {
	switch a.(type) {
	case StartPrimary, Promote:
		if w.sometimes(16) && w.slow {
			return time.Duration(w.choose(int(2 * w.timing.StartTimeout)))
		}
		return n.pg.slowStart
	}
	if !w.slow {
		return 0
	}
	switch a := a.(type) {
	case Checkpoint:
		if w.sometimes(4) {
			return time.Duration(w.choose(int(3 * w.timing.StopTimeout)))
		}
	case Stop:
		if a.Mode == Fast && w.sometimes(12) {
			return time.Duration(w.choose(int(2 * w.timing.StopTimeout)))
		}
	}
	return 0
}

// advances records that a recovery makes progress, unless PostgreSQL hangs.
func (w *simulation) advances(n *instance, c time.Duration) {
	if d := &n.pg; !d.hung && (d.Process == Starting || d.Process == Promoting) {
		d.RecoveryAdvancedAt = c
	}
}

// checkPlanned checks a primary that stops for another instance: it took a checkpoint while it was ready, and the stop for this
// request has not timed out before.
func (w *simulation) checkPlanned(n *instance) {
	d := &n.pg
	if d.CheckpointedAt == 0 {
		w.violated("6: %s stops for a switchover without a checkpoint", n.name)
	}
	if d.EscalatedAt > 0 && d.EscalatedAt >= n.config.TargetChangedAt {
		w.violated("8: %s stops again for a switchover that was cut off", n.name)
	}
}

// 8. A switchover whose stop takes too long is aborted once, and not retried before it is requested again.
func TestModel_slowStopIsNotRepeated(t *testing.T) {
	for seed := range uint64(20) {
		timing := DefaultTiming()
		s := &schedule{timing: timing, sim: newSimulation(rand.New(rand.NewPCG(seed, 5)), 3, int(seed%2), timing)}
		w := s.sim
		s.await(w.settled)
		s.pass(5 * second)
		first := w.leader()
		other := w.nodes[(first.id+1)%3]
		first.pg.slowStop = true
		for try := 1; try <= 2; try++ {
			w.ask(other)
			s.pass(3 * time.Minute)
			if len(w.broken) > 0 || first.fenced != try || w.leader() != first {
				t.Fatalf("seed %d: after %d requests %s was cut off %d times: %v", seed, try, first.name, first.fenced, w.broken)
			}
			if got := Report(first.config, w.input(first)).SwitchoverTimedOut; got != other.name {
				t.Fatalf("seed %d: it says that the switchover to %q was cut off", seed, got)
			}
		}
		first.pg.slowStop = false
		w.ask(other)
		s.pass(3 * time.Minute)
		if w.leader() != other {
			t.Fatalf("seed %d: %s does not lead: %v", seed, other.name, w.broken)
		}
	}
}

// ask is a person who requests a primary now.
func (w *simulation) ask(n *instance) {
	for _, m := range w.nodes {
		m.config.SwitchoverTarget, m.config.SwitchoverRequested, m.config.TargetChangedAt = n.name, true, m.clock(w.now)
	}
}

// 4. A long recovery keeps the lease while it makes progress, also where rows could be lost otherwise. A recovery that hangs does
// not.
func TestModel_longRecovery(t *testing.T) {
	for seed := range uint64(30) {
		timing := DefaultTiming()
		s := &schedule{timing: timing, sim: newSimulation(rand.New(rand.NewPCG(seed, 6)), 3, 0, timing)}
		w := s.sim
		s.await(w.settled)
		s.pass(time.Duration(w.choose(5000)) * time.Millisecond)
		first, before := w.leader(), w.promos
		first.pg.slowStart = 10 * time.Minute
		w.pgEnds(first, true)
		s.pass(9 * time.Minute)
		if w.promos != before || w.record.Holder != first.config.Self || first.pg.Process != Starting || len(w.broken) > 0 {
			t.Fatalf("seed %d: %s lost the Lease to %s while it recovered: %v", seed, first.name, w.record.Holder.Name, w.broken)
		}
		if seed%2 == 0 {
			s.pass(2 * time.Minute)
			if w.leader() != first {
				t.Fatalf("seed %d: %s does not lead after its recovery: %v", seed, first.name, w.broken)
			}
			continue
		}
		first.pg.hung = true
		s.pass(2 * time.Minute)
		if next := w.leader(); next == nil || next == first || len(w.broken) > 0 {
			t.Fatalf("seed %d: no instance has taken over from %s, whose recovery hangs: %v", seed, first.name, w.broken)
		}
	}
}
