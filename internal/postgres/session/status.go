package session

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

// Status is what a server tells about itself.
type Status struct {
	SystemID   string
	InRecovery bool
	// Timeline is that of the primary, or the one a standby receives or replays, whichever is later.
	Timeline wal.Timeline
	// Written is a primary's own position, 0 on a standby. Received (flushed to disk) and Replayed are a standby's, 0 on a
	// primary. Received is never before Replayed: after a restart nothing may have been received yet.
	Written, Received, Replayed wal.LSN
	// ReplayPaused is set while a standby's replay is stopped.
	ReplayPaused bool
	// LastReplay is when the last transaction that was replayed committed, by the primary's clock; zero for none.
	LastReplay time.Time
	// Receiver is the state of a standby's WAL receiver; nil without one.
	Receiver *Receiver
	// Senders are the connected standbys, by name.
	Senders []Sender
	// PendingRestart names the parameters that wait for a restart.
	PendingRestart []string
	// Synchronous is synchronous_standby_names as it is in effect.
	Synchronous string
	// StartedAt is when the postmaster started.
	StartedAt time.Time
}

// Receiver is a row of pg_stat_wal_receiver.
type Receiver struct {
	PID int
	// State is streaming, waiting, starting, restarting or stopping.
	State    string
	Host     string
	Slot     string
	Timeline wal.Timeline
	Flushed  wal.LSN
	// LastMessage is when the last message arrived, by the standby's clock; zero for never.
	LastMessage time.Time
}

// Sender is a row of pg_stat_replication.
type Sender struct {
	PID int
	// Name is the application_name: config.Settings.ClusterName of the standby.
	Name, Address string
	// State is startup, catchup, streaming, backup or stopping; SyncState is async, potential, sync or quorum.
	State, SyncState                 string
	Sent, Written, Flushed, Replayed wal.LSN
	WriteLag, FlushLag, ReplayLag    time.Duration
}

// The timeline of a primary is read from the name of the file it writes to: the control file tells it only after the
// next checkpoint.
const statusQuery = `
SELECT s.system_identifier::text, r.standby,
  CASE WHEN r.standby
    THEN greatest(c.timeline_id, m.min_recovery_end_timeline, coalesce((SELECT received_tli FROM pg_stat_wal_receiver), 0))
    ELSE ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int END,
  CASE WHEN r.standby THEN 0 ELSE pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::int8 END,
  CASE WHEN r.standby THEN pg_wal_lsn_diff(greatest(coalesce(pg_last_wal_receive_lsn(), '0/0'), coalesce(pg_last_wal_replay_lsn(), '0/0')), '0/0')::int8 ELSE 0 END,
  CASE WHEN r.standby THEN pg_wal_lsn_diff(coalesce(pg_last_wal_replay_lsn(), '0/0'), '0/0')::int8 ELSE 0 END,
  CASE WHEN r.standby THEN pg_is_wal_replay_paused() ELSE false END,
  pg_last_xact_replay_timestamp(), current_setting('synchronous_standby_names'), pg_postmaster_start_time(),
  ARRAY(SELECT name FROM pg_settings WHERE pending_restart ORDER BY name)
FROM pg_control_system() s, pg_control_checkpoint() c, pg_control_recovery() m, (SELECT pg_is_in_recovery() AS standby) r`

const receiverQuery = `
SELECT pid, status, coalesce(sender_host, ''), coalesce(slot_name, ''), coalesce(received_tli, 0),
  pg_wal_lsn_diff(coalesce(flushed_lsn, '0/0'), '0/0')::int8, last_msg_receipt_time
FROM pg_stat_wal_receiver`

const sendersQuery = `
SELECT pid, application_name, coalesce(host(client_addr), ''), coalesce(state, ''), coalesce(sync_state, ''),
  pg_wal_lsn_diff(coalesce(sent_lsn, '0/0'), '0/0')::int8, pg_wal_lsn_diff(coalesce(write_lsn, '0/0'), '0/0')::int8,
  pg_wal_lsn_diff(coalesce(flush_lsn, '0/0'), '0/0')::int8, pg_wal_lsn_diff(coalesce(replay_lsn, '0/0'), '0/0')::int8,
  (coalesce(extract(epoch FROM write_lag), 0) * 1e6)::int8, (coalesce(extract(epoch FROM flush_lag), 0) * 1e6)::int8,
  (coalesce(extract(epoch FROM replay_lag), 0) * 1e6)::int8
FROM pg_stat_replication ORDER BY application_name, pid`

