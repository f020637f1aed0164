package election

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// 10. What has left the primary's history is rewound, or re-created with care.
func TestStandby_rejoins(t *testing.T) {
	exPrimary := func(in *Input) {
		crash(in)
		in.Server.Role, in.Server.ProcessSince = Primary, now-10*second
		in.Server.CrashedAt = 0
	}
	unfit := func(in *Input) {
		down(in)
		in.Server.Data, in.Server.AwaitingRecloneSince = NeedsReclone, now-time.Minute
	}
	test(t, asStandby, []decision{
		{"follows", nil, "Wait{}", "following pg-1"},
		{"follows the new primary", func(_ *Config, in *Input) { in.Server.Upstream = "pg-2" }, "Follow{pg-1}", ""},
		{"not one that it has not seen writing", func(_ *Config, in *Input) {
			in.Server.Upstream, in.Lease.HolderActive = "", false
		}, "Wait{}", ""},
		{"nor after a restart", func(_ *Config, in *Input) { down(in); in.Lease.HolderActive = false }, "StartStandby{}", ""},
		{"waits while it starts", func(_ *Config, in *Input) {
			in.Server.Process, in.Server.ProcessSince, in.Server.Upstream = Starting, now-second, ""
		}, "Wait{}", "starting"},
		{"one that starts for long follows the holder", func(_ *Config, in *Input) {
			in.Server.Process, in.Server.ProcessSince, in.Server.Upstream = Starting, now-2*second, ""
		}, "Stop{fast false}", "RestartingToFollow"},
		{"not another one than the holder", func(_ *Config, in *Input) {
			in.Server.Process, in.Server.ProcessSince, in.Server.Upstream = Starting, now-2*second, "pg-2"
		}, "Stop{fast false}", "RestartingToFollow"},
		{"and starts on if it does", func(_ *Config, in *Input) {
			in.Server.Process, in.Server.ProcessSince, in.Server.Upstream = Starting, now-30*second, "pg-1"
		}, "Wait{}", "starting"},
		{"or if no instance has written the Lease since", func(_ *Config, in *Input) {
			in.Server.Process, in.Server.ProcessSince, in.Server.Upstream, in.Lease.HolderActive = Starting, now-30*second, "", false
		}, "Wait{}", "starting"},
		{"was the primary: rewinds", func(_ *Config, in *Input) { exPrimary(in) }, "Rewind{pg-1}", ""},
		{"not before the other serves", func(_ *Config, in *Input) {
			exPrimary(in)
			alter(in, "pg-1", func(s *State) { s.Writable = false })
		}, "Wait{}", "WaitingForReadyPrimary"},
		{"not while paused", func(c *Config, in *Input) { exPrimary(in); c.Paused = true }, "Wait{}", "paused"},
		{"was the primary, and stopped before the fork", func(_ *Config, in *Input) {
			exPrimary(in)
			in.Server.CleanShutdown, in.Server.Position = true, Position{2, 500}
		}, "StartStandby{pg-1}", "before the timeline switch"},
		{"stopped after it", func(_ *Config, in *Input) {
			exPrimary(in)
			in.Server.CleanShutdown, in.Server.Position = true, Position{2, 501}
		}, "Rewind{pg-1}", ""},
		{"a standby beyond the fork stops", func(_ *Config, in *Input) { in.Server.Position = Position{2, 501} }, "Stop{fast false}", "TimelineDiverged"},
		{"and is rewound", func(_ *Config, in *Input) { down(in); in.Server.Position = Position{2, 501} }, "Rewind{pg-1}", ""},
		{"one at the fork goes on", func(_ *Config, in *Input) { in.Server.Position = Position{2, 500} }, "Wait{}", "Following"},
		{"one of an unknown timeline is rewound", func(_ *Config, in *Input) {
			down(in)
			in.Server.Position, in.Server.History = Position{1025, 600}, []TimelineSwitch{{1, 100}, {2, 400}}
			in.Lease.Lease.Timeline, in.Lease.Lease.End.Timeline, in.Lease.Lease.History = 2050, 2050, []TimelineSwitch{{1, 100}, {2, 500}}
		}, "Rewind{pg-1}", ""},
		{"waits after a crash", func(_ *Config, in *Input) { crash(in) }, "Wait{}", "after a crash"},
		{"no data: copies a standby", func(_ *Config, in *Input) { in.Server = Server{} }, "Clone{pg-2}", ""},
		{"leaves the others a moment to answer", func(_ *Config, in *Input) {
			in.Server = Server{ProcessSince: now - 100*time.Millisecond}
			delete(in.Peers, "pg-2")
		}, "Wait{}", "WaitingForPeers"},
		{"or the primary", func(_ *Config, in *Input) { in.Server = Server{Data: Incomplete}; delete(in.Peers, "pg-2") }, "Clone{pg-1}", ""},
		{"9: the primary, if it had confirmed commits", func(_ *Config, in *Input) {
			in.Server, in.Lease.Lease.Sync = Server{}, []Quorum{quorum("pg-0", "pg-2")}
		}, "Clone{pg-1}", ""},
		{"no data and no primary", func(_ *Config, in *Input) { in.Server, in.Peers = Server{}, nil }, "Wait{}", "WaitingForPrimaryToClone"},
		{"unfit: re-created", func(_ *Config, in *Input) { unfit(in) }, "Reclone{pg-2}", ""},
		{"not if it is off", func(c *Config, in *Input) { unfit(in); c.AutoReclone = false }, "Wait{}", "not recloned"},
		{"unless a person asked for it", func(c *Config, in *Input) { unfit(in); c.AutoReclone, c.RecloneRequested = false, true }, "Reclone{pg-2}", ""},
		{"no instance asks while paused", func(c *Config, in *Input) { unfit(in); c.Paused, c.RecloneRequested = true, true }, "Wait{}", "paused"},
		{"nor without a primary", func(c *Config, in *Input) { unfit(in); c.RecloneRequested = true; delete(in.Peers, "pg-1") }, "Wait{}", "WaitingForReadyPrimary"},
		{"something else is left alone", func(c *Config, in *Input) { unfit(in); in.Server.Data, c.RecloneRequested = Unrecognized, true }, "Wait{}", "UnrecognizedData"},
		{"12: no fast loop on a full disk", func(_ *Config, in *Input) {
			crash(in)
			in.Server.FullDisk, in.Server.ProcessSince, in.Server.CrashedAt = true, now-10*second, now-10*second
		}, "Wait{}", "full"},
		{"not while paused, either", func(c *Config, in *Input) { unfit(in); c.Paused = true }, "Wait{}", "not recloned"},
		{"not without a primary", func(_ *Config, in *Input) { unfit(in); delete(in.Peers, "pg-1") }, "Wait{}", "WaitingForReadyPrimary"},
		{"not the only other copy", func(_ *Config, in *Input) { unfit(in); delete(in.Peers, "pg-2") }, "Wait{}", "only other copy"},
		{"unless a person asked for it", func(c *Config, in *Input) {
			unfit(in)
			c.RecloneRequested = true
			delete(in.Peers, "pg-2")
		}, "Reclone{pg-1}", ""},
		{"one at a time", func(_ *Config, in *Input) {
			unfit(in)
			alter(in, "pg-2", func(s *State) { s.DataTask = Cloning })
		}, "Wait{}", "until pg-2 is recloned"},
		{"waits for what runs", func(_ *Config, in *Input) { down(in); in.Server.DataTask = Rewinding }, "Wait{}", "rewind"},
	})
	test(t, freeLease, []decision{
		{"was a primary before the last one: can be elected", func(_ *Config, in *Input) { exPrimary(in) }, "StartStandby{}", "before the last"},
	})
}

