package election

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// 10. What has left the primary's history is rewound, or made anew with care.
func TestRejoin(t *testing.T) {
	exPrimary := func(in *Input) {
		crash(in)
		in.Server.Role, in.Server.Since = Primary, now-10*second
		in.Server.Crashed = 0
	}
	unfit := func(in *Input) { down(in); in.Server.Data, in.Server.Awaits = Unfit, now-time.Minute }
	test(t, following, []decision{
		{"follows", nil, "Wait{}", "follows pg-1"},
		{"follows the new primary", func(_ *Config, in *Input) { in.Server.Upstream = "pg-2" }, "Follow{pg-1}", ""},
		{"not one that it has not seen writing", func(_ *Config, in *Input) {
			in.Server.Upstream, in.Lease.Alive = "", false
		}, "Wait{}", ""},
		{"nor after a restart", func(_ *Config, in *Input) { down(in); in.Lease.Alive = false }, "StartStandby{}", ""},
		{"waits while it starts", func(_ *Config, in *Input) {
			in.Server.Process, in.Server.Since, in.Server.Upstream = Starting, now-second, ""
		}, "Wait{}", "starting"},
		{"one that starts for long follows the holder", func(_ *Config, in *Input) {
			in.Server.Process, in.Server.Since, in.Server.Upstream = Starting, now-2*second, ""
		}, "Stop{1 false}", "starts anew"},
		{"not another one than the holder", func(_ *Config, in *Input) {
			in.Server.Process, in.Server.Since, in.Server.Upstream = Starting, now-2*second, "pg-2"
		}, "Stop{1 false}", "starts anew"},
		{"and starts on if it does", func(_ *Config, in *Input) {
			in.Server.Process, in.Server.Since, in.Server.Upstream = Starting, now-30*second, "pg-1"
		}, "Wait{}", "starting"},
		{"or if nobody has written the Lease since", func(_ *Config, in *Input) {
			in.Server.Process, in.Server.Since, in.Server.Upstream, in.Lease.Alive = Starting, now-30*second, "", false
		}, "Wait{}", "starting"},
		{"was the primary: rewinds", func(_ *Config, in *Input) { exPrimary(in) }, "Rewind{pg-1}", ""},
		{"not before the other serves", func(_ *Config, in *Input) {
			exPrimary(in)
			alter(in, "pg-1", func(s *State) { s.Writable = false })
		}, "Wait{}", "to serve"},
		{"not while paused", func(c *Config, in *Input) { exPrimary(in); c.Paused = true }, "Wait{}", "paused"},
		{"was the primary, and stopped before the fork", func(_ *Config, in *Input) {
			exPrimary(in)
			in.Server.Clean, in.Server.Position = true, Position{2, 500}
		}, "StartStandby{pg-1}", "before the fork"},
		{"stopped after it", func(_ *Config, in *Input) {
			exPrimary(in)
			in.Server.Clean, in.Server.Position = true, Position{2, 501}
		}, "Rewind{pg-1}", ""},
		{"a standby beyond the fork stops", func(_ *Config, in *Input) { in.Server.Position = Position{2, 501} }, "Stop{1 false}", "left the history"},
		{"and is rewound", func(_ *Config, in *Input) { down(in); in.Server.Position = Position{2, 501} }, "Rewind{pg-1}", ""},
		{"one at the fork goes on", func(_ *Config, in *Input) { in.Server.Position = Position{2, 500} }, "Wait{}", "follows"},
		{"one of an unknown timeline is rewound", func(_ *Config, in *Input) {
			down(in)
			in.Server.Position, in.Server.History = Position{1025, 600}, []Fork{{1, 100}, {2, 400}}
			in.Lease.Lease.Timeline, in.Lease.Lease.End.Timeline, in.Lease.Lease.History = 2050, 2050, []Fork{{1, 100}, {2, 500}}
		}, "Rewind{pg-1}", ""},
		{"waits after a crash", func(_ *Config, in *Input) { crash(in) }, "Wait{}", "after a crash"},
		{"no data: copies a standby", func(_ *Config, in *Input) { in.Server = Server{} }, "Clone{pg-2}", ""},
		{"leaves the others a moment to answer", func(_ *Config, in *Input) {
			in.Server = Server{Since: now - 100*time.Millisecond}
			delete(in.Peers, "pg-2")
		}, "Wait{}", "waits for the others"},
		{"or the primary", func(_ *Config, in *Input) { in.Server = Server{Data: Partial}; delete(in.Peers, "pg-2") }, "Clone{pg-1}", ""},
		{"9: the primary, if it had confirmed commits", func(_ *Config, in *Input) {
			in.Server, in.Lease.Lease.Sync = Server{}, []Quorum{quorum("pg-0", "pg-2")}
		}, "Clone{pg-1}", ""},
		{"no data and no primary", func(_ *Config, in *Input) { in.Server, in.Peers = Server{}, nil }, "Wait{}", "no data"},
		{"unfit: made anew", func(_ *Config, in *Input) { unfit(in) }, "Reclone{pg-2}", ""},
		{"not if it is off", func(c *Config, in *Input) { unfit(in); c.AutoReclone = false }, "Wait{}", "it is not recloned"},
		{"unless a person asked for it", func(c *Config, in *Input) { unfit(in); c.AutoReclone, c.RecloneAsked = false, true }, "Reclone{pg-2}", ""},
		{"nobody asks while paused", func(c *Config, in *Input) { unfit(in); c.Paused, c.RecloneAsked = true, true }, "Wait{}", "paused"},
		{"nor without a primary", func(c *Config, in *Input) { unfit(in); c.RecloneAsked = true; delete(in.Peers, "pg-1") }, "Wait{}", "to serve"},
		{"something else is left alone", func(c *Config, in *Input) { unfit(in); in.Server.Data, c.RecloneAsked = Foreign, true }, "Wait{}", "left alone"},
		{"12: no fast loop on a full disk", func(_ *Config, in *Input) {
			crash(in)
			in.Server.FullDisk, in.Server.Since, in.Server.Crashed = true, now-10*second, now-10*second
		}, "Wait{}", "full"},
		{"not while paused, either", func(c *Config, in *Input) { unfit(in); c.Paused = true }, "Wait{}", "it is not recloned"},
		{"not without a primary", func(_ *Config, in *Input) { unfit(in); delete(in.Peers, "pg-1") }, "Wait{}", "to serve"},
		{"not the only other copy", func(_ *Config, in *Input) { unfit(in); delete(in.Peers, "pg-2") }, "Wait{}", "only other copy"},
		{"unless a person asked for it", func(c *Config, in *Input) {
			unfit(in)
			c.RecloneAsked = true
			delete(in.Peers, "pg-2")
		}, "Reclone{pg-1}", ""},
		{"one at a time", func(_ *Config, in *Input) {
			unfit(in)
			alter(in, "pg-2", func(s *State) { s.Work = Cloning })
		}, "Wait{}", "pg-2 to be recloned"},
		{"waits for what runs", func(_ *Config, in *Input) { down(in); in.Server.Work = Rewinding }, "Wait{}", "rewind"},
	})
	test(t, electing, []decision{
		{"was a primary before the last one: can be elected", func(_ *Config, in *Input) { exPrimary(in) }, "StartStandby{}", "before the last"},
	})
}

