package election

import (
	"math/rand/v2"
	"testing"
	"time"
)

// severed is pg-0 as a standby of pg-1, which has removed what comes after 1000; pg-0 has waited for its turn for long.
func severed() (Config, Input) {
	c, in := following()
	alter(&in, "pg-1", func(s *State) { s.Oldest, s.Position.LSN = 2000, 3000 })
	alter(&in, "pg-2", func(s *State) { s.Position.LSN = 3000 })
	in.Lease.Lease.End.LSN = 3000
	in.Server.Receiving = false
	in.Server.Severed, in.Server.Looked, in.Server.Awaits = now-11*second, now-second, now-15*second
	return c, in
}

// stalled is pg-0 as a standby of pg-1 that receives nothing.
func stalled() (Config, Input) {
	c, in := following()
	in.Server.Receiving = false
	c.Stall = 30 * second
	in.Server.Stalled, in.Server.Reached, in.Server.Awaits = now-31*second, now-second, now-15*second
	return c, in
}

// crashing is pg-0 as a standby of pg-1 that has ended again and again.
func crashing() (Config, Input) {
	c, in := following()
	crash(&in)
	in.Server.Role, in.Server.Failed, in.Server.Awaits = Standby, maxFailures, now-15*second
	return c, in
}

func other(change func(s *State)) func(*Config, *Input) {
	return func(_ *Config, in *Input) { alter(in, "pg-2", change) }
}

// guards hold for all data that cannot follow: what is done where a reclone would be due. while is what the instance does instead.
func guards(while string) []decision {
	asked := func(c *Config, in *Input) { c.RecloneAsked = true; delete(in.Peers, "pg-2") }
	return []decision{
		{"paused", func(c *Config, _ *Input) { c.Paused, c.RecloneAsked = true, true }, while, "paused"},
		{"off", func(c *Config, _ *Input) { c.AutoReclone = false }, while, "fettle.dev/reclone=pg-0"},
		{"the only other copy", func(_ *Config, in *Input) { delete(in.Peers, "pg-2") }, while, "fettle.dev/reclone=pg-0"},
		{"the other is being recloned", other(func(s *State) { s.Work = Cloning }), while, "pg-2 to be recloned first"},
		{"the other has no copy yet", other(func(s *State) { s.Data = Partial }), while, "pg-2 to have a copy first"},
		{"the other is of another cluster", other(func(s *State) { s.SystemID = "other" }), while, "only other copy"},
		{"the others may not know yet", func(_ *Config, in *Input) { in.Server.Awaits = now - 13*second }, "Wait{}", "tells the others"},
		{"the other waits too, and comes later", other(func(s *State) { s.Awaits = true }), "", ""},
		{"the other cannot follow either", other(func(s *State) { s.Severed = true }), "", ""},
		{"off, and a person asked", func(c *Config, _ *Input) { c.AutoReclone, c.RecloneAsked = false, true }, "", ""},
		{"the only other copy, and a person asked", asked, "", ""},
	}
}

// guarded adds what is done where nothing forbids it.
func guarded(t *testing.T, start func() (Config, Input), while, done string) {
	t.Helper()
	cases := guards(while)
	for i := range cases {
		if cases[i].want == "" {
			cases[i].want = done
		}
	}
	test(t, start, append(cases, decision{"as it is", nil, done, "cannot follow the primary"}))
}

// 10. A standby that cannot follow is recloned, with the same guards whatever the reason.
func TestCannotFollow_guards(t *testing.T) {
	guarded(t, severed, "Wait{}", "Stop{1 false}")
	guarded(t, stalled, "Wait{}", "Stop{1 false}")
	guarded(t, crashing, "Wait{}", "Reclone")
	guarded(t, func() (Config, Input) {
		c, in := following()
		down(&in)
		in.Server.Data = Unfit
		in.Server.Awaits = now - 15*second
		return c, in
	}, "Wait{}", "Reclone")
}

