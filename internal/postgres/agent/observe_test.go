package agent

import (
	"log/slog"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-dev/fettle/internal/postgres/election"
	"github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/internal/postgres/sqlclient"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

// TestSample_olderIsIgnored drops the answer to an older question: what waits for a restart stays known.
func TestSample_olderIsIgnored(t *testing.T) {
	a := &Agent{options: options}
	a.recordSample(sample{Status: sqlclient.Status{Written: 10, PendingRestart: []string{"max_connections"}}, asked: 2})
	a.recordSample(sample{Status: sqlclient.Status{Written: 9}, asked: 1})
	if got := a.sample.PendingRestart; len(got) != 1 {
		t.Errorf("waiting for a restart: %v", got)
	}
	a.recordSample(sample{Status: sqlclient.Status{Written: 11}, asked: 3})
	if got := a.sample.PendingRestart; len(got) != 0 {
		t.Errorf("still waiting for a restart: %v", got)
	}
}

// TestUnresponsive_recorded has a server end that has not answered for long, and one that has.
func TestUnresponsive_recorded(t *testing.T) {
	for name, ago := range map[string]time.Duration{"answered": 0, "was unresponsive": time.Minute} {
		at := now()
		a := &Agent{options: options, log: slog.New(slog.DiscardHandler), peers: &peers{}}
		a.config.Timing = election.DefaultTiming()
		a.own = election.Server{Process: election.Up, Role: election.Primary, ProcessSince: at - time.Hour, HeartbeatAt: at - ago}
		a.processExited(server.Exit{}, dataDirState{data: election.Usable})
		if got := a.own.UnresponsiveAt > 0; got != (ago > 0) {
			t.Errorf("%s: at %s it was unresponsive at %s", name, at, a.own.UnresponsiveAt)
		}
	}
}

// TestSampled_receiver has receivers that the primary ends again and again, and then one that stays.
func TestSampled_receiver(t *testing.T) {
	a := &Agent{options: options, peers: &peers{}}
	a.own = election.Server{Process: election.Up, Role: election.Standby, Position: election.Position{Timeline: 1, LSN: 100}, Failures: 2, StalledSince: 1, ClonedSinceFollowing: true}
	sampled := func(pid int, asked time.Duration) {
		a.recordSample(sample{asked: asked, Status: sqlclient.Status{InRecovery: true, Timeline: 1, Received: 100, Receiver: &sqlclient.Receiver{PID: pid, State: "streaming"}}})
	}
	for i := range 9 {
		sampled(10+i, time.Duration(i)*time.Second)
	}
	if a.own.Failures != 2 || a.own.StalledSince == 0 || !a.own.ClonedSinceFollowing {
		t.Errorf("it follows by receivers that are ended at once: %+v", a.own)
	}
	sampled(20, 10*time.Second)
	sampled(20, 11*time.Second)
	if a.own.Failures != 0 || a.own.StalledSince != 0 || a.own.ClonedSinceFollowing {
		t.Errorf("it does not follow by a receiver that stays: %+v", a.own)
	}
}

// TestStartFailed_counts counts how often a standby ends without being told to.
func TestStartFailed_counts(t *testing.T) {
	for _, tc := range []struct {
		name string
		own  election.Server
		left dataDirState
		want int
	}{
		{"by itself", election.Server{Process: election.Starting, Role: election.Standby}, dataDirState{data: election.Usable}, 1},
		{"told to", election.Server{Process: election.Stopping, Role: election.Standby}, dataDirState{data: election.Usable}, 0},
		{"a primary", election.Server{Process: election.Starting, Role: election.Primary}, dataDirState{data: election.Usable}, 0},
		{"a full volume", election.Server{Process: election.Starting, Role: election.Standby}, dataDirState{data: election.Usable, disk: server.Disk{Size: 1 << 30, Free: 1}}, 0},
	} {
		a := &Agent{options: options, log: slog.New(slog.DiscardHandler), peers: &peers{}}
		a.config.Timing, a.own = election.DefaultTiming(), tc.own
		if a.processExited(server.Exit{}, tc.left); a.own.Failures != tc.want {
			t.Errorf("%s: %d", tc.name, a.own.Failures)
		}
	}
}

// TestSlotPositions leaves a slot where it is for an instance that may have to come back to less, or says nothing.
func TestSlotPositions(t *testing.T) {
	at := func(timeline uint32, systemID string, data election.Data) election.Answer {
		return election.Answer{RequestedAt: 1, State: election.State{Data: data, SystemID: systemID, Position: election.Position{Timeline: timeline, LSN: 77}}}
	}
	got := slotPositions("db", &election.Server{SystemID: "s", Position: election.Position{Timeline: 2, LSN: 100}}, map[string]election.Answer{
		"db-0": at(1, "s", election.Usable), "db-1": at(2, "other", election.Usable), "db-3": at(2, "s", election.Usable), "db-4": at(2, "s", election.NeedsReclone), "db-5": {},
	})
	if diff := cmp.Diff(map[string]wal.LSN{"fettle_3": 77}, got); diff != "" {
		t.Error(diff)
	}
}
