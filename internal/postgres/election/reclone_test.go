package election

import (
	"math/rand/v2"
	"testing"
	"time"
)

// withWALGone is pg-0 as a standby of pg-1, which has removed what comes after 1000; pg-0 has waited for its turn for long.
func withWALGone() (Config, Input) {
	c, in := asStandby()
	alter(&in, "pg-1", func(s *State) { s.OldestWAL, s.Position.LSN = 2000, 3000 })
	alter(&in, "pg-2", func(s *State) { s.Position.LSN = 3000 })
	in.Lease.Lease.End.LSN = 3000
	in.Server.Receiving = false
	in.Server.WALGoneSince, in.Server.SampledAt, in.Server.AwaitingRecloneSince = now-11*second, now-second, now-15*second
	return c, in
}

// stalled is pg-0 as a standby of pg-1 that receives nothing.
func stalled() (Config, Input) {
	c, in := asStandby()
	in.Server.Receiving = false
	c.StallTimeout = 30 * second
	in.Server.StalledSince, in.Server.PrimaryReachedAt, in.Server.AwaitingRecloneSince = now-31*second, now-second, now-15*second
	return c, in
}

// crashedPrimary is pg-0 as a standby of pg-1 that has ended again and again.
func crashedPrimary() (Config, Input) {
	c, in := asStandby()
	crash(&in)
	in.Server.Role, in.Server.Failures, in.Server.AwaitingRecloneSince = Standby, maxFailures, now-15*second
	return c, in
}

func changePeer(change func(s *State)) func(*Config, *Input) {
	return func(_ *Config, in *Input) { alter(in, "pg-2", change) }
}

