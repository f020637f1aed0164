package sqlclient

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Rejection is an error from a live server that rejects a statement.
type Rejection struct {
	// SQLState is the error code, Message its text.
	SQLState, Message string
	// Connecting is true if the connection itself was rejected: only the postmaster and a new backend have responded.
	Connecting bool
}

// AsRejection returns whether err comes from a live server, so that a failover would not help. Timeouts do not count, nor
// do errors of disk, data or state: read-only, starting, stopping, disk full.
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

// Advice says what a person can do about the rejection. It is "" if unknown.
func (r Rejection) Advice() string {
	switch r.SQLState {
	case "54000": // program_limit_exceeded: for a heartbeat this can only be wraparound
		return "transaction IDs have run out: end old transactions, roll back prepared ones, drop unused replication slots, then run VACUUM in each database"
	case "53200":
		return "out of memory: end transactions that hold many locks, increase max_locks_per_transaction, or increase the memory limit"
	case "53300":
		return "out of connections: end some, use a connection pooler, or increase max_connections"
	}
	return ""
}
