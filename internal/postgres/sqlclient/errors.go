package sqlclient

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Reasons why a server did not do what it was asked, for errors.Is.
var (
	// ErrDiskFull means there is no space left. The server is alive: this is no reason to fail over.
	ErrDiskFull = errors.New("no space left on the volume: grow it")
	// ErrReadOnly means that the server is a standby.
	ErrReadOnly = errors.New("the server is read-only")
	// ErrFilesystem means that the data can't be written: a read-only or failing filesystem.
	ErrFilesystem = errors.New("the server can't write to its volume")
	// ErrLocked means that another transaction has locked what is needed. The server is alive.
	ErrLocked = errors.New("locked by another transaction: end that transaction")
	// ErrUnavailable means that the server takes no connections: it is down, starting or stopping.
	ErrUnavailable = errors.New("the server takes no connections")
)

// errConnect marks what went wrong before there was a session.
var errConnect = errors.New("connect")

// classify adds why, where it is known; lost says that there is no connection any more. The context's own error comes first:
// then it is not known what the server did.
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

// bySQLState tells what an answer of the server means; nil when it is nothing of the above.
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
	// PostgreSQL calls it a lack of privileges. Its messages are in English: config sees to it.
	if strings.HasSuffix(serverError.Message, "Read-only file system") {
		return ErrFilesystem
	}
	return nil
}