// bootstrapping is pg-0 with nothing anywhere.
func bootstrapping() (Config, Input) {
	c := config()
	c.SystemID = ""
	return c, Input{
		Now: now, Lease: Observation{Lease: Lease{Version: "1"}, Since: now, ReadAt: now},
		Peers: peers(State{Name: "pg-1"}, State{Name: "pg-2"}),
	}
}

// initdb is run once, by the first instance, with the Lease, where nobody has data.
func TestBootstrap(t *testing.T) {
	hold := func(in *Input) {
		in.Lease.Lease.Holder, in.Lease.Lease.Instances = config().Self, config().Instances
		in.Holding = Holding{Confirmed: Write{Sent: now, Lease: in.Lease.Lease}, From: now, TriedAt: now}
	}
	test(t, bootstrapping, []decision{
		{"takes the Lease", nil, "Acquire", "new cluster"},
		{"then runs initdb", func(_ *Config, in *Input) { hold(in) }, "InitDB{}", ""},
		{"again after one that did not end", func(_ *Config, in *Input) { hold(in); in.Server.Data = Partial }, "InitDB{}", ""},
		{"waits for it", func(_ *Config, in *Input) { hold(in); in.Server.Work = Initializing }, "Wait{}", "initdb"},
		{"publishes before it starts", func(_ *Config, in *Input) {
			hold(in)
			in.Server = Server{Data: Usable, Role: Primary, SystemID: "s", Position: Position{1, 10}, Clean: true}
		}, "Renew", "publishes"},
		{"and starts only then", func(_ *Config, in *Input) {
			hold(in)
			in.Server = Server{Data: Usable, Role: Primary, SystemID: "s", Position: Position{1, 10}, Clean: true}
			in.Holding.TriedAt = now + 1 // just sent again
		}, "Wait{}", "to say"},
		{"not the second instance", func(c *Config, _ *Input) { c.Self.Name = "pg-1" }, "Wait{}", "pg-0 to make"},
		{"not when another has data", func(c *Config, in *Input) {
			c.MayInitialize = true
			alter(in, "pg-2", func(s *State) { s.Data = Usable })
		}, "Wait{}", "pg-2 has data"},
		{"not when another is silent", func(_ *Config, in *Input) { delete(in.Peers, "pg-2") }, "Wait{}", "pg-2 to say"},
		{"unless its volume is new", func(c *Config, in *Input) { c.MayInitialize = true; delete(in.Peers, "pg-2") }, "Acquire", ""},
		{"not when the cluster has had data", func(c *Config, _ *Input) { c.SystemID = "s" }, "Wait{}", "primary to copy"},
		{"not when the Lease says so", func(_ *Config, in *Input) { in.Lease.Lease.SystemID = "s" }, "Wait{}", "primary to copy"},
		{"not with a Lease that another holds", func(_ *Config, in *Input) { in.Lease.Lease.Holder.Name = "pg-1" }, "Wait{}", ""},
		{"lost the volume with the Lease: gives it up", func(c *Config, in *Input) { hold(in); c.SystemID = "s" }, "Release", "no data"},
	})
}

