package agent

import (
	"fmt"
	"log/slog"

	"github.com/fettle-dev/fettle/internal/postgres/session"
)

// shownAfter is how many heartbeats in a row are rejected before a person is told: one can fail for a query that somebody cancels.
const shownAfter = 3

// pulse is what the heartbeats of a primary have told so far.
type pulse struct {
	// silent says that the last heartbeat that reached a session got no answer.
	silent bool
	// rejection is the last answer that was an error, and rejected how many there were in a row.
	rejection session.Rejection
	rejected  int
}

// after returns p after a heartbeat that ended with err, and whether the server has answered it. An error is an answer: see
// [session.Rejected]. One that comes before there is a session says nothing of a server that was silent: clients, and heartbeats,
// that hang with its disk take all connections.
func (p pulse) after(err error) (pulse, bool) {
	if err == nil {
		return pulse{}, true
	}
	return p.failed(session.Rejected(err))
}

func (p pulse) failed(rejection session.Rejection, rejected bool) (pulse, bool) {
	if rejected && (!rejection.Connecting || !p.silent) {
		return pulse{rejection: rejection, rejected: p.rejected + 1}, true
	}
	return pulse{silent: true}, false
}

// level is how much a heartbeat that failed is worth telling: a rejection that goes on is told once.
func (p pulse) level() slog.Level {
	if p.rejected > 1 {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// message says that writes are rejected, and what to do; "" while they are not.
func (p pulse) message(pod string) string {
	if p.rejected < shownAfter {
		return ""
	}
	text := fmt.Sprintf("PostgreSQL on %s rejects writes with SQLSTATE %s (%s)", pod, p.rejection.SQLState, oneLine(p.rejection.Message))
	if advice := p.rejection.Advice(); advice != "" {
		return text + ": " + advice
	}
	return text + ": see the log of the pod"
}
