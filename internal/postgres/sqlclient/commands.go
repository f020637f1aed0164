package sqlclient

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// pollInterval is the interval of polls for changes without notification.
const pollInterval = 5 * time.Millisecond

// pollUntil polls a condition until it is true, fails, or the context is done.
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

// heartbeat is one transaction in one message: a WAL record and its commit, which the server flushes to its own disk. It
// waits for no standby: a lost quorum is no reason to fail over from a healthy primary. It accesses no table, so that no
// role can block it with a lock. A superuser can lock a system catalog: then the error is ErrLocked before the heartbeat
// times out. A standby has no transaction IDs and rejects the first function.
const heartbeat = `SET LOCAL synchronous_commit TO local; SET LOCAL lock_timeout TO 1000;
SELECT pg_current_xact_id(), pg_logical_emit_message(true, 'fettle', 'heartbeat')`

// Heartbeat commits a WAL record on a primary, on its own disk only. The error is one of the errors above if the cause is
// known. It is context.DeadlineExceeded if the server did not respond in time.
func (c *Client) Heartbeat(ctx context.Context) error {
	if err := c.withConn(ctx, func(conn *pgx.Conn) error { return execScript(ctx, conn, heartbeat) }); err != nil {
		return fmt.Errorf("heartbeat: %w", err)
	}
	return nil
}

// execScript sends statements as one message, which makes them one transaction.
func execScript(ctx context.Context, conn *pgx.Conn, statements string) error {
	_, err := conn.PgConn().Exec(ctx, statements).ReadAll()
	return err
}

// WaitPrimary waits until the server is no longer a standby.
func (c *Client) WaitPrimary(ctx context.Context) error {
	return pollUntil(ctx, func() (bool, error) {
		standby, err := c.InRecovery(ctx)
		return err == nil && !standby, err
	})
}

// Checkpoint runs a checkpoint, so that others can run pg_rewind against this server. Its duration depends on the disk, so
// only the context bounds it.
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

// WaitSetting waits until a parameter has a value in this connection's backend after a reload. The other processes of the
// server were signaled at the same time, but none of them reports it.
func (c *Client) WaitSetting(ctx context.Context, name, value string) error {
	var current string
	err := pollUntil(ctx, func() (bool, error) {
		err := c.withConn(ctx, func(conn *pgx.Conn) error {
			return conn.QueryRow(ctx, "SELECT current_setting($1)", name).Scan(&current)
		})
		return current == value, err
	})
	if err != nil {
		return fmt.Errorf("wait until %s is %q (currently %q): %w", name, value, current, err)
	}
	return nil
}

// Reload calls signal, which makes the server reload its configuration, and waits until this connection's backend has
// loaded it. Afterwards pg_settings reports the new configuration, for example which parameters need a restart. A server
// never loads a configuration that it cannot parse.
func (c *Client) Reload(ctx context.Context, signal func() error) error {
	before, err := c.configLoadTime(ctx)
	if err != nil {
		return fmt.Errorf("read the configuration load time: %w", err)
	}
	if err := signal(); err != nil {
		return fmt.Errorf("reload the configuration: %w", err)
	}
	err = pollUntil(ctx, func() (bool, error) {
		now, err := c.configLoadTime(ctx)
		return !now.Equal(before), err
	})
	if err != nil {
		return fmt.Errorf("wait until the configuration is loaded: %w", err)
	}
	return nil
}

// configLoadTime is when the backend of this connection loaded the configuration.
func (c *Client) configLoadTime(ctx context.Context) (time.Time, error) {
	return queryValue[time.Time](ctx, c, "SELECT pg_conf_load_time()")
}

// TerminateWALReceiver terminates the WAL receiver and waits until there is none. The server restarts it if the
// configuration still has an upstream: reload the configuration first.
func (c *Client) TerminateWALReceiver(ctx context.Context) error {
	err := pollUntil(ctx, func() (bool, error) {
		receivers, err := queryValue[int](ctx, c, `SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE backend_type = 'walreceiver'`)
		return receivers == 0, err
	})
	if err != nil {
		return fmt.Errorf("terminate the WAL receiver: %w", err)
	}
	return nil
}
