package election

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestDecide_leaseDeleted: the holder makes the Lease again as it was, while it is certain to be the holder; no other instance does, and
// nothing is given back while there is none.
func TestDecide_leaseDeleted(t *testing.T) {
	const sent = 100 * second
	self := Holder{Name: "pg-0", UID: "a"}
	record := Lease{
		Version: "5", Holder: self, SystemID: "s", Timeline: 3, Primary: "pg-0", End: Position{Timeline: 3, LSN: 1000},
		Sync:      []Quorum{{Number: 1, Names: []string{"pg-1"}}, {Number: 1, Names: []string{"pg-1", "pg-2"}}},
		Instances: []string{"pg-0", "pg-1", "pg-2"},
	}
	c := Config{Self: self, Instances: record.Instances, Synchronous: 1, Timing: DefaultTiming()}
	held := Tenure{Confirmed: Write{Sent: sent, Lease: record}, AcquiredAt: sent, TriedAt: sent, LastRecord: record}
	gone := func(at time.Duration) Observation {
		return Observation{}.Read(sent, 6*second, record).Read(at, 6*second, Lease{})
	}
	serves := Server{
		Data: Usable, Process: Up, Role: Primary, ProcessSince: second, HeartbeatAt: sent, SystemID: "s", Position: record.End,
		Sync: &record.Sync[0], SyncLSN: 2000,
	}
	stopped := serves
	stopped.Process, stopped.CleanShutdown = Down, true
	again := record
	again.Version, again.Recreated = "", true
	for _, tc := range []struct {
		name    string
		at      time.Duration
		lease   Observation
		holding Tenure
		server  Server
		target  string
		want    Action
	}{
		{"at once", sent + second, gone(sent + second), held.Read(self, Lease{}), serves, "", Renew{Lease: again}},
		{"not after its deadline", sent + 7*second, gone(sent + 7*second), held.Read(self, Lease{}), serves, "", Stop{Mode: Immediate}},
		{"not by who does not hold it", sent + second, gone(sent + second), Tenure{}, stopped, "", Wait{}},
		{"no switchover meanwhile", sent + second, gone(sent + second), afterTry(held, sent+second), serves, "pg-1", Wait{}},
		{"nothing is released meanwhile", sent + second, gone(sent + second), afterTry(held, sent+second), stopped, "pg-1", Wait{}},
		{
			"what may have come late is observed", sent + 9*second, Observation{}.Read(sent, 60*second, again.at("7")), Tenure{}, stopped, "", Wait{},
		},
		{
			"and then given away, as one without a record", sent + 11*second, Observation{}.Read(sent, 60*second, again.at("7")), Tenure{}, stopped, "",
			Release{Lease: Lease{Version: "7", Released: true, Recreated: true, SystemID: "s", Instances: record.Instances}},
		},
		{
			"one that did not answer does not give it away before, either", sent + 9*second,
			Observation{}.Read(sent, 60*second, again.at("7")), held, stopped, "", Wait{},
		},
		{
			"and then says that its record was lost", sent + 11*second, Observation{}.Read(sent, 60*second, again.at("7")), held, stopped, "",
			Release{Lease: Lease{Version: "7", Released: true, Recreated: true, SystemID: "s", Instances: record.Instances}},
		},
	} {
		c.SwitchoverTarget = tc.target
		in := Input{Now: tc.at, Lease: tc.lease, Tenure: tc.holding, Server: tc.server, Peers: map[string]Answer{
			"pg-1": {RequestedAt: tc.at, State: State{Name: "pg-1", SystemID: "s", Data: Usable, Process: Up, Role: Standby, Position: record.End, API: true}},
		}, Standbys: map[string]StandbyStatus{"pg-1": {Streaming: true, CaughtUp: true, FlushLSN: 1000, StreamingAt: tc.at}}}
		if in.Server.HeartbeatAt = tc.at; tc.server.Process == Down {
			in.Server.ProcessSince, in.Server.HeartbeatAt, in.Server.UnresponsiveAt = tc.at-second, sent, tc.at-2*second
		}
		d := Decide(c, in)
		if diff := cmp.Diff(tc.want, d.Action); diff != "" {
			t.Errorf("%s: %s\n%s", tc.name, d.Reason, diff)
		}
	}
}

