package sqlclient

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Causes of failed statements, for errors.Is.
var (
	// ErrDiskFull means that no space is left. The server is alive, so this is no reason to fail over.
	ErrDiskFull = errors.New("no space left on the volume: increase spec.storage")
	// ErrReadOnly means that the server is a standby.
	ErrReadOnly = errors.New("the server is read-only")
	// ErrFilesystem means that the server cannot write its data: the filesystem is read-only or failing.
	ErrFilesystem = errors.New("the server cannot write to its volume")
	// ErrLocked means that another transaction holds a required lock. The server is alive.
	ErrLocked = errors.New("locked by another transaction: end that transaction")
	// ErrUnavailable means that the server accepts no connections: it is down, starting or stopping.
	ErrUnavailable = errors.New("the server accepts no connections")
)

// errConnect marks errors before the connection was established.
var errConnect = errors.New("connect")

// classify adds the cause if it is known. lost is true if the connection is gone. An error of the context comes first: then
// the outcome on the server is unknown.
func classify(ctx context.Context, err error, lost bool) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	var known error
	if serverError, ok := errors.AsType[*pgconn.PgError](err); ok {
		known = bySQLState(serverError)
	} else if lost {
		known = ErrUnavailable
	}
	if known == nil {
		return err
	}
	return fmt.Errorf("%w: %w", known, err)
}

// bySQLState returns the cause for a SQLSTATE, or nil.
func bySQLState(serverError *pgconn.PgError) error {
	switch serverError.Code {
	case "53100": // disk_full
		return ErrDiskFull
	case "25006": // read_only_sql_transaction
		return ErrReadOnly
	case "55P03": // lock_not_available
		return ErrLocked
	case "58030", "F0000", "XX001", "XX002": // io_error, config_file_error, data_corrupted, index_corrupted
		return ErrFilesystem
	case "57P01", "57P02", "57P03", "57P05": // admin_shutdown, crash_shutdown, cannot_connect_now, idle_session_timeout
		return ErrUnavailable
	}
	// PostgreSQL reports EROFS with the SQLSTATE of missing privileges, so only the message tells. It is in English: config
	// sets lc_messages.
	if strings.HasSuffix(serverError.Message, "Read-only file system") {
		return ErrFilesystem
	}
	return nil
}
