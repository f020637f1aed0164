package agent

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/fettle-dev/fettle/internal/postgres/sqlclient"
)

// rejection is an answer of the server, to a heartbeat in a session.
func rejection(code string) error {
	return fmt.Errorf("heartbeat: %w", &pgconn.PgError{Code: code, Message: "no"})
}

// A heartbeat that is answered with an error is a server that lives; silence and errors of the disk are not.
func TestHeartbeat_errorIsAnswer(t *testing.T) {
	silence := fmt.Errorf("heartbeat: %w", context.DeadlineExceeded)
	for _, c := range []struct {
		name     string
		errs     []error
		answered bool
		shown    bool
	}{
		{"succeeds", []error{nil}, true, false},
		{"transaction IDs run out", []error{rejection("54000")}, true, false},
		{"and stay so", []error{rejection("54000"), rejection("54000"), rejection("54000")}, true, true},
		{"and come back", []error{rejection("54000"), rejection("54000"), rejection("54000"), nil}, true, false},
		{"silence", []error{silence}, false, false},
		{"silence after a rejection", []error{rejection("53200"), rejection("53200"), rejection("53200"), silence}, false, false},
		{"a rejection after silence", []error{silence, rejection("53200")}, true, false},
		{"the connection is lost", []error{errors.New("conn closed")}, false, false},
		{"I/O error", []error{rejection("58030")}, false, false},
	} {
		p, answered := heartbeatState{}, false
		for _, err := range c.errs {
			p, answered = p.next(err)
		}
		if text := p.message("db-0"); answered != c.answered || text != "" != c.shown {
			t.Errorf("%s: answered %v, says %q", c.name, answered, text)
		}
	}
	p := heartbeatState{}
	for range reportAfter {
		p, _ = p.next(rejection("54000"))
	}
	for _, want := range []string{"db-0", "54000", "VACUUM"} {
		if text := p.message("db-0"); !strings.Contains(text, want) {
			t.Errorf("%q does not say %q", text, want)
		}
	}
}

// Hung clients and heartbeats take all connections: that a new one is refused does not say that the disk is well.
func TestHeartbeat_rejectedConnection(t *testing.T) {
	refused := sqlclient.Rejection{SQLState: "53300", Connecting: true}
	p, answered := heartbeatState{}.failed(refused, true)
	if !answered {
		t.Error("a primary that has not been silent is dead because it is out of connections")
	}
	if p, answered = p.next(context.DeadlineExceeded); answered {
		t.Error("silence passes for an answer")
	}
	for range 3 {
		if p, answered = p.failed(refused, true); answered {
			t.Error("a refused connection after silence passes for an answer")
		}
	}
	if _, answered = p.failed(sqlclient.Rejection{SQLState: "53200"}, true); !answered {
		t.Error("an answer in a session is none")
	}
}
