package election

import (
	"testing"
	"time"
)

// severed is pg-0 as a standby of pg-1, which has removed what comes after 1000; it is known since then.
func severed() (Config, Input) {
	c, in := following()
	alter(&in, "pg-1", func(s *State) { s.Oldest, s.Position.LSN = 2000, 3000 })
	alter(&in, "pg-2", func(s *State) { s.Position.LSN = 3000 })
	in.Lease.Lease.End.LSN = 3000
	in.Server.Receiving = false
	in.Server.Severed, in.Server.Looked = now-11*second, now-second
	return c, in
}

// 10. A standby whose log the primary has removed is made anew, as carefully as one that can't be rewound.
func TestSevered(t *testing.T) {
	const gone = "which has removed the log that is needed next"
	test(t, severed, []decision{
		{"stops", nil, "Stop{1 false}", gone},
		{"and is made anew", func(_ *Config, in *Input) { down(in) }, "Reclone{pg-2}", gone},
		{"not while it may be on its way", func(_ *Config, in *Input) { in.Server.Looked = now - 1001*time.Millisecond }, "Wait{}", "looks whether"},
		{"follows what has not removed it", func(_ *Config, in *Input) {
			alter(in, "pg-1", func(s *State) { s.Oldest = 1000 })
		}, "Wait{}", ""},
		{"off: runs on", func(c *Config, _ *Input) { c.AutoReclone = false }, "Wait{}", "spec.autoReclone is false"},
		{"off: is started", func(c *Config, in *Input) { down(in); c.AutoReclone = false }, "StartStandby{pg-1}", ""},
		{"off, and a person asked for it", func(c *Config, _ *Input) { c.AutoReclone, c.RecloneAsked = false, true }, "Stop{1 false}", gone},
		{"paused: runs on", func(c *Config, _ *Input) { c.Paused, c.RecloneAsked = true, true }, "Wait{}", "paused"},
		{"paused: is started", func(c *Config, in *Input) { down(in); c.Paused = true }, "StartStandby{pg-1}", ""},
		{"the only other copy: runs on", func(_ *Config, in *Input) { delete(in.Peers, "pg-2") }, "Wait{}", "only other copy"},
		{"the only other copy: is started", func(_ *Config, in *Input) { down(in); delete(in.Peers, "pg-2") }, "StartStandby{pg-1}", ""},
		{"the only other copy, and a person asked for it", func(c *Config, in *Input) {
			delete(in.Peers, "pg-2")
			c.RecloneAsked = true
		}, "Stop{1 false}", gone},
		{"one that is severed too is not healthy", func(_ *Config, in *Input) {
			alter(in, "pg-2", func(s *State) { s.Severed = true })
		}, "Wait{}", "pg-2 to say that it keeps its copy"},
		{"nor is one that will be found so", func(_ *Config, in *Input) {
			alter(in, "pg-2", func(s *State) { s.Position.LSN = 1999 })
		}, "Wait{}", "whether pg-2 can follow"},
		{"nor is one of which the end of the log is not known", func(_ *Config, in *Input) {
			alter(in, "pg-2", func(s *State) { s.Position.LSN, s.Exact = 1999, false })
		}, "Wait{}", "only other copy"},
		{"one at a time", func(_ *Config, in *Input) {
			alter(in, "pg-2", func(s *State) { s.Work = Cloning })
		}, "Wait{}", "pg-2 to be made anew"},
		{"no primary serves: runs on", func(_ *Config, in *Input) {
			alter(in, "pg-1", func(s *State) { s.Writable = false })
		}, "Wait{}", ""},
		{"no primary serves: is started", func(_ *Config, in *Input) { down(in); delete(in.Peers, "pg-1") }, "StartStandby{pg-1}", ""},
		{"one that has left the history is rewound", func(_ *Config, in *Input) {
			down(in)
			in.Server.Position = Position{2, 501}
		}, "Rewind{pg-1}", ""},
	})
	test(t, func() (Config, Input) {
		c, in := severed()
		c.Self.Name = "pg-2"
		in.Peers["pg-0"] = in.Peers["pg-2"]
		delete(in.Peers, "pg-2")
		return c, in
	}, []decision{
		{"of two the first one goes first", func(c *Config, in *Input) {
			c.RecloneAsked = true
			alter(in, "pg-0", func(s *State) { s.Severed, s.Awaits = true, true })
		}, "Wait{}", "pg-0 to be made anew"},
		{"unless that one waits for a person", func(c *Config, in *Input) {
			c.RecloneAsked = true
			alter(in, "pg-0", func(s *State) { s.Severed = true })
		}, "Stop{1 false}", ""},
	})
	test(t, electing, []decision{
		{"it can be elected", func(_ *Config, in *Input) {
			in.Server.Severed, in.Server.Looked = now-time.Minute, now
			alter(in, "pg-2", func(s *State) { s.Position.LSN = 900 })
		}, "Acquire", ""},
	})
}

