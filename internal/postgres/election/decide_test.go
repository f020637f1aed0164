package election

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const now = 100 * second

func config() Config {
	return Config{
		Self: Holder{Name: "pg-0", UID: "a"}, Instances: []string{"pg-0", "pg-1", "pg-2"}, SystemID: "s",
		Generation: 5, Failsafe: true, AutoReclone: true, MaximumLag: 1 << 25, Timing: DefaultTiming(),
	}
}

// record is a Lease held by h, after pg-0 was the primary.
func record(h Holder) Lease {
	return Lease{
		Version: "7", Holder: h, SystemID: "s", Timeline: 3, Primary: "pg-0", End: Position{3, 1000},
		History: []TimelineSwitch{{1, 100}, {2, 500}}, Instances: config().Instances,
	}
}

func standbyState(name string, lsn uint64) State {
	return State{
		Name: name, SystemID: "s", Data: Usable, Process: Up, Role: Standby, Position: Position{3, lsn}, Exact: true,
		Candidate: true, API: true, WALReceiverStoppedFor: "7", Upstream: "pg-0", FirstIn: -time.Minute,
	}
}

func peers(states ...State) map[string]Answer {
	out := map[string]Answer{}
	for _, s := range states {
		out[s.Name] = Answer{RequestedAt: now, State: s}
	}
	return out
}

// asPrimary is pg-0 with the Lease and a ready primary, after a renewal a second ago.
func asPrimary() (Config, Input) {
	l := record(config().Self)
	return config(), Input{
		Now:    now,
		Lease:  Observation{Lease: l, UnchangedSince: now - second, ReadAt: now - second, HolderActive: true},
		Tenure: Tenure{Confirmed: Write{Sent: now - second, Lease: l}, AcquiredAt: now - 50*second, TriedAt: now - second},
		Server: Server{
			Data: Usable, Process: Up, Role: Primary, ProcessSince: now - 50*second, SystemID: "s", Position: Position{3, 1000},
			Exact: true, History: []TimelineSwitch{{1, 100}, {2, 500}}, HeartbeatAt: now - second/2,
		},
		Peers: peers(standbyState("pg-1", 1000), standbyState("pg-2", 1000)),
		Standbys: map[string]StandbyStatus{
			"pg-1": {Streaming: true, CaughtUp: true, FlushLSN: 1000, StreamingAt: now},
			"pg-2": {Streaming: true, CaughtUp: true, FlushLSN: 1000, StreamingAt: now},
		},
	}
}

// asStandby is pg-0 as a standby of pg-1, which holds the Lease and is primary.
func asStandby() (Config, Input) {
	l := record(Holder{Name: "pg-1", UID: "b"})
	l.Primary = "pg-1"
	primary := standbyState("pg-1", 1000)
	primary.Role, primary.Writable, primary.Candidate, primary.Upstream, primary.WALReceiverStoppedFor = Primary, true, false, "", ""
	other := standbyState("pg-2", 1000)
	other.Upstream, other.WALReceiverStoppedFor = "pg-1", ""
	return config(), Input{
		Now:   now,
		Lease: Observation{Lease: l, UnchangedSince: now - second, ReadAt: now - second/10, HolderActive: true},
		Server: Server{
			Data: Usable, Process: Up, Role: Standby, ProcessSince: now - 50*second, SystemID: "s", Position: Position{3, 1000},
			Exact: true, Upstream: "pg-1", Receiving: true,
		},
		Peers: peers(primary, other),
	}
}

// freeLease is pg-0 as a standby that receives nothing, and a Lease that pg-1 has not renewed for 11 s.
func freeLease() (Config, Input) {
	c, in := asStandby()
	in.Lease.UnchangedSince = now - 11*second
	in.Server.Upstream, in.Server.Receiving = "", false
	delete(in.Peers, "pg-1")
	p := standbyState("pg-2", 1000)
	p.Upstream = ""
	in.Peers["pg-2"] = Answer{RequestedAt: now, State: p}
	return c, in
}

// down ends the server as if it had stopped in order, a moment ago.
func down(in *Input) {
	in.Server.Process, in.Server.ProcessSince, in.Server.CleanShutdown = Down, now-second/10, true
	in.Server.Upstream, in.Server.Receiving = "", false
}

func crash(in *Input) {
	down(in)
	in.Server.CleanShutdown, in.Server.CrashedAt = false, in.Server.ProcessSince
}

// ownLease makes the Lease one that names this pod, in a process that has not written it.
func ownLease(in *Input) {
	in.Lease.Lease.Holder, in.Lease.Lease.Primary, in.Tenure = config().Self, "pg-0", Tenure{}
}

func alter(in *Input, name string, change func(*State)) {
	a := in.Peers[name]
	change(&a.State)
	in.Peers[name] = a
}

type decision struct {
	name   string
	change func(c *Config, in *Input)
	want   string // the action, as in "Stop{immediate false}", or its type alone
	reason string // its code, or part of its text
}

