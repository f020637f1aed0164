package agent

import (
	"bytes"
	"log/slog"
	"regexp"
	"strings"
	"testing"

	"github.com/fettle-dev/fettle/internal/postgres/election"
)

// TestDecisionsAreLogged holds that each reason to wait is told once, and again after something was done.
func TestDecisionsAreLogged(t *testing.T) {
	var text bytes.Buffer
	a := &Agent{log: slog.New(slog.NewTextHandler(&text, nil)), life: t.Context()}
	renewals := func(reason string) {
		for range 5 {
			a.note(election.Decision{Action: election.Renew{}, Reason: "renews"}, 0)
			a.note(election.Decision{Action: election.Wait{}, Reason: "a write"}, 0)
			a.note(election.Decision{Action: election.Wait{}, Reason: reason}, 0)
		}
	}
	renewals("serves")
	renewals("no switchover")
	renewals("serves")
	a.note(election.Decision{Action: election.Promote{}, Reason: "promotes"}, 0)
	renewals("serves")
	var got []string
	for _, m := range regexp.MustCompile(`reason="?([a-z ]+)`).FindAllStringSubmatch(text.String(), -1) {
		got = append(got, m[1])
	}
	if got, want := strings.Join(got, ", "), "a write, serves, no switchover, promotes, a write, serves"; got != want {
		t.Errorf("logged: %s\nwant:   %s", got, want)
	}
}
