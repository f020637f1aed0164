package election

import (
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
)

var (
	schedules = flag.Int("schedules", 10_000, "how many random schedules the model runs")
	seed      = flag.Uint64("seed", 0, "run the model with this one seed, and print all that happens")
)

// schedule is one random run: faults for a while, then peace.
type schedule struct {
	seed        uint64
	nodes, sync int
	timing      Timing
	states      int
	faults      int // that did something
	settled     time.Duration
	sim         *simulation
}

func run(seed uint64, verbose bool, only ...string) *schedule {
	rng := rand.New(rand.NewPCG(seed, 0))
	s := &schedule{seed: seed, nodes: []int{3, 3, 3, 2, 1, 5}[rng.IntN(6)], timing: DefaultTiming()}
	s.timing.StartTimeout, s.timing.StopTimeout, s.timing.CrashLoopWindow = 15*second, 6*second, 10*second
	s.timing.ProbationPeriod, s.timing.LastPrimaryWait = 30*second, 20*second
	s.timing.StallTimeout = 22 * second        // longer than the last connection to the primary counts
	s.timing.CandidateStagger = 3 * second / 2 // an agent of the model looks that rarely
	if s.nodes > 1 {
		s.sync = rng.IntN(2)
	}
	if s.nodes == 5 && s.sync > 0 {
		s.sync = 1 + rng.IntN(2)
	}
	s.sim = newSimulation(rng, s.nodes, s.sync, s.timing)
	s.sim.verbose, s.sim.slow = verbose, len(only) == 0
	if len(only) > 0 {
		s.sim.faults = nil
		for _, name := range only { // as often as it is named
			i := slices.IndexFunc(faults, func(f fault) bool { return f.name == name })
			s.sim.faults = append(s.sim.faults, fault{name, 1, faults[i].do})
		}
	}
	s.start()
	if len(s.sim.broken) == 0 {
		s.injectFaults(4 + rng.IntN(8))
	}
	if len(s.sim.broken) == 0 {
		s.recover()
	}
	return s
}

// advance goes to the next thing that happens.
func (s *schedule) advance() {
	w := s.sim
	next := w.now + 700*time.Millisecond
	for _, n := range w.nodes {
		if n.running && !n.frozen() && n.next > w.now {
			next = min(next, n.next)
		}
		if n.pg.done > w.now && n.pg.Process != Up {
			next = min(next, n.pg.done)
		}
		if at, ok := w.watchdog(n); ok && at > w.now {
			next = min(next, at)
		}
	}
	s.states++
	w.step(max(next, w.now+time.Millisecond))
	if w.choose(3) == 0 {
		w.write(w.nodes[w.choose(len(w.nodes))])
	}
}

// start lets the cluster come up; sometimes trouble comes before it is.
func (s *schedule) start() {
	end := s.sim.now + 20*second
	if s.sim.choose(4) == 0 {
		end = s.sim.now + time.Duration(s.sim.choose(8000))*time.Millisecond
	}
	for s.sim.now < end && len(s.sim.broken) == 0 && !s.sim.settled() {
		s.advance()
	}
}

func (s *schedule) injectFaults(faults int) {
	for range faults {
		if s.sim.inject() {
			s.faults++
		}
		end := s.sim.now + time.Duration(s.sim.choose([]int{300, 3000, 12_000}[s.sim.choose(3)]))*time.Millisecond
		for s.sim.now < end && len(s.sim.broken) == 0 {
			s.advance()
		}
	}
}

// limit is how long a cluster may take after the last fault: 10 s of the Lease, and all that it then has to do; a
// process that hung or takes its time included.
const limit = 90 * second

func (s *schedule) recover() {
	w := s.sim
	w.repairAll()
	start := w.now
	for w.now < start+limit && len(w.broken) == 0 {
		s.advance()
		w.person()
		if w.settled() {
			s.settled = w.now - start
			s.checkEnd()
			return
		}
	}
	if len(w.broken) == 0 && !w.lostVol && !w.needsPerson() {
		w.violated("liveness: no primary that everybody follows %s after the last fault", limit)
	}
}

// person has data re-created for which a person is asked, and accepts what is lost for good.
func (w *simulation) person() {
	for _, n := range w.nodes {
		w.accept(n)
		if !n.running || n.config.RecloneRequested {
			continue
		}
		if d := Decide(n.config, w.input(n)); d.ManualIntervention && strings.Contains(d.Reason, "fettle.dev/reclone="+n.name) {
			n.config.RecloneRequested = true
			w.logf("a person asks for a copy on %s", n.name)
		}
	}
}

// checkEnd checks the rows.
func (s *schedule) checkEnd() {
	w := s.sim
	if w.sync == 0 {
		return
	}
	for _, n := range w.nodes {
		if n.pg.isPrimary() {
			w.leads(n)
		}
	}
}

func TestModel_random(t *testing.T) {
	if *seed != 0 {
		s := run(*seed, true)
		t.Log(strings.Join(s.sim.log, "\n"))
		if len(s.sim.broken) > 0 {
			t.Fatal(strings.Join(s.sim.broken, "\n"))
		}
		return
	}
	var sum shown
	var times []time.Duration
	for i := range *schedules {
		s := run(uint64(i+1), false)
		if len(s.sim.broken) > 0 {
			t.Fatalf("seed %d (%d instances, synchronous %d): %s\nrun it with -run ^TestModel_random$ -seed=%d -v",
				s.seed, s.nodes, s.sync, strings.Join(s.sim.broken, "\n"), s.seed)
		}
		sum.add(s)
		if s.settled > 0 {
			times = append(times, s.settled)
		}
	}
	slices.Sort(times)
	t.Logf("%d schedules, %+v; time to heal p50 %s, p99 %s, max %s", *schedules, sum,
		times[len(times)/2].Round(time.Millisecond), times[len(times)*99/100].Round(time.Millisecond), times[len(times)-1].Round(time.Millisecond))
	sum.check(t, *schedules)
}

// shown is what schedules have shown: what was done to the clusters, and how often what is checked happened.
type shown struct {
	states, faults, promotions, takeovers, ranked, acked, protected, lost, accepted, healed int
}

func (c *shown) add(s *schedule) {
	c.states += s.states
	c.faults += s.faults
	c.promotions += s.sim.promos
	c.takeovers += s.sim.takeovers
	c.ranked += s.sim.ranked
	c.acked += len(s.sim.acked)
	c.protected += len(s.sim.protected)
	c.lost += s.sim.lostRows
	c.accepted += s.sim.consents
	if s.settled > 0 {
		c.healed++
	}
}

// check fails where the schedules show too little: a model in which nothing happens finds nothing.
func (c *shown) check(t *testing.T, schedules int) {
	if schedules >= 1000 && (c.lost == 0 || c.accepted == 0) {
		t.Errorf("this shows nothing: %d rows lost within the limit, %d losses accepted by a person", c.lost, c.accepted)
	}
	for _, floor := range []struct {
		what      string
		have, per int // of so many in 100 schedules
	}{
		{"faults that did something", c.faults, 500}, {"promotions", c.promotions, 50}, {"Leases taken from another instance", c.takeovers, 100},
		{"takers compared with a candidate that had another log", c.ranked, 10}, {"rows acknowledged", c.acked, 500},
		{"rows acknowledged by standbys too", c.protected, 150}, {"schedules healed", c.healed, 97},
	} {
		if floor.have*100 < floor.per*schedules {
			t.Errorf("this shows nothing: %d %s in %d schedules, want at least %d", floor.have, floor.what, schedules, floor.per*schedules/100)
		}
	}
}
