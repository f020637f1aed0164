package election

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func quorum(names ...string) Quorum { return Quorum{Number: 1, Names: names} }

// synchronousCampaign is electing in a synchronous cluster whose primary was pg-1.
func synchronousCampaign() (Config, Input) {
	c, in := freeLease()
	c.Synchronous = 1
	in.Lease.UnchangedSince = now - 15*second
	in.Lease.Lease.Sync = []Quorum{quorum("pg-0", "pg-2")}
	in.Server.Sync = StandbySync(c, in)
	return c, in
}

// 8. The WAL receiver is ended before anything is compared.
func TestQuorum_receiverStillRunning(t *testing.T) {
	test(t, freeLease, []decision{
		{"ends it", func(_ *Config, in *Input) { in.Server.Upstream, in.Server.Receiving = "pg-1", true }, "Follow{}", "StoppingWALReceiver"},
		{"waits until it has ended", func(_ *Config, in *Input) { in.Server.Receiving = true }, "Wait{}", "WAL receiver"},
		{"also before a promotion", func(_ *Config, in *Input) {
			ownLease(in)
			in.Tenure.Confirmed, in.Tenure.AcquiredAt = Write{Sent: now - second, Lease: in.Lease.Lease}, now-second
			in.Tenure.TriedAt, in.Lease.Lease.Timeline = now-second, 4
			in.Server.Upstream, in.Server.Receiving = "pg-1", true
		}, "Follow{}", "StoppingWALReceiver"},
		{"does not follow again until another instance wrote", func(c *Config, in *Input) {
			in.Lease = in.Lease.Failed(now).Read(now+1, 6*second, in.Lease.Lease)
			in.Now = now + 1
			c.Fenced = false
		}, "Wait{}", ""},
	})
}

// 9. R + W > N.
func TestQuorum(t *testing.T) {
	test(t, synchronousCampaign, []decision{
		{"both can be read", nil, "Acquire", ""},
		{"one of two can be read", func(_ *Config, in *Input) { in.Peers = nil }, "Wait{}", "only 1 of"},
		{"the other still receives", func(_ *Config, in *Input) {
			alter(in, "pg-2", func(s *State) { s.WALReceiverStoppedFor = "" })
		}, "Wait{}", "only 1 of"},
		{"the other gave up another record", func(_ *Config, in *Input) {
			alter(in, "pg-2", func(s *State) { s.WALReceiverStoppedFor = "6" })
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
			in.Peers, in.Lease.Lease.CleanShutdown, in.Lease.Lease.Released = nil, true, true
			in.Lease.Lease.Holder = Holder{}
		}, "Acquire", ""},
		{"all but the last is here", func(_ *Config, in *Input) {
			in.Peers, in.Lease.Lease.CleanShutdown, in.Lease.Lease.Released = nil, true, true
			in.Lease.Lease.Holder, in.Server.Position.LSN = Holder{}, 999
		}, "Wait{}", "only 1 of"},
		{"it was the last primary", func(_ *Config, in *Input) {
			crash(in)
			in.Peers, in.Server.Role, in.Lease.Lease.Primary = nil, Primary, "pg-0"
		}, "Acquire", ""},
		{"it has the last primary's name, and a copied directory", func(_ *Config, in *Input) {
			in.Peers, in.Lease.Lease.Primary = nil, "pg-0"
		}, "Wait{}", "only 1 of"},
		{"of a Lease re-created nothing is known", func(_ *Config, in *Input) {
			in.Lease.Lease = Lease{Version: "7"}
			in.Peers = nil
		}, "Wait{}", "only 1 of"},
		{"but two of three instances have everything", func(_ *Config, in *Input) { in.Lease.Lease = Lease{Version: "7"} }, "Acquire", ""},
		{"asynchronous by now", func(c *Config, in *Input) { c.Synchronous, in.Peers, in.Server.Sync = 0, nil, nil }, "Acquire", ""},
	})
}

// 9. An agent of which the object is older than that of the record's writer goes by the settings that are published.
func TestQuorum_olderObject(t *testing.T) {
	for _, tc := range []struct {
		name      string
		own, last int64 // generations of the agent's object and of the record
		want      string
	}{
		{"as new", 5, 5, "Acquire"},
		{"newer: turned off", 6, 5, "Acquire"},
		{"older: turned on", 4, 5, "only 1 of"},
		{"kept on the volume, of unknown age", 0, 5, "only 1 of"},
		{"kept on the volume, and the holder's agent published no generation", 0, 0, "only 1 of"},
		{"of the API server, and the holder's agent published no generation", 4, 0, "Acquire"},
	} {
		c, in := synchronousCampaign()
		c.Synchronous, c.Generation, in.Lease.Lease.Generation = 0, tc.own, tc.last
		in.Server.Sync = StandbySync(c, in)
		in.Peers = nil // pg-2, which may have confirmed what is not here, is silent
		in.Lease.UnchangedSince = now - time.Hour
		d := Decide(c, in)
		if got := fmt.Sprintf("%T %s", d.Action, d.Reason); !strings.Contains(got, tc.want) {
			t.Errorf("%s: %s, want %s", tc.name, got, tc.want)
		}
	}
	c, in := synchronousCampaign()
	c.Synchronous, c.Generation = 0, 4
	in.Lease.Lease.Generation, in.Lease.Lease.Sync = 5, []Quorum{{Number: 2, Names: []string{"pg-0", "pg-2"}}}
	if got := StandbySync(c, in); got == nil || got.Number != 2 {
		t.Errorf("starts with %v", got)
	}
	if l := newDecider(c, in).acquisitionRecord(); l.Generation != 5 || len(l.Sync) != 1 {
		t.Errorf("claims %+v", l)
	}
	c, in = synchronous()
	c.Synchronous, c.Generation, in.Lease.Lease.Generation = 0, 4, 5
	if next, _ := newDecider(c, in).renewalRecord(); next.Generation != 5 || len(next.Sync) != 1 {
		t.Errorf("a primary with an older object publishes %+v", next)
	}
	if q, ok := newDecider(c, in).nextSync(); ok {
		t.Errorf("a primary with an older object loads %v", q)
	}
	c.Generation = 6
	if next, urgent := newDecider(c, in).renewalRecord(); next.Generation != 6 || len(next.Sync) != 0 || !urgent {
		t.Errorf("turned off: publishes %+v, urgent %v", next, urgent)
	}
}