// 10. What counts as a standby that cannot follow.
func TestCannotFollow_reasons(t *testing.T) {
	test(t, severed, []decision{
		{"stopped: recloned", func(_ *Config, in *Input) { down(in) }, "Reclone{pg-2}", "removed WAL"},
		{"not from one that is severed too", func(_ *Config, in *Input) { down(in); alter(in, "pg-2", func(s *State) { s.Severed = true }) }, "Reclone{pg-1}", ""},
		{"nor from one that will be found so", func(_ *Config, in *Input) { down(in); alter(in, "pg-2", func(s *State) { s.Position.LSN = 1999 }) }, "Reclone{pg-1}", ""},
		{"not while it may be on its way", func(_ *Config, in *Input) { in.Server.Looked = now - 1001*time.Millisecond }, "Wait{}", "follows"},
		{"follows what has not removed it", func(_ *Config, in *Input) { alter(in, "pg-1", func(s *State) { s.Oldest = 1000 }) }, "Wait{}", "follows"},
		{"off: is started", func(c *Config, in *Input) { down(in); c.AutoReclone = false }, "StartStandby{pg-1}", ""},
		{"no primary serves: runs on", func(_ *Config, in *Input) { alter(in, "pg-1", func(s *State) { s.Writable = false }) }, "Wait{}", ""},
		{"no primary serves: is started", func(_ *Config, in *Input) { down(in); delete(in.Peers, "pg-1") }, "StartStandby{pg-1}", ""},
		{"one that has left the history is rewound", func(_ *Config, in *Input) { down(in); in.Server.Position = Position{2, 501} }, "Rewind{pg-1}", ""},
	})
	test(t, stalled, []decision{
		{"not for long", func(_ *Config, in *Input) { in.Server.Stalled = now - 29*second }, "Wait{}", "follows"},
		{"the primary takes no connections", func(_ *Config, in *Input) { in.Server.Reached = 0 }, "Wait{}", "follows"},
		{"it took one long ago", func(_ *Config, in *Input) { in.Server.Reached = now - 21*second }, "Wait{}", "follows"},
		{"not for long, and a person asked", func(c *Config, in *Input) {
			in.Server.Stalled, in.Server.Reached, c.RecloneAsked = now-11*second, now-second, true
		}, "Stop{1 false}", ""},
		{"for a moment, and a person asked", func(c *Config, in *Input) { in.Server.Stalled, c.RecloneAsked = now-second, true }, "Wait{}", "follows"},
		{"a new copy is not replaced again", func(_ *Config, in *Input) { in.Server.Copied = true }, "Wait{}", "not even with a new copy"},
		{"stopped: recloned", func(_ *Config, in *Input) { down(in) }, "Reclone{pg-2}", "reachable"},
		{"stopped, and the primary took no connections", func(_ *Config, in *Input) { down(in); in.Server.Reached = 0 }, "StartStandby{pg-1}", ""},
		{"it hung, and is down now: starts first", func(_ *Config, in *Input) {
			down(in)
			in.Server.Stalled, in.Server.Reached, in.Server.Awaits = now-60*second, now-60*second, 0
		}, "StartStandby{pg-1}", ""},
		{"stopped long ago, while others had their turn", func(_ *Config, in *Input) {
			down(in)
			in.Server.Stalled, in.Server.Reached = now-60*second, now-60*second
		}, "Reclone{pg-2}", ""},
	})
	test(t, crashing, []decision{
		{"four times", func(_ *Config, in *Input) { in.Server.Failed = maxFailures - 1 }, "Wait{}", "to start again"},
		{"once, and a person asked", func(c *Config, in *Input) { in.Server.Failed, c.RecloneAsked = 1, true }, "Reclone{pg-2}", ""},
		{"a new copy is not replaced again", func(_ *Config, in *Input) { in.Server.Copied = true }, "Wait{}", "not even with a new copy"},
		{"off: tries again now and then", func(c *Config, in *Input) {
			in.Server.Crashed, in.Server.Since, c.AutoReclone = now-time.Minute, now-time.Minute, false
		}, "StartStandby{pg-1}", ""},
		{"off: but not as often", func(c *Config, in *Input) {
			in.Server.Crashed, in.Server.Since, c.AutoReclone = now-20*second, now-20*second, false
		}, "Wait{}", "fettle.dev/reclone=pg-0"},
		{"off: a person is asked while it starts, too", func(c *Config, in *Input) {
			in.Server.Process, in.Server.Upstream, c.AutoReclone = Starting, "pg-1", false
		}, "Wait{}", "fettle.dev/reclone=pg-0"},
		{"a primary is not recloned", func(_ *Config, in *Input) { in.Server.Role, in.Server.Crashed = Primary, 0 }, "Rewind{pg-1}", ""},
	})
	test(t, leading, []decision{
		{"a standby that has the Lease and cannot start gives it back", func(_ *Config, in *Input) {
			down(in)
			in.Server.Role, in.Server.Failed = Standby, maxFailures
		}, "Release", "before it could be promoted"},
		{"not if nobody else has a copy", func(_ *Config, in *Input) {
			down(in)
			in.Server.Role, in.Server.Failed, in.Peers = Standby, maxFailures, nil
		}, "StartStandby{}", "promoted"},
	})
	test(t, following, []decision{
		{"starts for long, and a person asked", func(c *Config, in *Input) {
			in.Server.Process, in.Server.Since, in.Server.Awaits, c.RecloneAsked = Starting, now-time.Minute, now-15*second, true
		}, "Stop{1 false}", "does not become ready"},
		{"follows, and a person asked", func(c *Config, _ *Input) { c.RecloneAsked = true }, "Wait{}", "follows"},
	})
	test(t, electing, []decision{
		{"it can be elected", func(_ *Config, in *Input) {
			in.Server.Severed, in.Server.Looked = now-time.Minute, now
			alter(in, "pg-2", func(s *State) { s.Position.LSN = 900 })
		}, "Acquire", ""},
	})
}

