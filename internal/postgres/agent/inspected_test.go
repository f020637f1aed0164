package agent

import (
	"log/slog"
	"testing"

	"github.com/fettle-dev/fettle/internal/postgres/election"
)

// TestInput_dataUnknownUntilInspected checks that an agent which has not inspected its data yet counts as one that does not answer.
func TestInput_dataUnknownUntilInspected(t *testing.T) {
	teller := &Agent{options: Options{Cluster: "db", Pod: "db-0", PodUID: "t"}, log: slog.New(slog.DiscardHandler), peers: &peers{}, validator: &configValidator{}}
	teller.configured = true
	teller.config.Timing, teller.config.Self.Name = election.DefaultTiming(), "db-0"
	heard := func() map[string]election.Answer {
		teller.publish(election.Decision{}, election.Input{Now: now(), Server: teller.own})
		m := &member{answer: peerAnswer{Status: *teller.published.Load(), At: now()}}
		a := &Agent{options: options, peers: &peers{members: map[string]*member{"db-0": m}}}
		return a.input(now()).Peers
	}
	if got := heard(); len(got) > 0 {
		t.Errorf("before it has inspected its data it passes for one with %q data", got["db-0"].State.Data)
	}
	teller.booted, teller.own.Data = true, election.Usable
	if got := heard(); got["db-0"].State.Data != election.Usable {
		t.Errorf("when it has inspected its data it tells %+v", got)
	}
}
