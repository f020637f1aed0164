package election

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func quorum(names ...string) Quorum { return Quorum{Number: 1, Names: names} }

// voting is electing in a synchronous cluster whose primary was pg-1.
func voting() (Config, Input) {
	c, in := electing()
	c.Synchronous = 1
	in.Lease.Since = now - 15*second
	in.Lease.Lease.Sync = []Quorum{quorum("pg-0", "pg-2")}
	in.Server.Sync = c.Blocked()
	return c, in
}

// 8. The WAL receiver is ended before anything is compared.
func TestZombieReceiver(t *testing.T) {
	test(t, electing, []decision{
		{"ends it", func(_ *Config, in *Input) { in.Server.Upstream, in.Server.Receiving = "pg-1", true }, "Follow{}", "ends the WAL receiver"},
		{"waits until it has ended", func(_ *Config, in *Input) { in.Server.Receiving = true }, "Wait{}", "WAL receiver"},
		{"also before a promotion", func(_ *Config, in *Input) {
			ours(in)
			in.Holding.Confirmed, in.Holding.From = Write{Sent: now - second, Lease: in.Lease.Lease}, now-second
			in.Holding.TriedAt, in.Lease.Lease.Timeline = now-second, 4
			in.Server.Upstream, in.Server.Receiving = "pg-1", true
		}, "Follow{}", "ends the WAL receiver"},
		{"does not follow again until somebody wrote", func(c *Config, in *Input) {
			in.Lease = in.Lease.Failed(now).Read(now+1, 6*second, in.Lease.Lease)
			in.Now = now + 1
			c.Fenced = false
		}, "Wait{}", ""},
	})
}

// 9. R + W > N.
func TestQuorum(t *testing.T) {
	test(t, voting, []decision{
		{"both can be read", nil, "Acquire", ""},
		{"one of two can be read", func(_ *Config, in *Input) { in.Peers = nil }, "Wait{}", "only 1 of"},
		{"the other still receives", func(_ *Config, in *Input) {
			alter(in, "pg-2", func(s *State) { s.Yielded = "" })
		}, "Wait{}", "only 1 of"},
		{"the other gave up another record", func(_ *Config, in *Input) {
			alter(in, "pg-2", func(s *State) { s.Yielded = "6" })
		}, "Wait{}", "only 1 of"},
		{"the other has more", func(_ *Config, in *Input) {
			alter(in, "pg-2", func(s *State) { s.Position.LSN++ })
		}, "Wait{}", "only 1 of"},
		{"of the other it isn't known how much it has", func(_ *Config, in *Input) {
			alter(in, "pg-2", func(s *State) { s.Exact = false })
		}, "Wait{}", "only 1 of"},
		{"it was not among those who confirm, and the others can be read", func(_ *Config, in *Input) {
			in.Lease.Lease.Sync = []Quorum{quorum("pg-2")}
		}, "Acquire", ""},
		{"each setting counts", func(_ *Config, in *Input) {
			in.Lease.Lease.Sync = []Quorum{quorum("pg-2"), quorum("pg-1", "pg-2")}
		}, "Wait{}", "[pg-1 pg-2]"},
		{"nothing could be acknowledged", func(_ *Config, in *Input) {
			in.Peers, in.Lease.Lease.Sync = nil, []Quorum{{Number: 1}}
		}, "Acquire", ""},
		{"the last primary stopped in order, and all is here", func(_ *Config, in *Input) {
			in.Peers, in.Lease.Lease.Whole, in.Lease.Lease.Released = nil, true, true
			in.Lease.Lease.Holder = Holder{}
		}, "Acquire", ""},
		{"all but the last is here", func(_ *Config, in *Input) {
			in.Peers, in.Lease.Lease.Whole, in.Lease.Lease.Released = nil, true, true
			in.Lease.Lease.Holder, in.Server.Position.LSN = Holder{}, 999
		}, "Wait{}", "only 1 of"},
		{"it was the last primary", func(_ *Config, in *Input) {
			crash(in)
			in.Peers, in.Server.Role, in.Lease.Lease.Primary = nil, Primary, "pg-0"
		}, "Acquire", ""},
		{"it has the last primary's name, and a copied directory", func(_ *Config, in *Input) {
			in.Peers, in.Lease.Lease.Primary = nil, "pg-0"
		}, "Wait{}", "only 1 of"},
		{"of a Lease made anew nothing is known", func(_ *Config, in *Input) {
			in.Lease.Lease = Lease{Version: "7"}
			in.Peers = nil
		}, "Wait{}", "only 1 of"},
		{"but two of three instances have everything", func(_ *Config, in *Input) { in.Lease.Lease = Lease{Version: "7"} }, "Acquire", ""},
		{"asynchronous by now", func(c *Config, in *Input) { c.Synchronous, in.Peers = 0, nil }, "Acquire", ""},
	})
}