func TestReport(t *testing.T) {
	c, in := electing()
	want := State{
		Name: "pg-0", UID: "a", SystemID: "s", Data: Usable, Process: Up, Role: Standby, Position: Position{3, 1000},
		Exact: true, Candidate: true, Yielded: "7", API: true, FirstIn: -second,
	}
	if diff := cmp.Diff(want, Report(c, in)); diff != "" {
		t.Errorf("a candidate: %s", diff)
	}
	in.Lease.Since, in.Server.Receiving = now-8*second, true
	want.Yielded, want.FirstIn = "", 2*second
	if diff := cmp.Diff(want, Report(c, in)); diff != "" {
		t.Errorf("before the Lease is free: %s", diff)
	}
	c, in = leading()
	if s := Report(c, in); !s.Writable || s.Yielded != "" {
		t.Errorf("a primary: %+v", s)
	}
	in.Holding.Confirmed.Sent = now - 7*second
	if s := Report(c, in); s.Writable {
		t.Errorf("a primary after its deadline: %+v", s)
	}
}

func TestLabel(t *testing.T) {
	for _, tc := range []struct {
		name   string
		start  func() (Config, Input)
		change func(in *Input)
		want   Label
	}{
		{"a primary", leading, func(*Input) {}, LabelPrimary},
		{"without the Lease", leading, func(in *Input) { in.Holding = Holding{} }, LabelNone},
		{"that is promoted", leading, func(in *Input) { in.Server.Process = Promoting }, LabelReplica},
		{"that is down", leading, down, LabelNone},
		{"a standby", following, func(*Input) {}, LabelReplica},
	} {
		c, in := tc.start()
		tc.change(&in)
		if got := Decide(c, in).Label; got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestHolding(t *testing.T) {
	self := config().Self
	mine := func(version string) Lease { return Lease{Version: version, Holder: self} }
	other := func(version string) Lease { return Lease{Version: version, Holder: Holder{Name: "pg-1", UID: "b"}} }
	h := Holding{}.Begin(10, mine("1")).Applied().Begin(20, mine("2")).Unknown()
	type facts struct {
		Confirmed, From time.Duration
		Unsettled       int
	}
	for _, tc := range []struct {
		name string
		got  Holding
		want facts
	}{
		{"a write without answer", h, facts{10, 10, 1}},
		{"a refusal", h.Begin(30, mine("2")).Refused(), facts{10, 10, 1}},
		{"a success", h.Begin(30, mine("3")).Applied(), facts{30, 10, 0}},
		{"a read of its own", h.Read(self, mine("9")), facts{10, 10, 1}},
		{"a read of a Lease made anew", h.Read(self, Lease{Version: "9"}), facts{10, 10, 1}},
		{"a read of another's that its own write may still replace", h.Read(self, other("2")), facts{0, 0, 1}},
		{"a read of another's", h.Read(self, other("3")), facts{}},
		{"a release", h.Begin(40, Lease{Released: true}).Applied(), facts{}},
	} {
		if diff := cmp.Diff(tc.want, facts{tc.got.Confirmed.Sent, tc.got.From, len(tc.got.Unsettled)}); diff != "" {
			t.Errorf("after %s: %s", tc.name, diff)
		}
		if tc.got.Pending != nil {
			t.Errorf("after %s a write is under way", tc.name)
		}
	}
	g := Holding{AskedAt: 5}.Granted("pg-1", 5)
	if diff := cmp.Diff(map[string]time.Duration{"pg-1": 7}, g.Granted("pg-1", 7).Granted("pg-1", 6).Promises); diff != "" || g.Promises["pg-1"] != 5 {
		t.Errorf("promises: %s, %v", diff, g.Promises)
	}
}

func TestConfigValidate(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(c *Config)
		ok     bool
	}{
		{"the defaults", func(*Config) {}, true},
		{"no pod", func(c *Config) { c.Self.UID = "" }, false},
		{"not an instance", func(c *Config) { c.Self.Name = "pg-9" }, false},
		{"two of three confirm", func(c *Config) { c.Synchronous = 2 }, true},
		{"three of three confirm", func(c *Config) { c.Synchronous = 3 }, false},
		{"no time", func(c *Config) { c.Step = 0 }, false},
		{"killed when the Lease is taken", func(c *Config) { c.Fence = 8 * second }, false},
		{"no time to renew twice", func(c *Config) { c.Renew = 3 * second }, false},
	} {
		c := config()
		tc.change(&c)
		if err := c.Validate(); (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.name, err)
		}
	}

}