// newCluster is pg-0 with nothing anywhere.
func newCluster() (Config, Input) {
	c := config()
	c.SystemID = ""
	return c, Input{
		Now: now, Lease: Observation{Lease: Lease{Version: "1"}, UnchangedSince: now, ReadAt: now},
		Peers: peers(State{Name: "pg-1"}, State{Name: "pg-2"}),
	}
}

// initdb is run once, by the first instance, with the Lease, where no instance has data.
func TestDecide_bootstrap(t *testing.T) {
	hold := func(in *Input) {
		in.Lease.Lease.Holder, in.Lease.Lease.Instances = config().Self, config().Instances
		in.Tenure = Tenure{Confirmed: Write{Sent: now, Lease: in.Lease.Lease}, AcquiredAt: now, TriedAt: now}
	}
	test(t, newCluster, []decision{
		{"takes the Lease", nil, "Acquire", "new cluster"},
		{"then runs initdb", func(_ *Config, in *Input) { hold(in) }, "InitDB{}", ""},
		{"again after one that did not end", func(_ *Config, in *Input) { hold(in); in.Server.Data = Incomplete }, "InitDB{}", ""},
		{"waits for it", func(_ *Config, in *Input) { hold(in); in.Server.DataTask = Initializing }, "Wait{}", "initdb"},
		{"publishes before it starts", func(_ *Config, in *Input) {
			hold(in)
			in.Server = Server{Data: Usable, Role: Primary, SystemID: "s", Position: Position{1, 10}, CleanShutdown: true}
		}, "Renew", "PublishingRecord"},
		{"and starts only then", func(_ *Config, in *Input) {
			hold(in)
			in.Server = Server{Data: Usable, Role: Primary, SystemID: "s", Position: Position{1, 10}, CleanShutdown: true}
			in.Tenure.TriedAt = now + 1 // just sent again
		}, "Wait{}", "WaitingForLeaseRecord"},
		{"not the second instance", func(c *Config, _ *Input) { c.Self.Name = "pg-1" }, "Wait{}", "waiting for pg-0 to initialize"},
		{"not when another has data", func(c *Config, in *Input) {
			c.MayInitialize = true
			alter(in, "pg-2", func(s *State) { s.Data = Usable })
		}, "Wait{}", "pg-2 has data"},
		{"not when another is silent", func(_ *Config, in *Input) { delete(in.Peers, "pg-2") }, "Wait{}", "waiting for pg-2 to confirm"},
		{"unless its volume is new", func(c *Config, in *Input) { c.MayInitialize = true; delete(in.Peers, "pg-2") }, "Acquire", ""},
		{"not when the cluster has had data", func(c *Config, _ *Input) { c.SystemID = "s" }, "Wait{}", "WaitingForPrimaryToClone"},
		{"not when the Lease says so", func(_ *Config, in *Input) { in.Lease.Lease.SystemID = "s" }, "Wait{}", "WaitingForPrimaryToClone"},
		{"not with a Lease that another holds", func(_ *Config, in *Input) { in.Lease.Lease.Holder.Name = "pg-1" }, "Wait{}", ""},
		{"lost the volume with the Lease: gives it up", func(c *Config, in *Input) { hold(in); c.SystemID = "s" }, "Release", "NoUsableData"},
	})
}