// synchronous is leading with both standbys in the setting.
func synchronous() (Config, Input) {
	c, in := leading()
	c.Synchronous = 1
	q := quorum("pg-1", "pg-2")
	in.Server.Sync, in.Server.SyncAt = &q, 900
	in.Lease.Lease.Sync = []Quorum{q}
	return c, in
}

// 9. A setting is published before it is loaded, and the one before only withdrawn when the new one has settled.
func TestPublishing(t *testing.T) {
	away := func(in *Input) {
		in.Followers["pg-1"] = Follower{Seen: now - 11*second}
	}
	both := []Quorum{quorum("pg-1", "pg-2"), quorum("pg-2")}
	for _, tc := range []struct {
		name   string
		change func(c *Config, in *Input)
		want   []Quorum // to publish
		load   *Quorum
	}{
		{"nothing changes", nil, both[:1], nil},
		{"one is away for a moment", func(_ *Config, in *Input) {
			in.Followers["pg-1"] = Follower{Seen: now - 9*second}
		}, both[:1], nil},
		{"one is away: published first", func(_ *Config, in *Input) { away(in) }, both, nil},
		{"then loaded", func(_ *Config, in *Input) { away(in); in.Lease.Lease.Sync = both }, both, &both[1]},
		{"not while a write may take it back", func(c *Config, in *Input) {
			away(in)
			in.Lease.Lease.Sync = both
			in.Holding.Unsettled = []Write{{Sent: now, Lease: Lease{Holder: c.Self, Sync: both[:1]}}}
		}, both, nil},
		{"not before the Lease says who leads", func(_ *Config, in *Input) {
			away(in)
			in.Lease.Lease.Sync, in.Lease.Lease.Primary = both, "pg-2"
		}, both, nil},
		{"the old one stays until the new one has everything", func(_ *Config, in *Input) {
			away(in)
			in.Lease.Lease.Sync, in.Server.Sync, in.Server.SyncAt = both, &both[1], 1001
		}, both, nil},
		{"then it goes", func(_ *Config, in *Input) {
			away(in)
			in.Lease.Lease.Sync, in.Server.Sync = both, &both[1]
		}, both[1:], nil},
		{"it never shrinks below what confirms", func(_ *Config, in *Input) {
			in.Followers = nil
		}, both[:1], nil},
		{"a standby that has not caught up does not join", func(_ *Config, in *Input) {
			in.Lease.Lease.Sync, in.Server.Sync = both[1:], &both[1]
			in.Followers["pg-1"] = Follower{Streaming: true, Flushed: 10, Seen: now}
		}, both[1:], nil},
		{"one that has does", func(_ *Config, in *Input) {
			in.Lease.Lease.Sync, in.Server.Sync = both[1:], &both[1]
		}, []Quorum{both[1], both[0]}, nil},
		{"a primary that has just started acknowledges nothing", func(c *Config, in *Input) {
			in.Followers, in.Server.Sync, in.Lease.Lease.Sync = nil, c.Blocked(), nil
		}, []Quorum{{Number: 1}}, nil},
		{"asynchronous", func(c *Config, _ *Input) { c.Synchronous = 0 }, nil, new(Quorum)},
	} {
		c, in := synchronous()
		if tc.change != nil {
			tc.change(&c, &in)
		}
		v := newView(c, in)
		if diff := cmp.Diff(tc.want, v.publish()); diff != "" {
			t.Errorf("%s: publishes %s", tc.name, diff)
		}
		q, ok := v.nextSync()
		switch {
		case ok != (tc.load != nil):
			t.Errorf("%s: loads %v, %v", tc.name, q, ok)
		case ok && c.Synchronous > 0 && !q.Equal(*tc.load):
			t.Errorf("%s: loads %v", tc.name, q)
		}
	}
}
