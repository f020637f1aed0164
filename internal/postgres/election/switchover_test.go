package election

import (
	"testing"
	"time"
)

// trying is pg-0, which leads, where spec.preferredPrimary names pg-2, which stood still.
func trying() (Config, Input) {
	c, in := leading()
	c.SwitchoverTarget = "pg-2"
	alter(&in, "pg-2", func(s *State) { s.Suspect = true })
	return c, in
}

// 6. A wish that was there before its instance stood still waits.
func TestSwitchoverToWhatStoodStill(t *testing.T) {
	test(t, trying, []decision{
		{"waits", nil, "Wait{}", "pg-2 stood still"},
		{"not for ever", func(_ *Config, in *Input) { alter(in, "pg-2", func(s *State) { s.Suspect = false }) }, "Checkpoint{}", "pg-2"},
		{"asked for now", func(c *Config, _ *Input) { c.SwitchoverAsked = true }, "Checkpoint{}", "pg-2"},
		{"wished before this one led", func(c *Config, in *Input) { c.WishedAt = in.Holding.From - second }, "Wait{}", "pg-2 stood still"},
		{"wished since", func(c *Config, in *Input) { c.WishedAt = in.Holding.From + second }, "Checkpoint{}", "pg-2"},
		{"not when this one has ended for another reason", func(_ *Config, in *Input) { down(in) }, "StartPrimary{}", ""},
		{"asked for, and this one has ended", func(c *Config, in *Input) { down(in); c.SwitchoverAsked = true }, "Release", "switches over"},
	})
	c, in := trying()
	if got := Report(c, in).Distrusts; got != "pg-2" {
		t.Errorf("it says that it distrusts %q", got)
	}
	c.SwitchoverAsked = true
	if got := Report(c, in).Distrusts; got != "" {
		t.Errorf("it says that it distrusts %q, which is asked for", got)
	}
	for _, tc := range []struct {
		name   string
		change func(c *Config, in *Input)
		want   string
	}{
		{"waits", func(*Config, *Input) {}, ""},
		{"runs well", func(_ *Config, in *Input) { alter(in, "pg-2", func(s *State) { s.Suspect = false }) }, "pg-2"},
		{"asked for now", func(c *Config, _ *Input) { c.SwitchoverAsked = true }, "pg-2"},
	} {
		c, in := trying()
		down(&in)
		in.Stop = true
		tc.change(&c, &in)
		if got := Decide(c, in).Action.(Release).Lease.Preferred; got != tc.want {
			t.Errorf("%s: a release prefers %q, not %q", tc.name, got, tc.want)
		}
	}
}

// 6. An instance that spec.preferredPrimary names, and that stands still whenever it has led for a while, leads no more often than it is
// trusted; whoever asks for it has it at once.
func TestModelStandsStillAgain(t *testing.T) {
	for seed := range uint64(12) {
		s, first, next, wrong := still(seed, 3, false)
		if wrong != "" {
			t.Fatalf("seed %d: %s", seed, wrong)
		}
		if next == first {
			continue // it had more than the others
		}
		s.wish(first.name, false)
		s.await(s.w.settled)
		s.pass(s.timing.Trust - 2*time.Minute)
		if s.w.leader() != next {
			t.Fatalf("seed %d: %s, which stood still, leads again: %v", seed, first.name, s.w.broken)
		}
		if seed%2 == 0 {
			s.wish(first.name, true)
			s.pass(time.Minute)
		} else {
			s.pass(3 * time.Minute)
		}
		if s.w.leader() != first {
			t.Fatalf("seed %d: %s does not lead: %v", seed, first.name, s.w.broken)
		}
	}
}

// wish names a primary, for good or of the moment.
func (s *schedule) wish(name string, asked bool) {
	for _, n := range s.w.nodes {
		n.config.SwitchoverTarget, n.config.SwitchoverAsked = name, asked
	}
}
