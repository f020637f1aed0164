package election

import (
	"testing"
	"time"
)

// 13. Who lacks too much is not elected, and after an orderly stop who has everything is waited for.
func TestDataLoss_election(t *testing.T) {
	behind := func(lsn uint64) func(c *Config, in *Input) { // the last primary was pg-1; its record ends at 1000
		return func(c *Config, in *Input) {
			c.MaximumLag, in.Server.Position.LSN, in.Peers, in.Lease.UnchangedSince = 100, lsn, nil, now-time.Hour
		}
	}
	stopped := func(lsn uint64, ago time.Duration) func(c *Config, in *Input) {
		return func(c *Config, in *Input) {
			behind(lsn)(c, in)
			in.Lease.Lease.Holder, in.Lease.Lease.Released, in.Lease.Lease.CleanShutdown, in.Lease.UnchangedSince = Holder{}, true, true, now-ago
		}
	}
	and := func(a func(c *Config, in *Input), b func(c *Config, in *Input)) func(c *Config, in *Input) {
		return func(c *Config, in *Input) { a(c, in); b(c, in) }
	}
	said := func(p State) func(c *Config, in *Input) {
		return func(_ *Config, in *Input) { in.Peers = map[string]Answer{"pg-1": {RequestedAt: second, State: p}} }
	}
	primary := State{Name: "pg-1", SystemID: "s", Data: Usable, Process: Up, Role: Primary, Position: Position{3, 1100}}
	old := primary
	old.Position = Position{2, 99999}
	test(t, freeLease, []decision{
		{"as much as may be lost", behind(900), "Acquire", ""},
		{"more", behind(899), "Wait{}", "lacks 101 bytes of WAL of pg-1, spec.failover.maximumLag is 100"},
		{"a person accepts it", and(behind(1), func(c *Config, _ *Input) { c.AcceptDataLoss = "pg-0" }), "Acquire", ""},
		{"of another instance", and(behind(899), func(c *Config, _ *Input) { c.AcceptDataLoss = "pg-2" }), "Wait{}", "accept-data-loss=pg-0"},
		{"a preferred primary is no consent", and(behind(899), func(c *Config, _ *Input) { c.SwitchoverTarget, c.SwitchoverRequested = "pg-0", true }), "Wait{}", "lacks"},
		{"what it said last counts too", and(behind(999), said(primary)), "Wait{}", "lacks 101 bytes"},
		{"not of another timeline", and(behind(999), said(old)), "Acquire", ""},
		{"9: where commits wait for standbys, they say what was acknowledged", and(behind(1), func(c *Config, in *Input) {
			c.Synchronous, in.Lease.Lease.Sync = 1, []Quorum{quorum("pg-0", "pg-2")}
			in.Server.Sync = StandbySync(*c, *in)
			p := standbyState("pg-2", 1)
			in.Peers = map[string]Answer{"pg-2": {RequestedAt: now, State: p}}
		}), "Acquire", ""},
		{"stopped in order: what has all of it is primary", stopped(1000, 11*second), "Acquire", ""},
		{"what lacks a little waits for the one that stopped", stopped(999, 299*second), "Wait{}", "from the clean shutdown of pg-1: waiting 5m0s"},
		{"for minutes", stopped(999, 302*second), "Acquire", ""},
		{"what lacks much waits for a person", stopped(899, time.Hour), "Wait{}", "lacks 101 bytes"},
		{"who accepts it", and(stopped(1, 11*second), func(c *Config, _ *Input) { c.AcceptDataLoss = "pg-0" }), "Acquire", ""},
		{"the last primary itself does not wait for one that lacks too much", func(c *Config, in *Input) {
			stopped(1000, 11*second)(c, in)
			crash(in)
			in.Server.Role, in.Server.Exact, in.Server.Position = Primary, false, Position{3, 10}
			in.Lease.Lease.Primary = "pg-0"
			p := standbyState("pg-2", 899)
			p.FirstIn = time.Minute
			in.Peers = peers(standbyState("pg-1", 899), p)
		}, "Acquire", ""},
	})
	for _, tc := range []struct {
		ago  time.Duration
		want bool
	}{{9 * second, false}, {11 * second, true}} {
		for _, lsn := range []uint64{899, 999} {
			c, in := freeLease()
			stopped(lsn, tc.ago)(&c, &in)
			if d := Decide(c, in); d.ManualIntervention != tc.want || d.NeedsDataLossConsent != tc.want {
				t.Errorf("at %d, %s after the stop: blocked %v, loses data %v: %s", lsn, tc.ago, d.ManualIntervention, d.NeedsDataLossConsent, d.Reason)
			}
		}
	}
}

