package sqlclient

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"

	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

// Status is the state of a server.
type Status struct {
	SystemID   string
	InRecovery bool
	// Timeline is the timeline of a primary. On a standby it is the received or replayed one, whichever is later.
	Timeline wal.Timeline
	// Written is the WAL position of a primary, 0 on a standby. Received (flushed to disk) and Replayed are those of a
	// standby, 0 on a primary. Received is never before Replayed: after a restart nothing may have been received yet.
	Written, Received, Replayed wal.LSN
	// Receiver is the WAL receiver of a standby, or nil.
	Receiver *Receiver
	// Senders are the connected standbys, by name.
	Senders []Sender
	// PendingRestart are the parameters that need a restart.
	PendingRestart []string
}

// Receiver is a row of pg_stat_wal_receiver.
type Receiver struct {
	PID int
	// State is streaming, waiting, starting, restarting or stopping.
	State string
}

// Sender is a row of pg_stat_replication.
type Sender struct {
	PID int
	// Name is the application_name, which is config.Settings.ClusterName of the standby.
	Name string
	// State is startup, catchup, streaming, backup or stopping.
	State   string
	Flushed wal.LSN
}

// The timeline of a primary is read from the name of its current WAL file: the control file has it only after the next
// checkpoint.
const statusQuery = `
SELECT s.system_identifier::text, r.standby,
  CASE WHEN r.standby
    THEN greatest(c.timeline_id, m.min_recovery_end_timeline, coalesce((SELECT received_tli FROM pg_stat_wal_receiver), 0))
    ELSE ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int END,
  CASE WHEN r.standby THEN 0 ELSE pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::int8 END,
  CASE WHEN r.standby THEN pg_wal_lsn_diff(greatest(coalesce(pg_last_wal_receive_lsn(), '0/0'), coalesce(pg_last_wal_replay_lsn(), '0/0')), '0/0')::int8 ELSE 0 END,
  CASE WHEN r.standby THEN pg_wal_lsn_diff(coalesce(pg_last_wal_replay_lsn(), '0/0'), '0/0')::int8 ELSE 0 END,
  ARRAY(SELECT name FROM pg_settings WHERE pending_restart ORDER BY name)
FROM pg_control_system() s, pg_control_checkpoint() c, pg_control_recovery() m, (SELECT pg_is_in_recovery() AS standby) r`

const receiverQuery = `SELECT pid, status FROM pg_stat_wal_receiver`

const sendersQuery = `
SELECT pid, application_name, coalesce(state, ''), pg_wal_lsn_diff(coalesce(flush_lsn, '0/0'), '0/0')::int8
FROM pg_stat_replication ORDER BY application_name, pid`

// Status reads the state in one round trip.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var status Status
	err := c.withConn(ctx, func(conn *pgx.Conn) error {
		status = Status{}
		batch := &pgx.Batch{}
		batch.Queue(statusQuery)
		batch.Queue(receiverQuery)
		batch.Queue(sendersQuery)
		results := conn.SendBatch(ctx, batch)
		return errors.Join(status.scan(results), results.Close())
	})
	if err != nil {
		return Status{}, fmt.Errorf("query the server status: %w", err)
	}
	return status, nil
}

func (s *Status) scan(results pgx.BatchResults) error {
	if err := results.QueryRow().Scan(&s.SystemID, &s.InRecovery, &s.Timeline, &s.Written, &s.Received, &s.Replayed,
		&s.PendingRestart); err != nil {
		return err
	}
	var err error
	if s.Receiver, err = scanReceiver(results.QueryRow()); err != nil {
		return err
	}
	rows, err := results.Query()
	if err != nil {
		return err
	}
	s.Senders, err = pgx.CollectRows(rows, scanSender)
	return err
}

func scanReceiver(row pgx.Row) (*Receiver, error) {
	r := &Receiver{}
	err := row.Scan(&r.PID, &r.State)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	return r, err
}

func scanSender(row pgx.CollectableRow) (Sender, error) {
	var s Sender
	err := row.Scan(&s.PID, &s.Name, &s.State, &s.Flushed)
	return s, err
}

// InRecovery returns whether the server is a standby.
func (c *Client) InRecovery(ctx context.Context) (bool, error) {
	return queryValue[bool](ctx, c, "SELECT pg_is_in_recovery()")
}

// Query runs a query and passes each row to scan.
func (c *Client) Query(ctx context.Context, query string, scan func(pgx.CollectableRow) error) error {
	return c.withConn(ctx, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, query)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			if err := scan(rows); err != nil {
				return err
			}
		}
		return rows.Err()
	})
}
