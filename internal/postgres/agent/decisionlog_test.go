package agent

import (
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/election"
)

// TestLogDecision_once holds that each reason to wait is told once, and again after something was done.
func TestLogDecision_once(t *testing.T) {
	var text strings.Builder
	a := &Agent{log: slog.New(slog.NewTextHandler(&text, nil)), ctx: t.Context()}
	renewals := func(reason string) {
		for range 5 {
			a.logDecision(election.Decision{Action: election.Renew{}, Reason: "renews"}, 0)
			a.logDecision(election.Decision{Action: election.Wait{}, Reason: "a write"}, 0)
			a.logDecision(election.Decision{Action: election.Wait{}, Reason: reason}, 0)
		}
	}
	renewals("serves")
	renewals("no switchover")
	renewals("serves")
	a.logDecision(election.Decision{Action: election.Promote{}, Reason: "promotes"}, 0)
	renewals("serves")
	var got []string
	for _, m := range regexp.MustCompile(`reason="?([a-z ]+)`).FindAllStringSubmatch(text.String(), -1) {
		got = append(got, m[1])
	}
	if got, want := strings.Join(got, ", "), "a write, serves, no switchover, promotes, a write, serves"; got != want {
		t.Errorf("logged: %s\nwant:   %s", got, want)
	}
}

// TestApply_recordsItems holds that what is tried again only later does not fill the log, though the Lease is renewed meanwhile.
func TestApply_recordsItems(t *testing.T) {
	var text strings.Builder
	a := &Agent{log: slog.New(slog.NewTextHandler(&text, nil)), ctx: t.Context()}
	decide := func(at time.Duration, want int) {
		t.Helper()
		a.logDecision(election.Decision{Action: election.InitDB{}, Reason: "makes a new cluster"}, at)
		a.logDecision(election.Decision{Action: election.Renew{}, Reason: "renews the Lease"}, at)
		a.logDecision(election.Decision{Action: election.Wait{}, Reason: "waits for a write of the Lease"}, at)
		if lines := strings.Count(text.String(), "makes a new cluster"); lines != want {
			t.Errorf("at %s: %d lines of it, want %d:\n%s", at, lines, want, text.String())
		}
	}
	decide(time.Second, 1)
	a.nextTaskAt = time.Minute
	decide(2*time.Second, 1)
	decide(4*time.Second, 1)
	decide(time.Minute, 2)
	a.task = &task{}
	decide(2*time.Minute, 2)
	a.logDecision(election.Decision{Action: election.Stop{}, Reason: "stops at once"}, 2*time.Minute)
	if !strings.Contains(text.String(), "stops at once") {
		t.Error("a stop, which waits for no task, is not in the log")
	}
}
