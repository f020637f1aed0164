package sqlclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// pollInterval is how often something is asked that nobody announces.
const pollInterval = 5 * time.Millisecond

// pollUntil asks again and again, until the answer is yes, an error, or the context ends.
func pollUntil(ctx context.Context, condition func() (bool, error)) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if done, err := condition(); err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// heartbeat is one transaction, sent as one message: a record in the WAL and its commit, which the server flushes to its own
// disk. It waits for no standby: a lost quorum is no reason to give up a healthy primary. It reads and writes no table, so
// that no role can lock one to stop the primary; what only a superuser can lock, a system catalog, is ErrLocked before the
// heartbeat counts as unanswered. A standby has no transaction IDs and refuses the first function.
const heartbeat = `SET LOCAL synchronous_commit TO local; SET LOCAL lock_timeout TO 1000;
SELECT pg_current_xact_id(), pg_logical_emit_message(true, 'fettle', 'heartbeat')`

// Heartbeat commits a record on a primary, on its own disk only. The error is one of the reasons above where it is known; it
// is context.DeadlineExceeded when the server did not answer in time.
func (c *Client) Heartbeat(ctx context.Context) error {
	if err := c.withConn(ctx, func(conn *pgx.Conn) error { return execScript(ctx, conn, heartbeat) }); err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	return nil
}

// execScript sends statements as one message; they are one transaction.
func execScript(ctx context.Context, conn *pgx.Conn, statements string) error {
	_, err := conn.PgConn().Exec(ctx, statements).ReadAll()
	return err
}

// WaitPrimary waits until the server is no standby any more.
func (c *Client) WaitPrimary(ctx context.Context) error {
	return pollUntil(ctx, func() (bool, error) {
		standby, err := c.InRecovery(ctx)
		return err == nil && !standby, err
	})
}

// Checkpoint writes a checkpoint, so that others can rewind to this server. Its duration is that of the disk, so it is
// bounded by the context alone.
func (c *Client) Checkpoint(ctx context.Context) error {
	return c.withConn(ctx, func(conn *pgx.Conn) error {
		return errors.Join(execScript(ctx, conn, "SET statement_timeout TO 0"), execScript(ctx, conn, "CHECKPOINT"), c.resetTimeout(ctx, conn))
	})
}

func (c *Client) resetTimeout(ctx context.Context, conn *pgx.Conn) error {
	if conn.IsClosed() {
		return nil
	}
	return execScript(ctx, conn, fmt.Sprintf("SET statement_timeout TO %d", c.options.StatementTimeout.Milliseconds()))
}

// WaitSetting waits until a parameter has a value in effect, after a reload. Other processes of the server were told at
// the same time as this session's, and are as quick: but none of them says so.
func (c *Client) WaitSetting(ctx context.Context, name, value string) error {
	var current string
	err := pollUntil(ctx, func() (bool, error) {
		err := c.withConn(ctx, func(conn *pgx.Conn) error {
			return conn.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&current)
		})
		return current == value, err
	})
	if err != nil {
		return fmt.Errorf("wait for %s to become %q, which is %q: %w", name, value, current, err)
	}
	return nil
}

// Reload calls signal, which has the server read its configuration again, and waits until this session has: what it then
// says of parameters, such as which of them wait for a restart, is true of the new configuration. A configuration that the
// server can't read is never taken over.
func (c *Client) Reload(ctx context.Context, signal func() error) error {
	before, err := c.configLoadTime(ctx)
	if err != nil {
		return fmt.Errorf("before the configuration is read: %w", err)
	}
	if err := signal(); err != nil {
		return fmt.Errorf("have the configuration read: %w", err)
	}
	err = pollUntil(ctx, func() (bool, error) {
		now, err := c.configLoadTime(ctx)
		return !now.Equal(before), err
	})
	if err != nil {
		return fmt.Errorf("wait until the configuration is read: %w", err)
	}
	return nil
}

// configLoadTime is when the session's process has read the configuration.
func (c *Client) configLoadTime(ctx context.Context) (time.Time, error) {
	return queryValue[time.Time](ctx, c, "SELECT pg_conf_load_time()")
}

// TerminateWALReceiver ends the WAL receiver and waits until there is none. It comes back unless the configuration has no
// upstream any more: reload that first.
func (c *Client) TerminateWALReceiver(ctx context.Context) error {
	err := pollUntil(ctx, func() (bool, error) {
		receivers, err := queryValue[int](ctx, c, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type = 'walreceiver'`)
		return receivers == 0, err
	})
	if err != nil {
		return fmt.Errorf("end the WAL receiver: %w", err)
	}
	return nil
}