// What is known of the log of the primary, and told of one's own.
func TestSeveredSince(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(c *Config, in *Input)
		want   time.Duration
	}{
		{"from now on", func(_ *Config, in *Input) { in.Server.Severed = 0 }, now},
		{"since then", func(*Config, *Input) {}, now - 11*second},
		{"it has what comes next", func(_ *Config, in *Input) { in.Server.Position.LSN = 2000 }, 0},
		{"it does not say", func(_ *Config, in *Input) { alter(in, "pg-1", func(s *State) { s.Oldest = 0 }) }, 0},
		{"it does not answer", func(_ *Config, in *Input) { delete(in.Peers, "pg-1") }, 0},
		{"it answered long ago", func(_ *Config, in *Input) {
			in.Peers["pg-1"] = Answer{Sent: now - 7*second, State: in.Peers["pg-1"].State}
		}, 0},
		{"it is the primary no more", func(_ *Config, in *Input) { alter(in, "pg-1", func(s *State) { s.Writable = false }) }, 0},
		{"another has the Lease", func(_ *Config, in *Input) { in.Lease.Lease.Holder.Name = "pg-2" }, 0},
		{"it has not said yet what it leads with", func(_ *Config, in *Input) { in.Lease.Lease.Primary = "pg-2" }, 0},
		{"this follows another", func(_ *Config, in *Input) { in.Server.Upstream = "pg-2" }, 0},
		{"this one is starting", func(_ *Config, in *Input) { in.Server.Process = Starting }, 0},
		{"this one is a primary", func(_ *Config, in *Input) { in.Server.Role = Primary }, 0},
		{"this one may have more on its disk", func(_ *Config, in *Input) { in.Server.Exact = false }, 0},
		{"this one is down", func(_ *Config, in *Input) { down(in) }, now - 11*second},
	} {
		c, in := severed()
		tc.change(&c, &in)
		if got := Severed(c, in); got != tc.want {
			t.Errorf("%s: %s, not %s", tc.name, got, tc.want)
		}
	}
	for _, tc := range []struct {
		name    string
		change  func(c *Config, in *Input)
		severed bool
		awaits  bool
	}{
		{"severed", func(*Config, *Input) {}, true, true},
		{"perhaps", func(_ *Config, in *Input) { in.Server.Looked = now - 2*second }, false, false},
		{"paused", func(c *Config, _ *Input) { c.Paused = true }, true, false},
		{"off", func(c *Config, _ *Input) { c.AutoReclone = false }, true, false},
		{"asked for", func(c *Config, _ *Input) { c.AutoReclone, c.RecloneAsked = false, true }, true, true},
		{"the only other copy", func(_ *Config, in *Input) { delete(in.Peers, "pg-2") }, true, false},
	} {
		c, in := severed()
		tc.change(&c, &in)
		if r := Report(c, in); r.Severed != tc.severed || r.Awaits != tc.awaits {
			t.Errorf("%s: says severed %v, awaits %v", tc.name, r.Severed, r.Awaits)
		}
	}
	c, in := leading()
	in.Server.Oldest = 77
	if r := Report(c, in); r.Oldest != 77 {
		t.Errorf("a primary says that its log begins at %d", r.Oldest)
	}
	in.Server.Role = Standby
	if r := Report(c, in); r.Oldest != 0 {
		t.Errorf("a standby says that its log begins at %d", r.Oldest)
	}
}
