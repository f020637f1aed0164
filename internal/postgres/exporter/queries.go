package exporter

import "github.com/prometheus/client_golang/prometheus"

// query is a query whose columns are the labels, as text, and then the values, as numbers.
type query struct {
	// from and to are the major versions that know it; 0 is no limit.
	from, to int
	// on says whom to ask.
	on      target
	sql     string
	labels  []string
	metrics []metric
}

type target int

const (
	allServers target = iota
	primariesOnly
	standbysOnly
)

type metric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
}

func (q query) matches(major int, standby bool) bool {
	return (q.from == 0 || major >= q.from) && (q.to == 0 || major <= q.to) &&
		(q.on == allServers || standby == (q.on == standbysOnly))
}

// newQuery makes a question. The pairs are names and descriptions of the metrics, in the order of the columns; those that end
// in _total are counters.
func newQuery(q query, pairs ...string) query {
	for i := 0; i+1 < len(pairs); i += 2 {
		kind := prometheus.GaugeValue
		if n := len(pairs[i]); n > 6 && pairs[i][n-6:] == "_total" {
			kind = prometheus.CounterValue
		}
		q.metrics = append(q.metrics, metric{describe(pairs[i], pairs[i+1], q.labels...), kind})
	}
	return q
}

// queries are all that is asked. Two that have the same metrics must not fit the same server.
var queries = []query{
	newQuery(query{sql: `SELECT CASE WHEN pg_is_in_recovery() THEN 1 ELSE 0 END::float8, extract(epoch FROM pg_postmaster_start_time())::float8,
  current_setting('max_connections')::float8, (SELECT count(*) FROM pg_settings WHERE pending_restart)::float8,
  (SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0) FROM pg_stat_activity WHERE backend_type = 'client backend')::float8`},
		"in_recovery", "1 on a standby, 0 on a primary.",
		"start_time_seconds", "When the server started, in seconds since 1970.",
		"max_connections", "How many sessions the server takes.",
		"pending_restart_settings", "Settings that wait for a restart.",
		"oldest_transaction_seconds", "Age of the oldest open transaction."),
	newQuery(query{labels: []string{"database", "state"}, sql: `SELECT coalesce(datname, ''), coalesce(state, 'unknown'), count(*)::float8
FROM pg_stat_activity WHERE backend_type = 'client backend' GROUP BY 1, 2`},
		"connections", "Sessions of clients."),
	newQuery(query{labels: []string{"database"}, sql: `SELECT s.datname, xact_commit::float8, xact_rollback::float8, blks_read::float8, blks_hit::float8,
  tup_returned::float8, tup_inserted::float8, tup_updated::float8, tup_deleted::float8, deadlocks::float8, conflicts::float8, temp_bytes::float8,
  coalesce(checksum_failures, 0)::float8, pg_database_size(s.datid)::float8, age(d.datfrozenxid)::float8
FROM pg_stat_database s JOIN pg_database d ON d.oid = s.datid WHERE NOT d.datistemplate`},
		"transactions_committed_total", "Transactions that were committed.",
		"transactions_rolled_back_total", "Transactions that were rolled back.",
		"blocks_read_total", "Blocks read from files.",
		"blocks_hit_total", "Blocks found in the buffers.",
		"rows_returned_total", "Rows that were read.",
		"rows_inserted_total", "Rows that were inserted.",
		"rows_updated_total", "Rows that were updated.",
		"rows_deleted_total", "Rows that were deleted.",
		"deadlocks_total", "Deadlocks.",
		"conflicts_total", "Queries of a standby that gave way to replay.",
		"temporary_bytes_total", "Written to temporary files.",
		"checksum_failures_total", "Pages whose checksum was wrong.",
		"database_size_bytes", "Size of the database.",
		"transaction_id_age", "Transactions since the oldest that is not frozen: at 2 billion the server takes no more writes."),
	newQuery(query{on: primariesOnly, sql: `SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8`},
		"wal_written_bytes_total", "Position in the write-ahead log."),
	newQuery(query{on: standbysOnly, sql: `SELECT r::float8, p::float8, greatest(r - p, 0)::float8,
  CASE WHEN r <= p THEN 0 ELSE greatest(extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()), 0) END::float8,
  (SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming')::float8,
  (SELECT extract(epoch FROM clock_timestamp() - last_msg_receipt_time) FROM pg_stat_wal_receiver)::float8
FROM (SELECT pg_wal_lsn_diff(greatest(coalesce(pg_last_wal_receive_lsn(), '0/0'), coalesce(pg_last_wal_replay_lsn(), '0/0')), '0/0') AS r,
  pg_wal_lsn_diff(coalesce(pg_last_wal_replay_lsn(), '0/0'), '0/0') AS p) x`},
		"wal_received_bytes_total", "Position up to which a standby has received the write-ahead log.",
		"wal_replayed_bytes_total", "Position up to which it has replayed it.",
		"replay_lag_bytes", "What a standby has received and not replayed.",
		"replay_lag_seconds", "Age of the last transaction it replayed; 0 when it has replayed all it received.",
		"receiver_streaming", "1 while a standby streams from its primary.",
		"receiver_silence_seconds", "Time since the primary's last message."),
	newQuery(query{on: primariesOnly, labels: []string{"standby", "sync_state"}, sql: `SELECT application_name, coalesce(sync_state, ''),
  max(CASE WHEN state = 'streaming' THEN 1 ELSE 0 END)::float8, max(pg_wal_lsn_diff(pg_current_wal_lsn(), coalesce(flush_lsn, '0/0')))::float8,
  max(pg_wal_lsn_diff(pg_current_wal_lsn(), coalesce(replay_lsn, '0/0')))::float8, max(coalesce(extract(epoch FROM flush_lag), 0))::float8,
  max(coalesce(extract(epoch FROM replay_lag), 0))::float8
FROM pg_stat_replication WHERE state <> 'backup' GROUP BY 1, 2`},
		"standby_streaming", "1 for a standby that streams, 0 for one that catches up.",
		"standby_flush_lag_bytes", "What the standby has not written to its disk.",
		"standby_replay_lag_bytes", "What the standby has not replayed.",
		"standby_flush_lag_seconds", "Time until the standby's last answer that it had written to its disk.",
		"standby_replay_lag_seconds", "Time until the standby's last answer that it had replayed."),
	newQuery(query{on: primariesOnly, sql: `SELECT coalesce(substring(current_setting('synchronous_standby_names') FROM '^ANY ([0-9]+) ')::float8, 0),
  (SELECT count(DISTINCT application_name) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state IN ('sync', 'quorum'))::float8,
  (SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep')::float8`},
		"synchronous_required", "How many standbys a commit waits for; 0 where it waits for none.",
		"synchronous_streaming", "Standbys that stream and whose answer counts.",
		"synchronous_waiting_sessions", "Sessions that wait for standbys at this moment."),
	newQuery(query{labels: []string{"slot"}, sql: `SELECT slot_name::text, CASE WHEN active THEN 1 ELSE 0 END::float8,
  pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, restart_lsn)::float8,
  CASE WHEN wal_status = 'lost' THEN 1 ELSE 0 END::float8
FROM pg_replication_slots WHERE NOT temporary`},
		"slot_active", "1 while somebody uses the slot.",
		"slot_retained_bytes", "Write-ahead log that is kept for the slot.",
		"slot_lost", "1 when what the slot needs was removed, so that the volume does not fill up."),
	newQuery(query{sql: `SELECT count(*)::float8, coalesce(sum(size), 0)::float8 FROM pg_ls_waldir()`},
		"wal_files", "Files of the write-ahead log.",
		"wal_size_bytes", "Their size."),
	newQuery(query{sql: `SELECT archived_count::float8, failed_count::float8, extract(epoch FROM last_archived_time)::float8,
  extract(epoch FROM last_failed_time)::float8, CASE WHEN current_setting('archive_mode') = 'off' THEN 0 ELSE 1 END::float8 FROM pg_stat_archiver`},
		"archive_succeeded_total", "Segments that were archived.",
		"archive_failed_total", "Attempts to archive one that failed.",
		"archive_last_success_seconds", "When the last one was archived, in seconds since 1970.",
		"archive_last_failure_seconds", "When the last attempt failed, in seconds since 1970.",
		"archive_enabled", "1 when segments are archived."),
	newQuery(query{to: 16, labels: []string{"reason"}, sql: `SELECT 'time', checkpoints_timed::float8 FROM pg_stat_bgwriter
UNION ALL SELECT 'requested', checkpoints_req::float8 FROM pg_stat_bgwriter`},
		"checkpoints_total", "Checkpoints, because of the time or of a request (such as max_wal_size)."),
	newQuery(query{from: 17, labels: []string{"reason"}, sql: `SELECT 'time', num_timed::float8 FROM pg_stat_checkpointer
UNION ALL SELECT 'requested', num_requested::float8 FROM pg_stat_checkpointer`},
		"checkpoints_total", "Checkpoints, because of the time or of a request (such as max_wal_size)."),
}
