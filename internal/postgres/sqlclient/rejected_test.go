package sqlclient

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// TestAsRejection: an error response means that the server is alive, a timeout or an error of disk or data does not.
func TestAsRejection(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, c := range []struct {
		name, code string
		ctx        context.Context
		want       bool
	}{
		{"wraparound", "54000", t.Context(), true},
		{"out of shared memory", "53200", t.Context(), true},
		{"out of connections", "53300", t.Context(), true},
		{"the table is gone", "42P01", t.Context(), true},
		{"no privilege", "42501", t.Context(), true},
		{"canceled by another client", "57014", t.Context(), true},
		{"no answer in time", "57014", ended, false},
		{"disk full", "53100", t.Context(), false},
		{"read-only", "25006", t.Context(), false},
		{"I/O error", "58030", t.Context(), false},
		{"system error", "58000", t.Context(), false},
		{"a file is missing", "58P01", t.Context(), false},
		{"data corrupted", "XX001", t.Context(), false},
		{"index corrupted", "XX002", t.Context(), false},
		{"internal error", "XX000", t.Context(), false},
		{"shutting down", "57P01", t.Context(), false},
		{"crashed", "57P02", t.Context(), false},
		{"starting", "57P03", t.Context(), false},
	} {
		for _, connecting := range []bool{false, true} {
			var err error = &pgconn.PgError{Code: c.code, Message: "text"}
			if connecting {
				err = errors.Join(errConnect, err)
			}
			err = fmt.Errorf("heartbeat: %w", classify(c.ctx, err, connecting))
			got, ok := AsRejection(err)
			want := Rejection{}
			if c.want {
				want = Rejection{SQLState: c.code, Message: "text", Connecting: connecting}
			}
			if ok != c.want || got != want {
				t.Errorf("%s: %+v %v, want %+v", c.name, got, ok, want)
			}
		}
	}
	for _, err := range []error{nil, errors.New("connection reset by peer"), fmt.Errorf("%w: connection refused", ErrUnavailable)} {
		if _, ok := AsRejection(err); ok {
			t.Errorf("%v passes for an answer", err)
		}
	}
	full := fmt.Errorf("%w: %w", ErrFilesystem, &pgconn.PgError{Code: "42501", Message: "could not open file: Read-only file system"})
	if _, ok := AsRejection(full); ok {
		t.Error("a read-only file system passes for an answer")
	}
}