// 13. Data that hold too much are not undone.
func TestDataLoss_rewind(t *testing.T) {
	has := func(lsn uint64) func(c *Config, in *Input) { // the primary has left timeline 2 at 500
		return func(c *Config, in *Input) {
			crash(in)
			c.MaximumLag = 100
			in.Server.Role, in.Server.CrashedAt, in.Server.ProcessSince, in.Server.Position = Primary, 0, now-10*second, Position{2, lsn}
		}
	}
	and := func(lsn uint64, more func(c *Config, in *Input)) func(c *Config, in *Input) {
		return func(c *Config, in *Input) { has(lsn)(c, in); more(c, in) }
	}
	accepts := func(name string) func(c *Config, in *Input) {
		return func(c *Config, _ *Input) { c.AcceptDataLoss = name }
	}
	test(t, asStandby, []decision{
		{"as much as may be lost", has(600), "Rewind{pg-1}", ""},
		{"more", has(601), "Wait{}", "has 101 bytes of WAL that pg-1 lacks, spec.failover.maximumLag is 100"},
		{"a person accepts it", and(601, accepts("pg-1")), "RecloneKeepingData{pg-2}", ""},
		{"for a primary that is not the primary", and(601, accepts("pg-0")), "Wait{}", "accept-data-loss=pg-1"},
		{"a little is rewound as ever", and(600, accepts("pg-1")), "Rewind{pg-1}", ""},
		{"9: where commits wait for standbys", and(601, func(c *Config, in *Input) {
			c.Synchronous, in.Lease.Lease.Sync = 1, []Quorum{quorum("pg-0", "pg-2")}
		}), "Rewind{pg-1}", ""},
		{"a standby that runs goes on", func(c *Config, in *Input) { c.MaximumLag, in.Server.Position = 100, Position{2, 601} }, "Wait{}", "101 bytes"},
		{"till a person accepts it", func(c *Config, in *Input) {
			c.MaximumLag, c.AcceptDataLoss, in.Server.Position = 100, "pg-1", Position{2, 601}
		}, "Stop{fast false}", ""},
		{"a log that was not read to its end is read first", and(500, func(_ *Config, in *Input) { in.Server.Exact = false }), "InspectWAL{}", "ReadingWAL"},
		{"unless a person has accepted the loss", and(500, func(c *Config, in *Input) { c.AcceptDataLoss, in.Server.Exact = "pg-1", false }), "RecloneKeepingData{pg-2}", ""},
		{"of a timeline that no instance knows", and(500, func(_ *Config, in *Input) { in.Lease.Lease.History = nil }), "Wait{}", "unknown: "},
		{"of one of its own, as far as the fork", and(600, func(_ *Config, in *Input) {
			in.Server.Position, in.Server.History = Position{7, 600}, []TimelineSwitch{{1, 100}, {2, 499}}
			in.Lease.Lease.Timeline, in.Lease.Lease.End.Timeline = 9, 9
		}), "Wait{}", "has 101 bytes"},
		{"nor is it recloned because it does not start", func(c *Config, in *Input) {
			c.MaximumLag, c.RecloneRequested, in.Server.Position = 100, true, Position{2, 601}
			in.Server.Process, in.Server.ProcessSince, in.Server.AwaitingRecloneSince = Starting, now-time.Minute, now-time.Minute
		}, "Wait{}", "101 bytes"},
	})
	c, in := asStandby()
	has(601)(&c, &in)
	if d := Decide(c, in); !d.ManualIntervention || !d.NeedsDataLossConsent {
		t.Errorf("blocked %v, loses data %v", d.ManualIntervention, d.NeedsDataLossConsent)
	}
}
