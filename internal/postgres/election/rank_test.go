package election

import (
	"testing"
	"time"
)

// 6. The candidate is chosen after the Lease is free, by what it has received.
func TestRank(t *testing.T) {
	test(t, freeLease, []decision{
		{"equal: the lower ordinal", nil, "Acquire", ""},
		{"the peer has more: waits", func(_ *Config, in *Input) {
			in.Lease.UnchangedSince = now - 10100*time.Millisecond
			alter(in, "pg-2", func(s *State) { s.Position.LSN++ })
		}, "Wait{}", "pg-2, the better candidate"},
		{"one step only", func(_ *Config, in *Input) {
			in.Lease.UnchangedSince = now - 10500*time.Millisecond
			alter(in, "pg-2", func(s *State) { s.Position.LSN++ })
		}, "Acquire", ""},
		{"until the peer can take it", func(_ *Config, in *Input) {
			alter(in, "pg-2", func(s *State) { s.Position.LSN++; s.FirstIn = second })
		}, "Wait{}", "pg-2"},
		{"the peer has a later timeline: waits", func(_ *Config, in *Input) {
			in.Lease.UnchangedSince = now - 10100*time.Millisecond
			alter(in, "pg-2", func(s *State) { s.Position = Position{4, 1} })
		}, "Wait{}", "pg-2"},
		{"the peer is preferred: waits", func(_ *Config, in *Input) {
			in.Lease.UnchangedSince, in.Lease.Lease.Preferred = now-10100*time.Millisecond, "pg-2"
		}, "Wait{}", "pg-2"},
		{"the peer has more, and is no candidate", func(_ *Config, in *Input) {
			in.Lease.UnchangedSince = now - 10100*time.Millisecond
			alter(in, "pg-2", func(s *State) { s.Position.LSN++; s.Candidate = false })
		}, "Acquire", ""},
		{"the peer has more, of another cluster", func(_ *Config, in *Input) {
			in.Lease.UnchangedSince = now - 10100*time.Millisecond
			alter(in, "pg-2", func(s *State) { s.Position.LSN++; s.SystemID = "x" })
		}, "Acquire", ""},
		{"the peer has not answered since: waits", func(_ *Config, in *Input) {
			in.Lease.UnchangedSince = now - 10100*time.Millisecond
			in.Peers = nil
		}, "Wait{}", "to answer"},
		{"lacks what is known to be written: waits", func(_ *Config, in *Input) {
			in.Server.Position.LSN = 990
			alter(in, "pg-2", func(s *State) { s.Position.LSN = 990 })
		}, "Wait{}", "lacks"},
		{"not for ever", func(_ *Config, in *Input) {
			in.Server.Position.LSN, in.Lease.UnchangedSince = 990, now-21*second
			in.Peers = nil
		}, "Acquire", ""},
		{"the person has spoken", func(c *Config, in *Input) {
			c.AcceptDataLoss, in.Server.Position, in.Lease.Lease.History, in.Lease.UnchangedSince = "pg-0", Position{2, 500}, nil, now-time.Hour
		}, "Acquire", ""},
		{"of a timeline that was lost with its record: needs a person", func(_ *Config, in *Input) {
			in.Server.Position, in.Lease.UnchangedSince = Position{1040, 900}, now-time.Hour
		}, "Wait{}", "unknown: "},
		{"a preferred primary is no consent", func(c *Config, in *Input) {
			c.SwitchoverTarget, in.Server.Position, in.Lease.Lease.History, in.Lease.UnchangedSince = "pg-0", Position{2, 500}, nil, now-time.Hour
		}, "Wait{}", "unknown: "},
		{"from before the last primary's time: needs a person", func(_ *Config, in *Input) {
			in.Server.Position, in.Lease.Lease.History, in.Lease.UnchangedSince = Position{2, 500}, nil, now-time.Hour
		}, "Wait{}", "unknown: "},
	})
	test(t, asPrimary, []decision{
		{"switchover: stops first", func(c *Config, _ *Input) { c.SwitchoverTarget = "pg-2" }, "Checkpoint{}", "pg-2"},
		{"not to one that lags", func(c *Config, in *Input) {
			c.SwitchoverTarget, in.Standbys = "pg-2", nil
		}, "Wait{}", "not caught up"},
		{"not to one without API server", func(c *Config, in *Input) {
			c.SwitchoverTarget = "pg-2"
			alter(in, "pg-2", func(s *State) { s.API = false })
		}, "Wait{}", "API server"},
		{"not while paused", func(c *Config, _ *Input) { c.SwitchoverTarget, c.Paused = "pg-2", true }, "Wait{}", "paused"},
		{"not while the Lease can't be released", func(c *Config, in *Input) {
			c.SwitchoverTarget, in.Lease.FailedAt, in.Tenure.PromisesRequestedAt = "pg-2", now, now
		}, "Wait{}", "cannot be written"},
		{"then releases", func(c *Config, in *Input) { c.SwitchoverTarget = "pg-2"; down(in) }, "Release", "Switchover"},
		{"not if the target lacks some", func(c *Config, in *Input) {
			c.SwitchoverTarget = "pg-2"
			down(in)
			in.Server.Position.LSN = 1001
			in.Server.ProcessSince = now - 600*time.Millisecond
		}, "StartPrimary{}", ""},
	})
}