// Status asks for all of it at once.
func (c *Client) Status(ctx context.Context) (Status, error) {
	var status Status
	err := c.use(ctx, func(conn *pgx.Conn) error {
		status = Status{}
		batch := &pgx.Batch{}
		batch.Queue(statusQuery)
		batch.Queue(receiverQuery)
		batch.Queue(sendersQuery)
		results := conn.SendBatch(ctx, batch)
		return errors.Join(status.scan(results), results.Close())
	})
	if err != nil {
		return Status{}, fmt.Errorf("ask for the server's status: %w", err)
	}
	return status, nil
}

func (s *Status) scan(results pgx.BatchResults) error {
	var lastReplay *time.Time
	if err := results.QueryRow().Scan(&s.SystemID, &s.InRecovery, &s.Timeline, &s.Written, &s.Received, &s.Replayed, &s.ReplayPaused,
		&lastReplay, &s.Synchronous, &s.StartedAt, &s.PendingRestart); err != nil {
		return err
	}
	if lastReplay != nil {
		s.LastReplay = *lastReplay
	}
	receiver, err := scanReceiver(results.QueryRow())
	if err != nil {
		return err
	}
	s.Receiver = receiver
	rows, err := results.Query()
	if err != nil {
		return err
	}
	s.Senders, err = pgx.CollectRows(rows, scanSender)
	return err
}

func scanReceiver(row pgx.Row) (*Receiver, error) {
	r, lastMessage := &Receiver{}, (*time.Time)(nil)
	err := row.Scan(&r.PID, &r.State, &r.Host, &r.Slot, &r.Timeline, &r.Flushed, &lastMessage)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if lastMessage != nil {
		r.LastMessage = *lastMessage
	}
	return r, err
}

func scanSender(row pgx.CollectableRow) (Sender, error) {
	var s Sender
	var writeLag, flushLag, replayLag int64
	err := row.Scan(&s.PID, &s.Name, &s.Address, &s.State, &s.SyncState, &s.Sent, &s.Written, &s.Flushed, &s.Replayed,
		&writeLag, &flushLag, &replayLag)
	s.WriteLag, s.FlushLag, s.ReplayLag = microseconds(writeLag), microseconds(flushLag), microseconds(replayLag)
	return s, err
}

func microseconds(n int64) time.Duration { return time.Duration(n) * time.Microsecond }

// InRecovery says whether the server is a standby.
func (c *Client) InRecovery(ctx context.Context) (bool, error) {
	var standby bool
	err := c.use(ctx, func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT pg_is_in_recovery()").Scan(&standby)
	})
	return standby, err
}

// ForeignSettings names parameters whose value comes from somewhere else than the files of package config and the
// defaults: ALTER SYSTEM (which is refused from version 17 on), and the command line. They are undone at the next start.
func (c *Client) ForeignSettings(ctx context.Context) ([]string, error) {
	return c.names(ctx, `SELECT name FROM pg_file_settings WHERE sourcefile LIKE '%/postgresql.auto.conf' ORDER BY name`)
}

// RefusedSettings tells what the server does not like about its configuration, after a reload: "name: why".
func (c *Client) RefusedSettings(ctx context.Context) ([]string, error) {
	return c.names(ctx, `SELECT coalesce(name, sourcefile || ':' || sourceline) || ': ' || error FROM pg_file_settings
WHERE error IS NOT NULL AND error <> 'setting could not be applied' OR error = 'setting could not be applied'
  AND name NOT IN (SELECT name FROM pg_settings WHERE context = 'postmaster') ORDER BY 1`)
}

func (c *Client) names(ctx context.Context, query string) ([]string, error) {
	var names []string
	err := c.use(ctx, func(conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, query)
		if err != nil {
			return err
		}
		names, err = pgx.CollectRows(rows, pgx.RowTo[string])
		return err
	})
	return names, err
}

// Read asks a question of the caller's own, and gives each row of the answer to scan.
func (c *Client) Read(ctx context.Context, query string, scan func(pgx.CollectableRow) error) error {
	return c.use(ctx, func(conn *pgx.Conn) error {
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