// TestDecide_recordLost: who takes a Lease of which the record was lost goes by what can be read, so what was a primary starts as a
// standby to be read. 9
func TestDecide_recordLost(t *testing.T) {
	lost := func() (Config, Input) {
		c, in := freeLease()
		down(&in)
		c.Synchronous, in.Now = 1, now+15*second
		in.Lease.Lease = Lease{Version: "7", Holder: Holder{Name: "pg-1", UID: "b"}, Recreated: true, SystemID: "s", Instances: c.Instances}
		in.Lease.UnchangedSince, in.Lease.ReadAt = now-6*second, in.Now
		in.Server.Role, in.Server.CleanShutdown, in.Server.Exact, in.Server.ProcessSince = Primary, false, false, now
		alter(&in, "pg-2", func(s *State) { s.WALReceiverStoppedFor = "" })
		return c, in
	}
	test(t, lost, []decision{
		{"starts as a standby", nil, "StartStandby{}", "StartingAsCandidate"},
		{"one that stopped in order too, as no other instance can count it", func(_ *Config, in *Input) { in.Server.CleanShutdown = true }, "StartStandby{}", "StartingAsCandidate"},
		{"also after an instance took it who was lost before it was a primary", func(_ *Config, in *Input) {
			in.Lease.Lease.Recreated, in.Lease.Lease.Timeline = false, 1040
			in.Lease.Lease.Sync = []Quorum{{Number: 2, Names: config().Instances}}
		}, "StartStandby{}", "StartingAsCandidate"},
		{"not before the others had their time", func(_ *Config, in *Input) { in.Lease.UnchangedSince += 2 * second }, "Wait{}", "only 0 of"},
		{"not while a crash is young", func(_ *Config, in *Input) {
			in.Server.CrashedAt, in.Server.ProcessSince = in.Now-second, in.Now-second
		}, "Wait{}", "after a crash"},
		{"13: asynchronous: who does not answer may have more", func(c *Config, _ *Input) { c.Synchronous = 0 }, "Wait{}", "unknown: "},
		{"13: asynchronous: a person accepts the loss", func(c *Config, _ *Input) { c.Synchronous, c.AcceptDataLoss = 0, "pg-0" }, "Acquire", ""},
		{"not while the Lease tells who was the last one", func(_ *Config, in *Input) {
			in.Lease.Lease.Primary, in.Lease.Lease.Recreated = "pg-0", false
		}, "Acquire", ""},
		{"a standby that can't be elected waits for a person", func(c *Config, in *Input) {
			in.Server.Role, in.Server.Process, in.Server.Sync = Standby, Up, StandbySync(*c, *in)
		}, "Wait{}", "only 1 of"},
		{"3: its own, late perhaps, is not given back in a hurry", func(c *Config, in *Input) {
			in.Lease.Lease.Holder, in.ShuttingDown = c.Self, true
		}, "Exit{}", "AgentStopping"},
	})
}

// TestAcquire_afterLostRecord: the one that takes the Lease next must count an instance that seems empty as one that may have had
// rows, if this one takes it and never is primary. 9
func TestAcquire_afterLostRecord(t *testing.T) {
	c, in := freeLease()
	c.Synchronous = 1
	in.Lease.Lease = Lease{Version: "7", Released: true, Recreated: true, SystemID: "s"}
	alter(&in, "pg-2", func(s *State) { s.Data, s.Process = Empty, Down })
	claimed := newDecider(c, in).acquisitionRecord()
	if diff := cmp.Diff([]Quorum{{Number: 2, Names: c.Instances}}, claimed.Sync); diff != "" {
		t.Error(diff)
	}
	claimed.Released, in.Lease.Lease = true, claimed
	if diff := cmp.Diff(claimed.Sync, newDecider(c, in).quorums()); diff != "" {
		t.Errorf("the next one: %s", diff)
	}
}

// afterTry is h while a write is rejected again and again.
func afterTry(h Tenure, at time.Duration) Tenure {
	return h.Begin(at, Lease{Holder: h.LastRecord.Holder}).Rejected()
}

func (l Lease) at(version string) Lease {
	l.Version = version
	return l
}

// TestAcquire_timelineAfterLostRecord: without a record, timelines of other instances are unknown, so each instance has a range of its own.
// The operator that started the Lease anew knows them: the next one follows without a gap, which recovery would have to read.
func TestAcquire_timelineAfterLostRecord(t *testing.T) {
	for known, want := range map[bool]uint32{false: 1024, true: 8} {
		c, in := freeLease()
		c.TimelinesKnown = known
		in.Lease.Lease = Lease{Version: "7"}
		in.Server.Role, in.Server.Position.Timeline, in.Server.HighestTimeline = Primary, 5, 7
		if got := newDecider(c, in).acquisitionRecord().Timeline; got != want {
			t.Errorf("known %t: timeline %d, want %d", known, got, want)
		}
	}
}
