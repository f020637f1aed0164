package sqlclient

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Rejection is the answer of a server that lives, and does not do what it is asked.
type Rejection struct {
	// SQLState is the code of the error, Message its text.
	SQLState, Message string
	// Connecting says that there was no session: only the postmaster and a new process have answered.
	Connecting bool
}

// AsRejection says whether err is the answer of a server that lives: another instance would not do better. Silence is no answer, nor is
// an error of the server's disk, data or state: read-only, starting, stopping, no space.
func AsRejection(err error) (Rejection, bool) {
	serverError, ok := errors.AsType[*pgconn.PgError](err)
	switch {
	case !ok, errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return Rejection{}, false
	case errors.Is(err, ErrDiskFull), errors.Is(err, ErrReadOnly), errors.Is(err, ErrFilesystem), errors.Is(err, ErrUnavailable):
		return Rejection{}, false
	case strings.HasPrefix(serverError.Code, "58"), strings.HasPrefix(serverError.Code, "XX"): // system error, internal error
		return Rejection{}, false
	}
	return Rejection{SQLState: serverError.Code, Message: serverError.Message, Connecting: errors.Is(err, errConnect)}, true
}

// Advice is what a person can do about it; "" where nothing is known.
func (r Rejection) Advice() string {
	switch r.SQLState {
	case "54000": // program_limit_exceeded: nothing else keeps a row of one table from being written
		return "transaction IDs have run out: end old transactions, roll back prepared ones, drop unused replication slots, then run VACUUM in each database"
	case "53200":
		return "out of memory: end the transactions that hold many locks, raise max_locks_per_transaction, or raise the memory limit"
	case "53300":
		return "out of connections: end some, use a connection pooler, or raise max_connections"
	}
	return ""
}
