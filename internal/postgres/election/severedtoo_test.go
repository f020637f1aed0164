package election

import (
	"math/rand/v2"
	"testing"
	"time"
)

// severedBoth is pg-0 as in severed, for long, beside pg-2 in the same state, which has just said so.
func severedBoth() (Config, Input) {
	c, in := severed()
	in.Server.Severed = now - 20*second
	alter(&in, "pg-2", func(s *State) { s.Position.LSN, s.Severed = 1000, true })
	return c, in
}

// 10. Of two that are severed, the one with less is made anew while the other keeps its copy, then that one.
func TestSeveredBoth(t *testing.T) {
	other := func(change func(s *State)) func(*Config, *Input) {
		return func(_ *Config, in *Input) { alter(in, "pg-2", change) }
	}
	test(t, severedBoth, []decision{
		{"as much, and the lower number: goes first", nil, "Stop{1 false}", "removed the log"},
		{"then waits", func(_ *Config, in *Input) { down(in) }, "Wait{}", "waits to be made anew"},
		{"and is made anew", func(_ *Config, in *Input) { down(in); in.Server.Since = now - 17*second }, "Reclone", "removed the log"},
		{"down, and does not wait for one that has less", func(_ *Config, in *Input) {
			down(in)
			alter(in, "pg-2", func(s *State) { s.Position.LSN = 999 })
		}, "StartStandby", ""},
		{"down, and does not wait for one that is gone", func(_ *Config, in *Input) { down(in); delete(in.Peers, "pg-2") }, "StartStandby", ""},
		{"down, and off", func(c *Config, in *Input) { down(in); c.AutoReclone = false }, "StartStandby", ""},
		{"down, and paused", func(c *Config, in *Input) { down(in); c.Paused = true }, "StartStandby", ""},
		{"the other has more: goes first", other(func(s *State) { s.Position.LSN = 1900 }), "Stop{1 false}", ""},
		{"the other has less: waits", other(func(s *State) { s.Position.LSN = 999 }), "Wait{}", "pg-2, which has less"},
		{"it is being made anew", other(func(s *State) { s.Position.LSN, s.Work = 999, Cloning }), "Wait{}", "pg-2 to be made anew"},
		{"it has no data yet", other(func(s *State) { s.Data, s.Severed = Partial, false }), "Wait{}", "pg-2 to have a copy"},
		{"it is made anew", other(func(s *State) { s.Position.LSN, s.Severed = 3000, false }), "Stop{1 false}", ""},
		{"its word is too old", func(_ *Config, in *Input) {
			in.Peers["pg-2"] = Answer{Sent: now - 4001*time.Millisecond, State: in.Peers["pg-2"].State}
		}, "Wait{}", "pg-2 to say"},
		{"it is of another history", other(func(s *State) { s.SystemID = "other" }), "Wait{}", "only other copy"},
		{"it follows another", other(func(s *State) { s.Upstream = "pg-0" }), "Wait{}", "only other copy"},
		{"it is down", other(func(s *State) { s.Process = Down }), "Wait{}", "only other copy"},
		{"it does not answer", func(_ *Config, in *Input) { delete(in.Peers, "pg-2") }, "Wait{}", "only other copy"},
		{"off", func(c *Config, _ *Input) { c.AutoReclone = false }, "Wait{}", "spec.autoReclone is false"},
		{"paused", func(c *Config, _ *Input) { c.Paused = true }, "Wait{}", "paused"},
		{"data that can't be rewound have nothing to do with it", func(_ *Config, in *Input) { down(in); in.Server.Data = Unfit }, "Wait{}", "only other copy"},
	})
	c, in := severedBoth()
	if r := Report(c, in); !r.Awaits {
		t.Error("the one that goes first does not say that it awaits its turn")
	}
	alter(&in, "pg-2", func(s *State) { s.Position.LSN = 999 })
	if r := Report(c, in); r.Awaits {
		t.Error("the one that goes last says that it awaits its turn")
	}
	c, in = severedBoth()
	c.Self.Name = "pg-2"
	in.Peers["pg-0"] = in.Peers["pg-2"]
	delete(in.Peers, "pg-2")
	if d := Decide(c, in); d.Blocked || d.Action != (Wait{}) {
		t.Errorf("as much, and the higher number: %T because %q", d.Action, d.Reason)
	}
}

// Two standbys that are severed together are made anew without a person, one after the other.
func TestModelSeveredBoth(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 5))
		s := &schedule{timing: DefaultTiming(), w: newWorld(rng, 3+2*int(seed%2), int(seed/2%2), DefaultTiming())}
		w := s.w
		s.await(w.settled)
		leader := w.leader()
		for _, n := range w.nodes {
			s.pass(time.Duration(rng.IntN(2000)) * time.Millisecond)
			n.pg.lag = n != leader
		}
		s.pass(time.Duration(rng.IntN(5000)) * time.Millisecond)
		w.write(leader)
		leader.pg.Oldest = uint64(len(leader.pg.wal))
		if rng.IntN(2) == 0 { // two that can't hear each other
			w.cutLink(rng.IntN(3), rng.IntN(3))
		}
		s.pass(time.Duration(rng.IntN(40000)) * time.Millisecond)
		w.healAll()
		for range 3 {
			s.await(w.settled)
		}
		if len(w.broken) > 0 || !w.settled() {
			t.Fatalf("seed %d: settled %v, wrong %q", seed, w.settled(), w.broken)
		}
	}
}

// The same amid all else that has to do with it.
func TestModelSeveredBothInTrouble(t *testing.T) {
	for seed := range uint64(600) {
		s := run(seed+1, false, "replication is slow", "replication is slow", "log is removed", "log is removed", "link cut", "network heals",
			"container is killed", "PostgreSQL crashes", "isolated", "replication is slow")
		if len(s.w.broken) > 0 {
			t.Fatalf("seed %d: %q", s.seed, s.w.broken)
		}
	}
}
