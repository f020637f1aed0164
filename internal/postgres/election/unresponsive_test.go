package election

import (
	"testing"
	"time"
)

// A server hangs that has not answered for 4 s, as a primary, and not for want of space.
func TestUnresponsive_conditions(t *testing.T) {
	for _, tc := range []struct {
		name   string
		change func(*Server)
		want   bool
	}{
		{"answered", func(*Server) {}, false},
		{"a while ago", func(s *Server) { s.HeartbeatAt = now - 4*second }, false},
		{"long ago", func(s *Server) { s.HeartbeatAt = now - 4001*time.Millisecond }, true},
		{"never, and has just started", func(s *Server) { s.HeartbeatAt, s.ProcessSince = 0, now-4*second }, false},
		{"never", func(s *Server) { s.HeartbeatAt, s.ProcessSince = 0, now-5*second }, true},
		{"has no space", func(s *Server) { s.HeartbeatAt, s.FullDisk = now-time.Minute, true }, false},
		{"a standby", func(s *Server) { s.HeartbeatAt, s.Role = now-time.Minute, Standby }, false},
		{"starting", func(s *Server) { s.HeartbeatAt, s.ProcessSince, s.Process = now-time.Minute, now-time.Minute, Starting }, false},
		{"starting for too long", func(s *Server) { s.Process, s.ProcessSince = Starting, now-61*second }, true},
		{"being promoted for too long", func(s *Server) { s.Process, s.ProcessSince = Promoting, now-61*second }, true},
		{"starting for long, and it advances", func(s *Server) { s.Process, s.ProcessSince, s.RecoveryAdvancedAt = Starting, now-90*second, now-second }, false},
		{"being stopped", func(s *Server) { s.HeartbeatAt, s.ProcessSince, s.Process = now-time.Minute, now-time.Minute, Stopping }, false},
	} {
		c, in := asPrimary()
		tc.change(&in.Server)
		if got := Unresponsive(c, in); got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

// What was unresponsive is suspect until it has run for long.
func TestRecentlyUnresponsive_period(t *testing.T) {
	for _, tc := range []struct {
		name                     string
		process                  Process
		stoodStillSince, upSince time.Duration
		want                     bool
	}{
		{"never did", Up, 0, time.Minute, false},
		{"is down", Down, time.Hour, 59 * time.Minute, true},
		{"starts", Starting, time.Hour, 59 * time.Minute, true},
		{"runs again", Up, time.Hour, 9 * time.Minute, true},
		{"has run for long", Up, time.Hour, 10 * time.Minute, false},
	} {
		c, in := asStandby()
		in.Now = 2 * time.Hour
		in.Server.Process, in.Server.ProcessSince = tc.process, in.Now-tc.upSince
		if tc.stoodStillSince > 0 {
			in.Server.UnresponsiveAt = in.Now - tc.stoodStillSince
		}
		if got := Report(c, in).RecentlyUnresponsive; got != tc.want {
			t.Errorf("%s: %v", tc.name, got)
		}
	}
}

// 6. Between equal ones it comes last.
func TestRank_recentlyUnresponsiveLast(t *testing.T) {
	test(t, freeLease, []decision{
		{"was unresponsive: one that has as much comes first", func(_ *Config, in *Input) {
			in.Lease.UnchangedSince, in.Server.UnresponsiveAt = now-11900*time.Millisecond, now-time.Minute
		}, "Wait{}", "pg-2, the better candidate"},
		{"was unresponsive: not for ever", func(_ *Config, in *Input) {
			in.Lease.UnchangedSince, in.Server.UnresponsiveAt = now-12*second, now-time.Minute
		}, "Acquire", ""},
		{"was unresponsive: the other has less", func(_ *Config, in *Input) {
			in.Lease.UnchangedSince, in.Server.UnresponsiveAt = now-10*second, now-time.Minute
			alter(in, "pg-2", func(s *State) { s.Position.LSN-- })
		}, "Acquire", ""},
		{"was unresponsive: the other is no candidate", func(_ *Config, in *Input) {
			in.Lease.UnchangedSince, in.Server.UnresponsiveAt = now-10*second, now-time.Minute
			alter(in, "pg-2", func(s *State) { s.Candidate = false })
		}, "Acquire", ""},
		{"was unresponsive: so did the other", func(_ *Config, in *Input) {
			in.Lease.UnchangedSince, in.Server.UnresponsiveAt = now-10*second, now-time.Minute
			alter(in, "pg-2", func(s *State) { s.RecentlyUnresponsive = true })
		}, "Acquire", ""},
		{"was unresponsive: the other is preferred less", func(_ *Config, in *Input) {
			in.Lease.UnchangedSince, in.Server.UnresponsiveAt, in.Lease.Lease.Preferred = now-10*second, now-time.Minute, "pg-0"
		}, "Acquire", ""},
	})
}