// guards hold for all data that cannot follow: what is done where a reclone would be due. while is what the instance does instead.
func guards(while string) []decision {
	asked := func(c *Config, in *Input) { c.RecloneRequested = true; delete(in.Peers, "pg-2") }
	return []decision{
		{"paused", func(c *Config, _ *Input) { c.Paused, c.RecloneRequested = true, true }, while, "paused"},
		{"off", func(c *Config, _ *Input) { c.AutoReclone = false }, while, "fettle.dev/reclone=pg-0"},
		{"the only other copy", func(_ *Config, in *Input) { delete(in.Peers, "pg-2") }, while, "fettle.dev/reclone=pg-0"},
		{"the other is being recloned", changePeer(func(s *State) { s.DataTask = Cloning }), while, "until pg-2 is recloned"},
		{"the other has no copy yet", changePeer(func(s *State) { s.Data = Incomplete }), while, "until pg-2 has a copy"},
		{"the other is of another cluster", changePeer(func(s *State) { s.SystemID = "other" }), while, "only other copy"},
		{"the others may not know yet", func(_ *Config, in *Input) { in.Server.AwaitingRecloneSince = now - 13*second }, "Wait{}", "waiting to be recloned"},
		{"the other waits too, and comes later", changePeer(func(s *State) { s.AwaitingReclone = true }), "", ""},
		{"the other cannot follow either", changePeer(func(s *State) { s.WALGone = true }), "", ""},
		{"off, and a person asked", func(c *Config, _ *Input) { c.AutoReclone, c.RecloneRequested = false, true }, "", ""},
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
	test(t, start, append(cases, decision{"as it is", nil, done, "reclon"}))
}

// 10. A standby that cannot follow is recloned, with the same guards whatever the reason.
func TestReclone_guards(t *testing.T) {
	guarded(t, withWALGone, "Wait{}", "Stop{fast false}")
	guarded(t, stalled, "Wait{}", "Stop{fast false}")
	guarded(t, crashedPrimary, "Wait{}", "Reclone")
	guarded(t, func() (Config, Input) {
		c, in := asStandby()
		down(&in)
		in.Server.Data = NeedsReclone
		in.Server.AwaitingRecloneSince = now - 15*second
		return c, in
	}, "Wait{}", "Reclone")
}

// 10. What counts as a standby that cannot follow.
func TestReclone_reasons(t *testing.T) {
	test(t, withWALGone, []decision{
		{"stopped: recloned", func(_ *Config, in *Input) { down(in) }, "Reclone{pg-2}", "WALGone"},
		{"not from one that lacks WAL too", func(_ *Config, in *Input) { down(in); alter(in, "pg-2", func(s *State) { s.WALGone = true }) }, "Reclone{pg-1}", ""},
		{"nor from one that will be found so", func(_ *Config, in *Input) { down(in); alter(in, "pg-2", func(s *State) { s.Position.LSN = 1999 }) }, "Reclone{pg-1}", ""},
		{"not while it may be on its way", func(_ *Config, in *Input) { in.Server.SampledAt = now - 1001*time.Millisecond }, "Wait{}", "Following"},
		{"follows what has not removed it", func(_ *Config, in *Input) { alter(in, "pg-1", func(s *State) { s.OldestWAL = 1000 }) }, "Wait{}", "Following"},
		{"off: is started", func(c *Config, in *Input) { down(in); c.AutoReclone = false }, "StartStandby{pg-1}", ""},
		{"no ready primary: runs on", func(_ *Config, in *Input) { alter(in, "pg-1", func(s *State) { s.Writable = false }) }, "Wait{}", ""},
		{"no ready primary: is started", func(_ *Config, in *Input) { down(in); delete(in.Peers, "pg-1") }, "StartStandby{pg-1}", ""},
		{"one that has left the history is rewound", func(_ *Config, in *Input) { down(in); in.Server.Position = Position{2, 501} }, "Rewind{pg-1}", ""},
	})
	test(t, stalled, []decision{
		{"not for long", func(_ *Config, in *Input) { in.Server.StalledSince = now - 29*second }, "Wait{}", "Following"},
		{"the primary takes no connections", func(_ *Config, in *Input) { in.Server.PrimaryReachedAt = 0 }, "Wait{}", "Following"},
		{"it took one long ago", func(_ *Config, in *Input) { in.Server.PrimaryReachedAt = now - 21*second }, "Wait{}", "Following"},
		{"not for long, and a person asked", func(c *Config, in *Input) {
			in.Server.StalledSince, in.Server.PrimaryReachedAt, c.RecloneRequested = now-11*second, now-second, true
		}, "Stop{fast false}", ""},
		{"for a moment, and a person asked", func(c *Config, in *Input) { in.Server.StalledSince, c.RecloneRequested = now-second, true }, "Wait{}", "Following"},
		{"a new copy is not replaced again", func(_ *Config, in *Input) { in.Server.ClonedSinceFollowing = true }, "Wait{}", "RecloneDidNotHelp"},
		{"stopped: recloned", func(_ *Config, in *Input) { down(in) }, "Reclone{pg-2}", "reachable"},
		{"stopped, and the primary took no connections", func(_ *Config, in *Input) { down(in); in.Server.PrimaryReachedAt = 0 }, "StartStandby{pg-1}", ""},
		{"it hung, and is down now: starts first", func(_ *Config, in *Input) {
			down(in)
			in.Server.StalledSince, in.Server.PrimaryReachedAt, in.Server.AwaitingRecloneSince = now-60*second, now-60*second, 0
		}, "StartStandby{pg-1}", ""},
		{"stopped long ago, while others had their turn", func(_ *Config, in *Input) {
			down(in)
			in.Server.StalledSince, in.Server.PrimaryReachedAt = now-60*second, now-60*second
		}, "Reclone{pg-2}", ""},
	})
	test(t, crashedPrimary, []decision{
		{"four times", func(_ *Config, in *Input) { in.Server.Failures = maxFailures - 1 }, "Wait{}", "CrashBackOff"},
		{"once, and a person asked", func(c *Config, in *Input) { in.Server.Failures, c.RecloneRequested = 1, true }, "Reclone{pg-2}", ""},
		{"a new copy is not replaced again", func(_ *Config, in *Input) { in.Server.ClonedSinceFollowing = true }, "Wait{}", "RecloneDidNotHelp"},
		{"off: tries again now and then", func(c *Config, in *Input) {
			in.Server.CrashedAt, in.Server.ProcessSince, c.AutoReclone = now-time.Minute, now-time.Minute, false
		}, "StartStandby{pg-1}", ""},
		{"off: but not as often", func(c *Config, in *Input) {
			in.Server.CrashedAt, in.Server.ProcessSince, c.AutoReclone = now-20*second, now-20*second, false
		}, "Wait{}", "fettle.dev/reclone=pg-0"},
		{"off: a person is asked while it starts, too", func(c *Config, in *Input) {
			in.Server.Process, in.Server.Upstream, c.AutoReclone = Starting, "pg-1", false
		}, "Wait{}", "fettle.dev/reclone=pg-0"},
		{"a primary is not recloned", func(_ *Config, in *Input) { in.Server.Role, in.Server.CrashedAt = Primary, 0 }, "Rewind{pg-1}", ""},
	})
	test(t, asPrimary, []decision{
		{"a standby that has the Lease and cannot start gives it back", func(_ *Config, in *Input) {
			down(in)
			in.Server.Role, in.Server.Failures = Standby, maxFailures
		}, "Release", "before it could be promoted"},
		{"not if no other instance has a copy", func(_ *Config, in *Input) {
			down(in)
			in.Server.Role, in.Server.Failures, in.Peers = Standby, maxFailures, nil
		}, "StartStandby{}", "StartingForPromotion"},
	})
	test(t, asStandby, []decision{
		{"starts for long, and a person asked", func(c *Config, in *Input) {
			in.Server.Process, in.Server.ProcessSince, in.Server.AwaitingRecloneSince, c.RecloneRequested = Starting, now-time.Minute, now-15*second, true
		}, "Stop{fast false}", "does not become ready"},
		{"follows, and a person asked", func(c *Config, _ *Input) { c.RecloneRequested = true }, "Wait{}", "Following"},
	})
	test(t, freeLease, []decision{
		{"it can be elected", func(_ *Config, in *Input) {
			in.Server.WALGoneSince, in.Server.SampledAt = now-time.Minute, now
			alter(in, "pg-2", func(s *State) { s.Position.LSN = 900 })
		}, "Acquire", ""},
	})
}

// 10. Of two that cannot follow, the lower ordinal goes first.
func TestReclone_oneAtATime(t *testing.T) {
	test(t, func() (Config, Input) {
		c, in := withWALGone()
		c.Self.Name = "pg-2"
		in.Peers["pg-0"] = in.Peers["pg-2"]
		delete(in.Peers, "pg-2")
		return c, in
	}, []decision{
		{"the first waits too", func(_ *Config, in *Input) { alter(in, "pg-0", func(s *State) { s.AwaitingReclone = true }) }, "Wait{}", "until pg-0 is recloned"},
		{"the first waits for a person", func(_ *Config, in *Input) { alter(in, "pg-0", func(s *State) { s.WALGone = true }) }, "Stop{fast false}", ""},
	})
}

// Since when a standby cannot follow.
func TestTrack_since(t *testing.T) {
	for _, tc := range []struct {
		name             string
		change           func(c *Config, in *Input)
		severed, stalled time.Duration
	}{
		{"from now on", func(_ *Config, in *Input) { in.Server.WALGoneSince, in.Server.StalledSince = 0, 0 }, now, now},
		{"since then", func(*Config, *Input) {}, now - 11*second, now - 12*second},
		{"it has what comes next", func(_ *Config, in *Input) { in.Server.Position.LSN = 2000 }, 0, now - 12*second},
		{"the primary does not say", func(_ *Config, in *Input) { alter(in, "pg-1", func(s *State) { s.OldestWAL = 0 }) }, 0, now - 12*second},
		{"it does not answer", func(_ *Config, in *Input) { delete(in.Peers, "pg-1") }, 0, 0},
		{"it answered long ago", func(_ *Config, in *Input) {
			in.Peers["pg-1"] = Answer{RequestedAt: now - 7*second, State: in.Peers["pg-1"].State}
		}, 0, 0},
		{"it is the primary no more", func(_ *Config, in *Input) { alter(in, "pg-1", func(s *State) { s.Writable = false }) }, 0, 0},
		{"another has the Lease", func(_ *Config, in *Input) { in.Lease.Lease.Holder.Name = "pg-2" }, 0, 0},
		{"it has not said yet what it is primary with", func(_ *Config, in *Input) { in.Lease.Lease.Primary = "pg-2" }, 0, 0},
		{"this follows another", func(_ *Config, in *Input) { in.Server.Upstream = "pg-2" }, 0, 0},
		{"this one is starting", func(_ *Config, in *Input) { in.Server.Process = Starting }, 0, 0},
		{"this one is a primary", func(_ *Config, in *Input) { in.Server.Role = Primary }, 0, 0},
		{"this one may have more on its disk", func(_ *Config, in *Input) { in.Server.Exact = false }, 0, now - 12*second},
		{"this one is down", func(_ *Config, in *Input) { down(in) }, now - 11*second, now - 12*second},
	} {
		c, in := withWALGone()
		in.Server.StalledSince = now - 12*second
		tc.change(&c, &in)
		if got := Track(c, in); got.WALGoneSince != tc.severed || got.StalledSince != tc.stalled {
			t.Errorf("%s: WAL gone since %s, stalled %s, not %s, %s", tc.name, got.WALGoneSince, got.StalledSince, tc.severed, tc.stalled)
		}
	}
	for _, tc := range []struct {
		name   string
		change func(c *Config, in *Input)
		awaits bool
	}{
		{"severed", func(*Config, *Input) {}, true},
		{"perhaps", func(_ *Config, in *Input) { in.Server.SampledAt = now - 2*second }, false},
		{"paused", func(c *Config, _ *Input) { c.Paused = true }, false},
		{"off", func(c *Config, _ *Input) { c.AutoReclone = false }, false},
		{"asked for", func(c *Config, _ *Input) { c.AutoReclone, c.RecloneRequested = false, true }, true},
		{"the only other copy", func(_ *Config, in *Input) { delete(in.Peers, "pg-2") }, false},
	} {
		c, in := withWALGone()
		tc.change(&c, &in)
		in.Server = Track(c, in)
		if got := Report(c, in); got.AwaitingReclone != tc.awaits {
			t.Errorf("%s: awaits %v", tc.name, got.AwaitingReclone)
		}
	}
}

// Two standbys of three that lack WAL together are recloned without a person, one after the other, also if they cannot hear
// each other for a while.
func TestModel_walGoneOnBoth(t *testing.T) {
	for seed := range uint64(60) {
		rng := rand.New(rand.NewPCG(seed, 5))
		s := &schedule{timing: DefaultTiming(), sim: newSimulation(rng, 3+2*int(seed%2), int(seed/2%2), DefaultTiming())}
		w := s.sim
		s.await(w.settled)
		leader := w.leader()
		for _, n := range w.nodes {
			s.pass(time.Duration(rng.IntN(2000)) * time.Millisecond)
			n.pg.lag = n != leader
		}
		s.pass(time.Duration(rng.IntN(5000)) * time.Millisecond)
		w.write(leader)
		leader.pg.OldestWAL = uint64(len(leader.pg.wal))
		if rng.IntN(2) == 0 { // two that can't hear each other
			w.cutLink(rng.IntN(3), rng.IntN(3))
		}
		s.pass(time.Duration(rng.IntN(40000)) * time.Millisecond)
		w.repairAll()
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
		s := run(seed+1, false, "replication is slow", "replication is slow", "WAL is removed", "WAL is removed", "link cut", "network heals",
			"container is killed", "PostgreSQL crashes", "isolated", "data is damaged", "data is damaged", "a standby cannot stream", "a standby cannot stream")
		if len(s.sim.broken) > 0 {
			t.Fatalf("seed %d: %q", s.seed, s.sim.broken)
		}
	}
}
