package election

import (
	"testing"
	"time"
)

// switchoverRequested is pg-0, which is primary, where spec.preferredPrimary names pg-2, which was unresponsive.
func switchoverRequested() (Config, Input) {
	c, in := asPrimary()
	c.SwitchoverTarget = "pg-2"
	alter(&in, "pg-2", func(s *State) { s.RecentlyUnresponsive = true })
	return c, in
}

// 6. A preference that was there before its instance was unresponsive waits.
func TestSwitchover_targetOnProbation(t *testing.T) {
	test(t, switchoverRequested, []decision{
		{"waits", nil, "Wait{}", "pg-2 was unresponsive"},
		{"not for ever", func(_ *Config, in *Input) { alter(in, "pg-2", func(s *State) { s.RecentlyUnresponsive = false }) }, "Checkpoint{}", "pg-2"},
		{"asked for now", func(c *Config, _ *Input) { c.SwitchoverRequested = true }, "Checkpoint{}", "pg-2"},
		{"preferred before this one led", func(c *Config, in *Input) { c.PreferenceChangedAt = in.Tenure.AcquiredAt - second }, "Wait{}", "pg-2 was unresponsive"},
		{"preferred since", func(c *Config, in *Input) { c.PreferenceChangedAt = in.Tenure.AcquiredAt + second }, "Checkpoint{}", "pg-2"},
		{"not when this one has ended for another reason", func(_ *Config, in *Input) { down(in) }, "StartPrimary{}", ""},
		{"asked for, and this one has ended", func(c *Config, in *Input) { down(in); c.SwitchoverRequested = true }, "Release", "Switchover"},
	})
	c, in := switchoverRequested()
	if got := Report(c, in).TargetOnProbation; got != "pg-2" {
		t.Errorf("it says that it distrusts %q", got)
	}
	c.SwitchoverRequested = true
	if got := Report(c, in).TargetOnProbation; got != "" {
		t.Errorf("it says that it distrusts %q, which is asked for", got)
	}
	for _, tc := range []struct {
		name   string
		change func(c *Config, in *Input)
		want   string
	}{
		{"waits", func(*Config, *Input) {}, ""},
		{"runs well", func(_ *Config, in *Input) { alter(in, "pg-2", func(s *State) { s.RecentlyUnresponsive = false }) }, "pg-2"},
		{"asked for now", func(c *Config, _ *Input) { c.SwitchoverRequested = true }, "pg-2"},
	} {
		c, in := switchoverRequested()
		down(&in)
		in.ShuttingDown = true
		tc.change(&c, &in)
		if got := Decide(c, in).Action.(Release).Lease.Preferred; got != tc.want {
			t.Errorf("%s: a release prefers %q, not %q", tc.name, got, tc.want)
		}
	}
}

// 6. An instance that spec.preferredPrimary names, and that hangs whenever it was primary for a while, is primary no more often than it is
// trusted; whoever asks for it has it at once.
func TestModel_unresponsiveAgain(t *testing.T) {
	for seed := range uint64(12) {
		s, first, next, wrong := runUnresponsive(seed, 3, false)
		if wrong != "" {
			t.Fatalf("seed %d: %s", seed, wrong)
		}
		if next == first {
			continue // it had more than the others
		}
		s.wish(first.name, false)
		s.await(s.sim.settled)
		s.pass(s.timing.ProbationPeriod - 2*time.Minute)
		if s.sim.leader() != next {
			t.Fatalf("seed %d: %s, which was unresponsive, is primary again: %v", seed, first.name, s.sim.broken)
		}
		if seed%2 == 0 {
			s.wish(first.name, true)
			s.pass(time.Minute)
		} else {
			s.pass(3 * time.Minute)
		}
		if s.sim.leader() != first {
			t.Fatalf("seed %d: %s does not lead: %v", seed, first.name, s.sim.broken)
		}
	}
}

// wish names a primary, for good or of the moment.
func (s *schedule) wish(name string, asked bool) {
	for _, n := range s.sim.nodes {
		n.config.SwitchoverTarget, n.config.SwitchoverRequested = name, asked
	}
}