// 9. A standby that runs while the mode is turned on acknowledges nothing from the moment on that it is promoted.
func TestDecide_standbyLoadsSyncMode(t *testing.T) {
	on := func(c *Config, in *Input) { c.Synchronous, in.Server.Sync = 1, nil }
	test(t, asStandby, []decision{
		{"a standby without the setting loads it", on, "SetSync", "turned on"},
		{"one that has it does not", func(c *Config, in *Input) { on(c, in); in.Server.Sync = StandbySync(*c, *in) }, "Wait{}", "Following"},
		{"one of an asynchronous cluster has none", nil, "Wait{}", "Following"},
		{"turned off: it goes", func(_ *Config, in *Input) { in.Server.Sync = &Quorum{Number: 1} }, "SetSync{<nil>}", ""},
	})
	test(t, freeLease, []decision{
		{"before it takes the Lease", func(c *Config, in *Input) {
			on(c, in)
			in.Lease.UnchangedSince = now - time.Hour
		}, "SetSync", ""},
		{"before it is promoted", func(c *Config, in *Input) {
			on(c, in)
			ownLease(in)
			in.Lease.Lease.Timeline = 4
			in.Tenure.Confirmed, in.Tenure.AcquiredAt = Write{Sent: now - second, Lease: in.Lease.Lease}, now-second
			in.Tenure.TriedAt = now - second
		}, "SetSync", ""},
		{"also where only the record knows of the mode", func(c *Config, in *Input) {
			ownLease(in)
			c.Generation, in.Lease.Lease.Generation = 4, 5
			in.Lease.Lease.Timeline, in.Lease.Lease.Sync = 4, []Quorum{quorum("pg-0", "pg-2")}
			in.Tenure.Confirmed, in.Tenure.AcquiredAt = Write{Sent: now - second, Lease: in.Lease.Lease}, now-second
			in.Tenure.TriedAt = now - second
		}, "SetSync", ""},
	})
}

// synchronous is leading with both standbys in the setting.
func synchronous() (Config, Input) {
	c, in := asPrimary()
	c.Synchronous = 1
	q := quorum("pg-1", "pg-2")
	in.Server.Sync, in.Server.SyncLSN = &q, 900
	in.Lease.Lease.Sync = []Quorum{q}
	return c, in
}

// 9. A setting is published before it is loaded, and the one before only withdrawn when the new one has settled.
func TestRenew_publishesChanges(t *testing.T) {
	away := func(in *Input) {
		in.Standbys["pg-1"] = StandbyStatus{StreamingAt: now - 11*second}
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
			in.Standbys["pg-1"] = StandbyStatus{StreamingAt: now - 9*second}
		}, both[:1], nil},
		{"one is away: published first", func(_ *Config, in *Input) { away(in) }, both, nil},
		{"then loaded", func(_ *Config, in *Input) { away(in); in.Lease.Lease.Sync = both }, both, &both[1]},
		{"not while a write may take it back", func(c *Config, in *Input) {
			away(in)
			in.Lease.Lease.Sync = both
			in.Tenure.Indeterminate = []Write{{Sent: now, Lease: Lease{Holder: c.Self, Sync: both[:1]}}}
		}, both, nil},
		{"not before the Lease says who is primary", func(_ *Config, in *Input) {
			away(in)
			in.Lease.Lease.Sync, in.Lease.Lease.Primary = both, "pg-2"
		}, both, nil},
		{"the old one stays until the new one has everything", func(_ *Config, in *Input) {
			away(in)
			in.Lease.Lease.Sync, in.Server.Sync, in.Server.SyncLSN = both, &both[1], 1001
		}, both, nil},
		{"then it goes", func(_ *Config, in *Input) {
			away(in)
			in.Lease.Lease.Sync, in.Server.Sync = both, &both[1]
		}, both[1:], nil},
		{"it never shrinks below what confirms", func(_ *Config, in *Input) {
			in.Standbys = nil
		}, both[:1], nil},
		{"a standby that has not caught up does not join", func(_ *Config, in *Input) {
			in.Lease.Lease.Sync, in.Server.Sync = both[1:], &both[1]
			in.Standbys["pg-1"] = StandbyStatus{Streaming: true, FlushLSN: 10, StreamingAt: now}
		}, both[1:], nil},
		{"one that has does", func(_ *Config, in *Input) {
			in.Lease.Lease.Sync, in.Server.Sync = both[1:], &both[1]
		}, []Quorum{both[1], both[0]}, nil},
		{"a primary that has just started acknowledges nothing", func(c *Config, in *Input) {
			in.Standbys, in.Server.Sync, in.Lease.Lease.Sync = nil, StandbySync(*c, *in), nil
		}, []Quorum{{Number: 1}}, nil},
		{"asynchronous", func(c *Config, _ *Input) { c.Synchronous = 0 }, nil, new(Quorum)},
	} {
		c, in := synchronous()
		if tc.change != nil {
			tc.change(&c, &in)
		}
		v := newDecider(c, in)
		if diff := cmp.Diff(tc.want, v.syncToPublish()); diff != "" {
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
