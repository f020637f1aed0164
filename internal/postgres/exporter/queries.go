package exporter

import "github.com/prometheus/client_golang/prometheus"

// query is an SQL query whose columns are first labels (text), then values (numbers).
type query struct {
	// from and to are the first and last major version that support it. 0 means no limit.
	from, to int
	// on says which servers to query.
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

// newQuery creates a query. The pairs are names and help texts of the metrics, in the order of the columns. Names that end
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

// queries are all queries. Two queries with the same metric must not match the same server.
var queries = []query{
	newQuery(query{sql: `SELECT CASE WHEN pg_is_in_recovery() THEN 1 ELSE 0 END::float8, extract(epoch FROM pg_postmaster_start_time())::float8,
  current_setting('max_connections')::float8, (SELECT count(*) FROM pg_settings WHERE pending_restart)::float8,
  (SELECT coalesce(max(extract(epoch FROM clock_timestamp() - xact_start)), 0) FROM pg_stat_activity WHERE backend_type = 'client backend')::float8`},
		"in_recovery", "1 on a standby, 0 on a primary.",
		"start_time_seconds", "Start time of the server, in seconds since the epoch.",
		"max_connections", "Maximum number of connections (max_connections).",
		"pending_restart_settings", "Number of settings that need a restart to take effect.",
		"oldest_transaction_seconds", "Age of the oldest open transaction in seconds."),
	newQuery(query{labels: []string{"database", "state"}, sql: `SELECT coalesce(datname, ''), coalesce(state, 'unknown'), count(*)::float8
FROM pg_stat_activity WHERE backend_type = 'client backend' GROUP BY 1, 2`},
		"connections", "Client connections, by database and state."),
	newQuery(query{labels: []string{"database"}, sql: `SELECT s.datname, xact_commit::float8, xact_rollback::float8, blks_read::float8, blks_hit::float8,
  tup_returned::float8, tup_inserted::float8, tup_updated::float8, tup_deleted::float8, deadlocks::float8, conflicts::float8, temp_bytes::float8,
  coalesce(checksum_failures, 0)::float8, pg_database_size(s.datid)::float8, age(d.datfrozenxid)::float8
FROM pg_stat_database s JOIN pg_database d ON d.oid = s.datid WHERE NOT d.datistemplate`},
		"transactions_committed_total", "Committed transactions.",
		"transactions_rolled_back_total", "Rolled back transactions.",
		"blocks_read_total", "Blocks read from disk or the operating system's cache.",
		"blocks_hit_total", "Blocks found in shared_buffers (cache hits).",
		"rows_returned_total", "Rows returned by scans.",
		"rows_inserted_total", "Rows inserted.",
		"rows_updated_total", "Rows updated.",
		"rows_deleted_total", "Rows deleted.",
		"deadlocks_total", "Deadlocks detected.",
		"conflicts_total", "Queries canceled on a standby because of conflicts with recovery.",
		"temporary_bytes_total", "Bytes written to temporary files.",
		"checksum_failures_total", "Data page checksum failures.",
		"database_size_bytes", "Size of the database in bytes.",
		"transaction_id_age", "Age of the oldest unfrozen transaction ID. At 2 billion the server rejects writes (wraparound)."),
	newQuery(query{on: primariesOnly, sql: `SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::float8`},
		"wal_written_bytes_total", "Current WAL position in bytes."),
	newQuery(query{on: standbysOnly, sql: `SELECT r::float8, p::float8, greatest(r - p, 0)::float8,
  CASE WHEN r <= p THEN 0 ELSE greatest(extract(epoch FROM clock_timestamp() - pg_last_xact_replay_timestamp()), 0) END::float8,
  (SELECT count(*) FROM pg_stat_wal_receiver WHERE status = 'streaming')::float8,
  (SELECT extract(epoch FROM clock_timestamp() - last_msg_receipt_time) FROM pg_stat_wal_receiver)::float8
FROM (SELECT pg_wal_lsn_diff(greatest(coalesce(pg_last_wal_receive_lsn(), '0/0'), coalesce(pg_last_wal_replay_lsn(), '0/0')), '0/0') AS r,
  pg_wal_lsn_diff(coalesce(pg_last_wal_replay_lsn(), '0/0'), '0/0') AS p) x`},
		"wal_received_bytes_total", "WAL position that the standby has received, in bytes.",
		"wal_replayed_bytes_total", "WAL position that the standby has replayed, in bytes.",
		"replay_lag_bytes", "WAL that the standby has received but not replayed, in bytes.",
		"replay_lag_seconds", "Age of the last replayed transaction in seconds. 0 if all received WAL is replayed.",
		"receiver_streaming", "1 if the WAL receiver of the standby is streaming, otherwise 0.",
		"receiver_silence_seconds", "Time since the last message from the primary in seconds."),
	newQuery(query{on: primariesOnly, labels: []string{"standby", "sync_state"}, sql: `SELECT application_name, coalesce(sync_state, ''),
  max(CASE WHEN state = 'streaming' THEN 1 ELSE 0 END)::float8, max(pg_wal_lsn_diff(pg_current_wal_lsn(), coalesce(flush_lsn, '0/0')))::float8,
  max(pg_wal_lsn_diff(pg_current_wal_lsn(), coalesce(replay_lsn, '0/0')))::float8, max(coalesce(extract(epoch FROM flush_lag), 0))::float8,
  max(coalesce(extract(epoch FROM replay_lag), 0))::float8
FROM pg_stat_replication WHERE state <> 'backup' GROUP BY 1, 2`},
		"standby_streaming", "1 if the standby is streaming, 0 if it is catching up.",
		"standby_flush_lag_bytes", "WAL that the standby has not flushed to disk, in bytes.",
		"standby_replay_lag_bytes", "WAL that the standby has not replayed, in bytes.",
		"standby_flush_lag_seconds", "Time until the standby reported WAL as flushed (flush_lag), in seconds.",
		"standby_replay_lag_seconds", "Time until the standby reported WAL as replayed (replay_lag), in seconds."),
	newQuery(query{on: primariesOnly, sql: `SELECT coalesce(substring(current_setting('synchronous_standby_names') FROM '^ANY ([0-9]+) ')::float8, 0),
  (SELECT count(DISTINCT application_name) FROM pg_stat_replication WHERE state = 'streaming' AND sync_state IN ('sync', 'quorum'))::float8,
  (SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep')::float8`},
		"synchronous_required", "Number of standbys that a commit waits for. 0 without synchronous replication.",
		"synchronous_streaming", "Number of streaming synchronous standbys.",
		"synchronous_waiting_sessions", "Sessions that are waiting for synchronous standbys."),
	newQuery(query{labels: []string{"slot"}, sql: `SELECT slot_name::text, CASE WHEN active THEN 1 ELSE 0 END::float8,
  pg_wal_lsn_diff(CASE WHEN pg_is_in_recovery() THEN pg_last_wal_replay_lsn() ELSE pg_current_wal_lsn() END, restart_lsn)::float8,
  CASE WHEN wal_status = 'lost' THEN 1 ELSE 0 END::float8
FROM pg_replication_slots WHERE NOT temporary`},
		"slot_active", "1 if the replication slot is in use, otherwise 0.",
		"slot_retained_bytes", "WAL retained for the replication slot, in bytes.",
		"slot_lost", "1 if WAL that the slot needs was removed (max_slot_wal_keep_size), otherwise 0."),
	newQuery(query{sql: `SELECT count(*)::float8, coalesce(sum(size), 0)::float8 FROM pg_ls_waldir()`},
		"wal_files", "Number of WAL files.",
		"wal_size_bytes", "Size of the WAL files in bytes."),
	newQuery(query{sql: `SELECT archived_count::float8, failed_count::float8, extract(epoch FROM last_archived_time)::float8,
  extract(epoch FROM last_failed_time)::float8, CASE WHEN current_setting('archive_mode') = 'off' THEN 0 ELSE 1 END::float8 FROM pg_stat_archiver`},
		"archive_succeeded_total", "WAL segments archived.",
		"archive_failed_total", "Failed attempts to archive a WAL segment.",
		"archive_last_success_seconds", "Time of the last archived WAL segment, in seconds since the epoch.",
		"archive_last_failure_seconds", "Time of the last failed attempt to archive, in seconds since the epoch.",
		"archive_enabled", "1 if WAL archiving is enabled, otherwise 0."),
	newQuery(query{to: 16, labels: []string{"reason"}, sql: `SELECT 'time', checkpoints_timed::float8 FROM pg_stat_bgwriter
UNION ALL SELECT 'requested', checkpoints_req::float8 FROM pg_stat_bgwriter`},
		"checkpoints_total", "Checkpoints, by reason: time (checkpoint_timeout) or requested (such as max_wal_size)."),
	newQuery(query{from: 17, labels: []string{"reason"}, sql: `SELECT 'time', num_timed::float8 FROM pg_stat_checkpointer
UNION ALL SELECT 'requested', num_requested::float8 FROM pg_stat_checkpointer`},
		"checkpoints_total", "Checkpoints, by reason: time (checkpoint_timeout) or requested (such as max_wal_size)."),
}
