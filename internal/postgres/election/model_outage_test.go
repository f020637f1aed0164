package election

import (
	"math/rand/v2"
	"testing"
	"time"
)

// outage runs a cluster of three through an outage of the API server for all, and nothing else. It returns how often an agent
// fenced its primary, how many promotions there were, and how many rows were confirmed during the outage.
func outage(seed uint64, failsafe bool, begin func(s *schedule)) (fenced, promotions, rows int, w *simulation) {
	rng := rand.New(rand.NewPCG(seed, 1))
	s := &schedule{timing: DefaultTiming(), sim: newSimulation(rng, 3, int(seed%2), DefaultTiming())}
	for _, n := range s.sim.nodes {
		n.config.Failsafe = failsafe
	}
	for s.sim.now < 60*second && !s.sim.settled() {
		s.advance()
	}
	begin(s)
	before := len(s.sim.acked)
	s.sim.calm = s.sim.now + time.Hour
	for end := s.sim.now + 15*second + time.Duration(rng.IntN(45))*second; s.sim.now < end; {
		s.advance()
	}
	rows = len(s.sim.acked) - before
	s.sim.repair()
	for end := s.sim.now + 30*second; s.sim.now < end; {
		s.advance()
	}
	for _, n := range s.sim.nodes {
		fenced += n.fenced
	}
	return fenced, s.sim.promos, rows, s.sim
}

func apiOutage(s *schedule) { s.sim.apiDown = true }

// An API server that is unreachable for all, or read-only, stops no database while all agents are there that were there before.
// (7)
func TestModel_apiOutage(t *testing.T) {
	for name, begin := range map[string]func(s *schedule){
		"away": apiOutage, "takes no writes": func(s *schedule) { s.sim.readOnly = true },
		"away, and an instance down for long": func(s *schedule) {
			s.sim.killInstance(s.sim.nodes[2], 3*time.Minute, true)
			s.pass(25 * second)
			s.sim.apiDown = true
			s.pass(60 * second)
		},
	} {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(40) {
				fenced, promotions, rows, w := outage(seed, true, begin)
				for end := w.now + 4*time.Minute; !w.settled() && w.now < end; {
					(&schedule{sim: w}).advance()
				}
				if len(w.broken) > 0 || fenced > 0 || promotions > 0 || rows == 0 || !w.settled() {
					t.Fatalf("seed %d: %d fenced, %d promotions, %d rows acknowledged meanwhile, settled %v, %v",
						seed, fenced, promotions, rows, w.settled(), w.broken)
				}
			}
		})
	}
}

// Without failsafe it does: the deadline is real.
func TestModel_apiOutageWithoutFailsafe(t *testing.T) {
	for seed := range uint64(20) {
		if fenced, _, _, w := outage(seed, false, apiOutage); fenced == 0 || len(w.broken) > 0 {
			t.Fatalf("seed %d: the primary was not fenced, %v", seed, w.broken)
		}
	}
}

// A primary that alone is cut off gives way to an instance that is not: clients could not be routed to it for long. (7)
func TestModel_primaryPartitioned(t *testing.T) {
	for seed := range uint64(40) {
		var cut *instance
		_, promotions, _, w := outage(seed, true, func(s *schedule) {
			cut = s.sim.leader()
			s.sim.apiCut[cut.id] = true
			s.pass(25 * second)
			if l := s.sim.leader(); l == nil || l == cut {
				t.Errorf("seed %d: after 25 s no other instance is primary", seed)
			}
		})
		if len(w.broken) > 0 || promotions == 0 {
			t.Fatalf("seed %d: %d promotions, %v", seed, promotions, w.broken)
		}
	}
}