func test(t *testing.T, start func() (Config, Input), cases []decision) {
	t.Helper()
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c, in := start()
			if tc.change != nil {
				tc.change(&c, &in)
			}
			d := Decide(c, in)
			got := strings.TrimPrefix(fmt.Sprintf("%T%v", d.Action, d.Action), "election.")
			if !strings.Contains(tc.want, "{") {
				got, _, _ = strings.Cut(got, "{")
			}
			if got != tc.want || d.Code == "" || string(d.Code) != tc.reason && !strings.Contains(d.Reason, tc.reason) {
				t.Errorf("got %s because %s (%q), want %s because %q", got, d.Code, d.Reason, tc.want, tc.reason)
			}
			if d.Until <= in.Now {
				t.Errorf("decides again at %s, which is over", d.Until)
			}
		})
	}
}

// 1. Read-write only with the Lease.
func TestDecide_readWriteOnlyWithLease(t *testing.T) {
	test(t, asPrimary, []decision{
		{"is ready while it holds the Lease", nil, "Wait{}", "PrimaryReady"},
		{"stops at once when another has it", func(_ *Config, in *Input) {
			in.Lease.Lease.Holder = Holder{Name: "pg-1", UID: "b"}
		}, "Stop{immediate false}", "LeaseLost"},
		{"stops at once when its name has it, in another pod", func(_ *Config, in *Input) {
			in.Lease.Lease.Holder.UID = "new"
		}, "Stop{immediate false}", "LeaseLost"},
		{"stops at once when another client released it", func(_ *Config, in *Input) {
			in.Lease.Lease.Holder, in.Lease.Lease.Released = Holder{}, true
		}, "Stop{immediate false}", "LeaseLost"},
		{"writes itself into a Lease that was re-created", func(_ *Config, in *Input) {
			in.Lease.Lease = Lease{Version: "1"}
		}, "Renew", ""},
		{"stops what it has no write for", func(_ *Config, in *Input) { in.Tenure = Tenure{} }, "Stop{immediate false}", ""},
		{"stops what is starting without it", func(_ *Config, in *Input) {
			in.Tenure, in.Server.Process = Tenure{}, Starting
		}, "Stop{immediate false}", ""},
		{"starts with it", func(_ *Config, in *Input) { down(in) }, "StartPrimary{}", ""},
		{"takes it back first after a release without answer", func(_ *Config, in *Input) {
			down(in)
			in.Tenure.Indeterminate = []Write{{Sent: now - second, Lease: Lease{Version: "7", Released: true}}}
		}, "Acquire", "ReacquiringLease"},
	})
	test(t, asStandby, []decision{
		{"starts as a standby without it", func(_ *Config, in *Input) { down(in) }, "StartStandby{pg-1}", ""},
		{"was the primary, and stays down until there is another", func(_ *Config, in *Input) {
			down(in)
			in.Server.Role, in.Lease.Lease.Primary = Primary, "pg-0"
		}, "Wait{}", "WaitingForPrimary"},
		{"was the primary, and waits for its old pod's Lease to lapse", func(_ *Config, in *Input) {
			down(in)
			ownLease(in)
			in.Server.Role, in.Lease.Lease.Holder.UID = Primary, "old"
		}, "Wait{}", "WaitingForPrimary"},
		{"takes its own back first", func(_ *Config, in *Input) {
			down(in)
			ownLease(in)
			in.Server.Role = Primary
		}, "Acquire", "ReacquiringLease"},
	})
}

