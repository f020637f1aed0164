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
			"and then taken back, as one that tells nothing", sent + 11*second, Observation{}.Read(sent, 60*second, again.at("7")), Holding{}, stopped, "", Acquire{Lease: Lease{Version: "7", Holder: self, SystemID: "s", Timeline: 1024, Instances: record.Instances}},
		},
	} {
		c.SwitchoverTarget = tc.target
		in := Input{Now: tc.at, Lease: tc.lease, Holding: tc.holding, Server: tc.server, Peers: map[string]Answer{
			"pg-1": {Sent: tc.at, State: State{Name: "pg-1", SystemID: "s", Data: Usable, Process: Up, Role: Standby, Position: record.End, API: true}},
		}, Followers: map[string]Follower{"pg-1": {Streaming: true, CaughtUp: true, Flushed: 1000, Seen: tc.at}}}
		in.Server.Answered = tc.at
		if tc.server.Process == Down {
			in.Server.Since = tc.at - second
		}
		d := Decide(c, in)
		if diff := cmp.Diff(tc.want, d.Action); diff != "" {
			t.Errorf("%s: %s\n%s", tc.name, d.Reason, diff)
		}
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
