package election

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestDeletedLease: the holder makes the Lease again as it was, while it is certain to be the holder; nobody else does, and
// nothing is given back while there is none.
func TestDeletedLease(t *testing.T) {
	const sent = 100 * second
	self := Holder{Name: "pg-0", UID: "a"}
	record := Lease{
		Version: "5", Holder: self, SystemID: "s", Timeline: 3, Primary: "pg-0", End: Position{Timeline: 3, LSN: 1000},
		Sync:      []Quorum{{Number: 1, Names: []string{"pg-1"}}, {Number: 1, Names: []string{"pg-1", "pg-2"}}},
		Instances: []string{"pg-0", "pg-1", "pg-2"},
	}
	c := Config{Self: self, Instances: record.Instances, Synchronous: 1, Timing: DefaultTiming()}
	held := Holding{Confirmed: Write{Sent: sent, Lease: record}, From: sent, TriedAt: sent, Seen: record}
	gone := func(at time.Duration) Observation {
		return Observation{}.Read(sent, 6*second, record).Read(at, 6*second, Lease{})
	}
	serves := Server{
		Data: Usable, Process: Up, Role: Primary, Since: second, Answered: sent, SystemID: "s", Position: record.End,
		Sync: &record.Sync[0], SyncAt: 2000,
	}
	stopped := serves
	stopped.Process, stopped.Clean = Down, true
	again := record
	again.Version, again.Remade = "", true
	for _, tc := range []struct {
		name    string
		at      time.Duration
		lease   Observation
		holding Holding
		server  Server
		target  string
		want    Action
	}{
		{"at once", sent + second, gone(sent + second), held.Read(self, Lease{}), serves, "", Renew{Lease: again}},
		{"not after its deadline", sent + 7*second, gone(sent + 7*second), held.Read(self, Lease{}), serves, "", Stop{Mode: Immediate}},
		{"not by who does not hold it", sent + second, gone(sent + second), Holding{}, stopped, "", Wait{}},
		{"no switchover meanwhile", sent + second, gone(sent + second), tried(held, sent+second), serves, "pg-1", Wait{}},
		{"nothing is released meanwhile", sent + second, gone(sent + second), tried(held, sent+second), stopped, "pg-1", Wait{}},
		{
			"what may have come late is observed", sent + 9*second, Observation{}.Read(sent, 60*second, again.at("7")), Holding{}, stopped, "", Wait{},
		},
		{
			"and then given away, as one that tells nothing", sent + 11*second, Observation{}.Read(sent, 60*second, again.at("7")), Holding{}, stopped, "",
			Release{Lease: Lease{Version: "7", Released: true, Remade: true, SystemID: "s", Instances: record.Instances}},
		},
		{
			"one that did not answer does not give it away before, either", sent + 9*second,
			Observation{}.Read(sent, 60*second, again.at("7")), held, stopped, "", Wait{},
		},
		{
			"and then says that its record was lost", sent + 11*second, Observation{}.Read(sent, 60*second, again.at("7")), held, stopped, "",
			Release{Lease: Lease{Version: "7", Released: true, Remade: true, SystemID: "s", Instances: record.Instances}},
		},
	} {
		c.SwitchoverTarget = tc.target
		in := Input{Now: tc.at, Lease: tc.lease, Holding: tc.holding, Server: tc.server, Peers: map[string]Answer{
			"pg-1": {Sent: tc.at, State: State{Name: "pg-1", SystemID: "s", Data: Usable, Process: Up, Role: Standby, Position: record.End, API: true}},
		}, Followers: map[string]Follower{"pg-1": {Streaming: true, CaughtUp: true, Flushed: 1000, Seen: tc.at}}}
		if in.Server.Answered = tc.at; tc.server.Process == Down {
			in.Server.Since, in.Server.Answered, in.Server.StoodStill = tc.at-second, sent, tc.at-2*second
		}
		d := Decide(c, in)
		if diff := cmp.Diff(tc.want, d.Action); diff != "" {
			t.Errorf("%s: %s\n%s", tc.name, d.Reason, diff)
		}
	}
}