// 2. It stops on a clock that counts from the sending of the last renewal that succeeded.
func TestDeadline_limits(t *testing.T) {
	sent := func(age time.Duration) func(*Config, *Input) {
		return func(_ *Config, in *Input) {
			in.Tenure.Confirmed.Sent, in.Tenure.TriedAt = now-age, now-second/10
			in.Lease.FailedAt = now - second/10
		}
	}
	test(t, asPrimary, []decision{
		{"is ready before it", sent(6900 * time.Millisecond), "RequestPromises", ""},
		{"stops at it", sent(7 * second), "Stop{immediate false}", "not renewed in time"},
		{"kills 2 s later", func(c *Config, in *Input) {
			sent(9*second)(c, in)
			in.Server.Process, in.Server.StopMode, in.Server.ProcessSince = Stopping, Immediate, now-2*second
		}, "Stop{kill false}", ""},
		{"waits in between", func(c *Config, in *Input) {
			sent(8*second)(c, in)
			in.Server.Process, in.Server.StopMode, in.Server.ProcessSince = Stopping, Immediate, now-second
		}, "Wait{}", "WaitingForExit"},
		{"kills at once if it is that late", sent(20 * second), "Stop{kill false}", ""},
		{"hardens a stop that is under way", func(c *Config, in *Input) {
			sent(8*second)(c, in)
			in.Server.Process, in.Server.StopMode, in.Server.ProcessSince = Stopping, Fast, now-second
		}, "Stop{immediate false}", ""},
		{"a write without answer secures nothing", func(c *Config, in *Input) {
			sent(7*second)(c, in)
			in.Tenure.Indeterminate = []Write{{Sent: now - second, Lease: in.Lease.Lease}}
		}, "Stop{immediate false}", ""},
		{"nor does one under way", func(c *Config, in *Input) {
			sent(7*second)(c, in)
			in.Tenure.Pending = &Write{Sent: now - second, Lease: in.Lease.Lease}
		}, "Stop{immediate false}", ""},
		{"a single instance has none", func(c *Config, in *Input) {
			sent(time.Minute)(c, in)
			c.Instances = c.Instances[:1]
			in.Lease.Lease.Instances = c.Instances
			in.Tenure.Confirmed.Lease.Instances = c.Instances
		}, "Wait{}", "PrimaryReady"},
		{"one that grows has it from the write that may tell the others", func(c *Config, in *Input) {
			sent(time.Minute)(c, in)
			in.Tenure.Confirmed.Lease.Instances = c.Instances[:1]
			in.Tenure.Indeterminate = []Write{{Sent: now - 8*second, Lease: Lease{Holder: c.Self, Instances: c.Instances}}}
		}, "Stop{immediate false}", ""},
		{"and not before", func(c *Config, in *Input) {
			sent(time.Minute)(c, in)
			in.Tenure.Confirmed.Lease.Instances = c.Instances[:1]
			in.Tenure.Indeterminate = []Write{{Sent: now - 6*second, Lease: Lease{Holder: c.Self, Instances: c.Instances}}}
		}, "RequestPromises", ""},
	})
	c, in := asPrimary()
	fence, kill, ok := Deadline(c, in)
	if diff := cmp.Diff([]any{106 * second, 108 * second, true}, []any{fence, kill, ok}); diff != "" {
		t.Error(diff)
	}
	in.Server.Process = Down
	if _, _, ok := Deadline(c, in); ok {
		t.Error("a PostgreSQL that is down has a deadline")
	}
}

// 3. A taker has seen the same record for 10 s, or sees it released.
func TestAcquire_conditions(t *testing.T) {
	test(t, freeLease, []decision{
		{"takes it after 10 s", nil, "Acquire", "AcquiringLease"},
		{"not before", func(_ *Config, in *Input) { in.Lease.UnchangedSince = now - 9900*time.Millisecond }, "Follow{pg-1}", ""},
		{"released: at once", func(_ *Config, in *Input) {
			in.Lease.UnchangedSince, in.Lease.Lease.Released, in.Lease.Lease.Holder = now, true, Holder{}
		}, "Acquire", ""},
		{"re-created: not at once", func(_ *Config, in *Input) {
			in.Lease.UnchangedSince, in.Lease.Lease.Holder = now, Holder{}
		}, "Wait{}", ""},
		{"not while the API server does not answer", func(_ *Config, in *Input) {
			in.Lease = in.Lease.Failed(now)
		}, "Wait{}", ""},
		{"not if the holder did not know of it", func(_ *Config, in *Input) {
			in.Lease.Lease.Instances = []string{"pg-1", "pg-2"}
		}, "Wait{}", "delete the Lease"},
		{"unless it was released", func(_ *Config, in *Input) {
			in.Lease.UnchangedSince, in.Lease.Lease.Released, in.Lease.Lease.Holder = now, true, Holder{}
			in.Lease.Lease.Instances = []string{"pg-1", "pg-2"}
		}, "Acquire", ""},
		{"not if it is fenced", func(c *Config, in *Input) { c.Fenced = true; down(in) }, "Wait{}", "fenced"},
		{"not another cluster's", func(_ *Config, in *Input) { in.Server.SystemID = "other" }, "Wait{}", "another cluster"},
	})
}

// After an outage the 10 s begin with the first read.
func TestObservation_read(t *testing.T) {
	const gap = 6 * second
	l, m := Lease{Version: "1"}, Lease{Version: "2"}
	o := Observation{}.Read(10*second, gap, l)
	for _, step := range []struct {
		name  string
		next  func(Observation) Observation
		since time.Duration
		alive bool
	}{
		{"unchanged", func(o Observation) Observation { return o.Read(12*second, gap, l) }, 10 * second, false},
		{"changed", func(o Observation) Observation { return o.Read(14*second, gap, m) }, 14 * second, true},
		{"unchanged again", func(o Observation) Observation { return o.Read(16*second, gap, m) }, 14 * second, true},
		{"after a failure", func(o Observation) Observation { return o.Failed(17*second).Read(18*second, gap, m) }, 18 * second, false},
		{"goes on", func(o Observation) Observation { return o.Read(20*second, gap, m) }, 18 * second, false},
		{"after a gap", func(o Observation) Observation { return o.Read(27*second, gap, m) }, 27 * second, false},
	} {
		o = step.next(o)
		if o.UnchangedSince != step.since || o.HolderActive != step.alive {
			t.Errorf("%s: since %s, alive %v, want %s, %v", step.name, o.UnchangedSince, o.HolderActive, step.since, step.alive)
		}
	}
}