// 10. Of two that cannot follow, the lower ordinal goes first.
func TestCannotFollow_order(t *testing.T) {
	test(t, func() (Config, Input) {
		c, in := severed()
		c.Self.Name = "pg-2"
		in.Peers["pg-0"] = in.Peers["pg-2"]
		delete(in.Peers, "pg-2")
		return c, in
	}, []decision{
		{"the first waits too", func(_ *Config, in *Input) { alter(in, "pg-0", func(s *State) { s.Awaits = true }) }, "Wait{}", "pg-0 to be recloned first"},
		{"the first waits for a person", func(_ *Config, in *Input) { alter(in, "pg-0", func(s *State) { s.Severed = true }) }, "Stop{1 false}", ""},
	})
}

// Since when a standby cannot follow.
func TestTrack(t *testing.T) {
	for _, tc := range []struct {
		name             string
		change           func(c *Config, in *Input)
		severed, stalled time.Duration
	}{
		{"from now on", func(_ *Config, in *Input) { in.Server.Severed, in.Server.Stalled = 0, 0 }, now, now},
		{"since then", func(*Config, *Input) {}, now - 11*second, now - 12*second},
		{"it has what comes next", func(_ *Config, in *Input) { in.Server.Position.LSN = 2000 }, 0, now - 12*second},
		{"the primary does not say", func(_ *Config, in *Input) { alter(in, "pg-1", func(s *State) { s.Oldest = 0 }) }, 0, now - 12*second},
		{"it does not answer", func(_ *Config, in *Input) { delete(in.Peers, "pg-1") }, 0, 0},
		{"it answered long ago", func(_ *Config, in *Input) {
			in.Peers["pg-1"] = Answer{Sent: now - 7*second, State: in.Peers["pg-1"].State}
		}, 0, 0},
		{"it is the primary no more", func(_ *Config, in *Input) { alter(in, "pg-1", func(s *State) { s.Writable = false }) }, 0, 0},
		{"another has the Lease", func(_ *Config, in *Input) { in.Lease.Lease.Holder.Name = "pg-2" }, 0, 0},
		{"it has not said yet what it leads with", func(_ *Config, in *Input) { in.Lease.Lease.Primary = "pg-2" }, 0, 0},
		{"this follows another", func(_ *Config, in *Input) { in.Server.Upstream = "pg-2" }, 0, 0},
		{"this one is starting", func(_ *Config, in *Input) { in.Server.Process = Starting }, 0, 0},
		{"this one is a primary", func(_ *Config, in *Input) { in.Server.Role = Primary }, 0, 0},
		{"this one may have more on its disk", func(_ *Config, in *Input) { in.Server.Exact = false }, 0, now - 12*second},
		{"this one is down", func(_ *Config, in *Input) { down(in) }, now - 11*second, now - 12*second},
	} {
		c, in := severed()
		in.Server.Stalled = now - 12*second
		tc.change(&c, &in)
		if got := Track(c, in); got.Severed != tc.severed || got.Stalled != tc.stalled {
			t.Errorf("%s: severed %s, stalled %s, not %s, %s", tc.name, got.Severed, got.Stalled, tc.severed, tc.stalled)
		}
	}
	for _, tc := range []struct {
		name   string
		change func(c *Config, in *Input)
		awaits bool
	}{
		{"severed", func(*Config, *Input) {}, true},
		{"perhaps", func(_ *Config, in *Input) { in.Server.Looked = now - 2*second }, false},
		{"paused", func(c *Config, _ *Input) { c.Paused = true }, false},
		{"off", func(c *Config, _ *Input) { c.AutoReclone = false }, false},
		{"asked for", func(c *Config, _ *Input) { c.AutoReclone, c.RecloneAsked = false, true }, true},
		{"the only other copy", func(_ *Config, in *Input) { delete(in.Peers, "pg-2") }, false},
	} {
		c, in := severed()
		tc.change(&c, &in)
		in.Server = Track(c, in)
		if got := Report(c, in); got.Awaits != tc.awaits {
			t.Errorf("%s: awaits %v", tc.name, got.Awaits)
		}
	}
}

// Two standbys of three that are severed together are recloned without a person, one after the other, also if they cannot hear
// each other for a while.
func TestModel_severedBoth(t *testing.T) {
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

// Data that cannot follow, amid all else that has to do with it.
func TestModel_cannotFollow(t *testing.T) {
	for seed := range uint64(400) {
		s := run(seed+1, false, "replication is slow", "replication is slow", "log is removed", "log is removed", "link cut", "network heals",
			"container is killed", "PostgreSQL crashes", "isolated", "data are damaged", "data are damaged", "a standby cannot stream", "a standby cannot stream")
		if len(s.w.broken) > 0 {
			t.Fatalf("seed %d: %q", s.seed, s.w.broken)
		}
	}
}