// TestLostRecord: who takes a Lease of which the record was lost goes by what can be read, so what was a primary starts as a
// standby to be read. 9
func TestLostRecord(t *testing.T) {
	lost := func() (Config, Input) {
		c, in := electing()
		down(&in)
		c.Synchronous, in.Now = 1, now+15*second
		in.Lease.Lease = Lease{Version: "7", Holder: Holder{Name: "pg-1", UID: "b"}, Remade: true, SystemID: "s", Instances: c.Instances}
		in.Lease.Since, in.Lease.ReadAt = now-6*second, in.Now
		in.Server.Role, in.Server.Clean, in.Server.Exact, in.Server.Since = Primary, false, false, now
		alter(&in, "pg-2", func(s *State) { s.Yielded = "" })
		return c, in
	}
	test(t, lost, []decision{
		{"starts as a standby", nil, "StartStandby{}", "to be compared"},
		{"one that stopped in order too, as nobody else can count it", func(_ *Config, in *Input) { in.Server.Clean = true }, "StartStandby{}", "to be compared"},
		{"also after somebody took it who was lost before it was a primary", func(_ *Config, in *Input) {
			in.Lease.Lease.Remade, in.Lease.Lease.Timeline = false, 1040
			in.Lease.Lease.Sync = []Quorum{{Number: 2, Names: config().Instances}}
		}, "StartStandby{}", "to be compared"},
		{"not before the others had their time", func(_ *Config, in *Input) { in.Lease.Since += 2 * second }, "Wait{}", "only 0 of"},
		{"not while a crash is young", func(_ *Config, in *Input) {
			in.Server.Crashed, in.Server.Since = in.Now-second, in.Now-second
		}, "Wait{}", "after a crash"},
		{"13: asynchronous: who does not answer may have more", func(c *Config, _ *Input) { c.Synchronous = 0 }, "Wait{}", "not known how much"},
		{"13: asynchronous: a person accepts the loss", func(c *Config, _ *Input) { c.Synchronous, c.AcceptLoss = 0, "pg-0" }, "Acquire", ""},
		{"not while the Lease tells who was the last one", func(_ *Config, in *Input) {
			in.Lease.Lease.Primary, in.Lease.Lease.Remade = "pg-0", false
		}, "Acquire", ""},
		{"a standby that can't be elected waits for a person", func(c *Config, in *Input) {
			in.Server.Role, in.Server.Process, in.Server.Sync = Standby, Up, Blocked(*c, *in)
		}, "Wait{}", "only 1 of"},
		{"3: its own, late perhaps, is not given back in a hurry", func(c *Config, in *Input) {
			in.Lease.Lease.Holder, in.Stop = c.Self, true
		}, "Exit{}", "told to end"},
	})
}

// TestClaimOfALostRecord: the one that takes the Lease next must count an instance that seems empty as one that may have had
// rows, if this one takes it and never leads. 9
func TestClaimOfALostRecord(t *testing.T) {
	c, in := electing()
	c.Synchronous = 1
	in.Lease.Lease = Lease{Version: "7", Released: true, Remade: true, SystemID: "s"}
	alter(&in, "pg-2", func(s *State) { s.Data, s.Process = Empty, Down })
	claimed := newView(c, in).claim()
	if diff := cmp.Diff([]Quorum{{Number: 2, Names: c.Instances}}, claimed.Sync); diff != "" {
		t.Error(diff)
	}
	claimed.Released, in.Lease.Lease = true, claimed
	if diff := cmp.Diff(claimed.Sync, newView(c, in).quorums()); diff != "" {
		t.Errorf("the next one: %s", diff)
	}
}

// tried is h while a write is refused again and again.
func tried(h Holding, at time.Duration) Holding {
	return h.Begin(at, Lease{Holder: h.Seen.Holder}).Refused()
}

func (l Lease) at(version string) Lease {
	l.Version = version
	return l
}
