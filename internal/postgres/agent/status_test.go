package agent

import (
	"testing"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/election"
)

// TestReady_farBehind is about a replica that lacks much of what a primary has, which counts while that primary says so.
func TestReady_farBehind(t *testing.T) {
	const at = time.Minute
	behind := "standby is far behind the primary"
	for _, c := range []struct {
		name     string
		sent     time.Duration
		writable bool
		lsn      uint64
		want     string
	}{
		{"close to the primary", at - time.Second, true, readyLag + 100, ""},
		{"far behind", at - time.Second, true, readyLag + 101, behind},
		{"just recent", at - 6*time.Second, true, readyLag + 101, behind},
		{"a primary that answers no more", at - 6*time.Second - 1, true, readyLag + 101, ""},
		{"no primary", at - time.Second, false, readyLag + 101, ""},
	} {
		a := &Agent{options: options}
		a.config.Timing = election.DefaultTiming()
		a.own = election.Server{Process: election.Up, Role: election.Standby, Position: election.Position{Timeline: 1, LSN: 100}}
		a.streamedAt = at
		answer := election.Answer{RequestedAt: c.sent, State: election.State{Writable: c.writable, Position: election.Position{Timeline: 1, LSN: c.lsn}}}
		in := election.Input{Now: at, Peers: map[string]election.Answer{"db-0": answer}}
		if got := a.unready(in); got != c.want {
			t.Errorf("%s: not ready because %q, want %q", c.name, got, c.want)
		}
	}
}