func TestReport(t *testing.T) {
	c, in := freeLease()
	want := State{
		Name: "pg-0", UID: "a", SystemID: "s", Data: Usable, Process: Up, Role: Standby, Position: Position{3, 1000},
		Exact: true, Candidate: true, WALReceiverStoppedFor: "7", API: true, FirstIn: -second,
	}
	if diff := cmp.Diff(want, Report(c, in)); diff != "" {
		t.Errorf("a candidate: %s", diff)
	}
	in.Lease.UnchangedSince, in.Server.Receiving = now-8*second, true
	want.WALReceiverStoppedFor, want.FirstIn = "", 2*second
	if diff := cmp.Diff(want, Report(c, in)); diff != "" {
		t.Errorf("before the Lease is free: %s", diff)
	}
	c, in = asPrimary()
	if s := Report(c, in); !s.Writable || s.WALReceiverStoppedFor != "" {
		t.Errorf("a primary: %+v", s)
	}
	in.Tenure.Confirmed.Sent = now - 7*second
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
		{"a primary", asPrimary, func(*Input) {}, LabelPrimary},
		{"without the Lease", asPrimary, func(in *Input) { in.Tenure = Tenure{} }, LabelNone},
		{"that is promoted", asPrimary, func(in *Input) { in.Server.Process = Promoting }, LabelReplica},
		{"that is down", asPrimary, down, LabelNone},
		{"a standby", asStandby, func(*Input) {}, LabelReplica},
	} {
		c, in := tc.start()
		tc.change(&in)
		if got := Decide(c, in).Label; got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

func TestTenure_writes(t *testing.T) {
	self := config().Self
	mine := func(version string) Lease { return Lease{Version: version, Holder: self} }
	other := func(version string) Lease { return Lease{Version: version, Holder: Holder{Name: "pg-1", UID: "b"}} }
	h := Tenure{}.Begin(10, mine("1")).Applied().Begin(20, mine("2")).Unknown()
	type facts struct {
		Confirmed, From time.Duration
		Unsettled       int
	}
	for _, tc := range []struct {
		name string
		got  Tenure
		want facts
	}{
		{"a write without answer", h, facts{10, 10, 1}},
		{"a refusal", h.Begin(30, mine("2")).Rejected(), facts{10, 10, 1}},
		{"a success", h.Begin(30, mine("3")).Applied(), facts{30, 10, 0}},
		{"a read of its own", h.Read(self, mine("9")), facts{10, 10, 1}},
		{"a read of a Lease re-created", h.Read(self, Lease{Version: "9"}), facts{10, 10, 1}},
		{"a read of another's that its own write may still replace", h.Read(self, other("2")), facts{0, 0, 1}},
		{"a read of another's", h.Read(self, other("3")), facts{}},
		{"a release", h.Begin(40, Lease{Released: true}).Applied(), facts{}},
	} {
		if diff := cmp.Diff(tc.want, facts{tc.got.Confirmed.Sent, tc.got.AcquiredAt, len(tc.got.Indeterminate)}); diff != "" {
			t.Errorf("after %s: %s", tc.name, diff)
		}
		if tc.got.Pending != nil {
			t.Errorf("after %s a write is under way", tc.name)
		}
	}
	g := Tenure{PromisesRequestedAt: 5}.Granted("pg-1", 5)
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
		{"no time", func(c *Config) { c.CandidateStagger = 0 }, false},
		{"killed when the Lease is taken", func(c *Config) { c.FenceDeadline = 8 * second }, false},
		{"no time to renew twice", func(c *Config) { c.RenewInterval = 3 * second }, false},
	} {
		c := config()
		tc.change(&c)
		if err := c.Validate(); (err == nil) != tc.ok {
			t.Errorf("%s: %v", tc.name, err)
		}
	}

}
