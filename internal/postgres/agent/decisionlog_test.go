package agent

import (
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/election"
)

// TestLogDecision_once checks that each reason to wait is logged once, and again after an action.
func TestLogDecision_once(t *testing.T) {
	var text strings.Builder
	a := &Agent{log: slog.New(slog.NewTextHandler(&text, nil)), ctx: t.Context()}
	renewals := func(reason string) {
		for range 5 {
			a.logDecision(election.Decision{Action: election.Renew{}, Reason: "renewing"}, 0)
			a.logDecision(election.Decision{Action: election.Wait{}, Reason: "a write"}, 0)
			a.logDecision(election.Decision{Action: election.Wait{}, Reason: reason}, 0)
		}
	}
	renewals("ready")
	renewals("no switchover")
	renewals("ready")
	a.logDecision(election.Decision{Action: election.Promote{}, Reason: "promoting"}, 0)
	renewals("ready")
	var got []string
	for _, m := range regexp.MustCompile(`msg="?([a-z ]+[a-z])"? code`).FindAllStringSubmatch(text.String(), -1) {
		got = append(got, m[1])
	}
	if got, want := strings.Join(got, ", "), "a write, ready, no switchover, promoting, a write, ready"; got != want {
		t.Errorf("logged: %s\nwant:   %s", got, want)
	}
}

// TestLogDecision_deferredActions checks that an action that is retried later is logged only then, although the lease is renewed meanwhile.
func TestLogDecision_deferredActions(t *testing.T) {
	var text strings.Builder
	a := &Agent{log: slog.New(slog.NewTextHandler(&text, nil)), ctx: t.Context()}
	decide := func(at time.Duration, want int) {
		t.Helper()
		a.logDecision(election.Decision{Action: election.InitDB{}, Reason: "initializing"}, at)
		a.logDecision(election.Decision{Action: election.Renew{}, Reason: "renewing"}, at)
		a.logDecision(election.Decision{Action: election.Wait{}, Reason: "waiting for a write"}, at)
		if lines := strings.Count(text.String(), "initializing"); lines != want {
			t.Errorf("at %s: %d lines, want %d:\n%s", at, lines, want, text.String())
		}
	}
	decide(time.Second, 1)
	a.nextTaskAt = time.Minute
	decide(2*time.Second, 1)
	decide(4*time.Second, 1)
	decide(time.Minute, 2)
	a.task = &task{}
	decide(2*time.Minute, 2)
	a.logDecision(election.Decision{Action: election.Stop{}, Reason: "stopping"}, 2*time.Minute)
	if !strings.Contains(text.String(), "stopping") {
		t.Error("a stop is not in the log while a task runs")
	}
}

// TestLogDecision_fields checks that a decision is logged with its code and with the fields of its action.
func TestLogDecision_fields(t *testing.T) {
	var text strings.Builder
	a := &Agent{log: slog.New(slog.NewTextHandler(&text, &slog.HandlerOptions{Level: slog.LevelDebug})), ctx: t.Context()}
	for _, d := range []election.Decision{
		{Action: election.Stop{Mode: election.Immediate}, Code: election.CodeLeaseLost, Reason: "stopping"},
		{Action: election.Wait{}, Code: election.CodeVolumeFull, Reason: "full", ManualIntervention: true},
		{Action: election.Wait{}, Code: election.CodeWaitingForPostgreSQL, Reason: "waiting"},
		{Action: election.Rewind{Source: "pg-1"}, Code: election.CodeTimelineDiverged, Reason: "diverged"},
	} {
		a.logDecision(d, 0)
	}
	for _, want := range []string{
		"level=INFO msg=stopping code=LeaseLost action=stop mode=immediate planned=false",
		"level=WARN msg=full code=VolumeFull action=wait",
		"level=DEBUG msg=waiting code=WaitingForPostgreSQL action=wait",
		"level=INFO msg=diverged code=TimelineDiverged action=rewind source=pg-1",
	} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("the log has no line %q:\n%s", want, text.String())
		}
	}
}
