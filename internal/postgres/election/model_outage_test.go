package election

import (
	"math/rand/v2"
	"testing"
	"time"
)

// outage runs a cluster of three through an outage of the API server for everybody, and nothing else. It returns how
// often an agent stopped its primary at once, how many promotions there were, and how many rows were acknowledged
// while it lasted.
func outage(seed uint64, failsafe bool) (fenced, promotions, rows int, w *world) {
	rng := rand.New(rand.NewPCG(seed, 1))
	s := &schedule{timing: DefaultTiming(), w: newWorld(rng, 3, int(seed%2), DefaultTiming())}
	for _, n := range s.w.nodes {
		n.config.Failsafe = failsafe
	}
	for s.w.now < 60*second && !s.w.settled() {
		s.advance()
	}
	before := len(s.w.acked)
	s.w.apiDown, s.w.calm = true, s.w.now+time.Hour
	for end := s.w.now + 15*second + time.Duration(rng.IntN(45))*second; s.w.now < end; {
		s.advance()
	}
	rows = len(s.w.acked) - before
	s.w.apiDown = false
	for end := s.w.now + 30*second; s.w.now < end; {
		s.advance()
	}
	for _, n := range s.w.nodes {
		fenced += n.fenced
	}
	return fenced, s.w.promos, rows, s.w
}

// An API server that is away for everybody stops no database, for as long as all the agents are there. (7)
func TestModelAPIOutage(t *testing.T) {
	for seed := range uint64(60) {
		fenced, promotions, rows, w := outage(seed, true)
		if len(w.broken) > 0 || fenced > 0 || promotions > 0 || rows == 0 || !w.settled() {
			t.Fatalf("seed %d: %d fenced, %d promotions, %d rows acknowledged meanwhile, settled %v, %v",
				seed, fenced, promotions, rows, w.settled(), w.broken)
		}
	}
}

// Without failsafe it does: the deadline is real.
func TestModelAPIOutageWithoutFailsafe(t *testing.T) {
	for seed := range uint64(20) {
		if fenced, _, _, w := outage(seed, false); fenced == 0 || len(w.broken) > 0 {
			t.Fatalf("seed %d: the primary was not fenced, %v", seed, w.broken)
		}
	}
}
