package alerts

import "time"

const minute = time.Minute

func minutes(n ...int) []time.Duration {
	var out []time.Duration
	for _, m := range n {
		out = append(out, time.Duration(m)*minute)
	}
	return out
}

var ofInstances = []scenario{
	{
		"FettlePostgreSQLNoPrimary critical",
		[]string{`fettle_agent_is_primary/orders-0 1x9 0x30`, `fettle_agent_is_primary/orders-1 0x40`},
		minutes(1, 4, 5), 6*minute + interval, []string{""},
	},
	{
		"FettlePostgreSQLSeveralPrimaries critical",
		[]string{`fettle_postgresql_in_recovery/orders-0 0x40`, `fettle_postgresql_in_recovery/orders-1 1x9 0x30`, `fettle_postgresql_in_recovery/orders-2 1x40`},
		minutes(4, 6), 8 * minute, []string{""},
	},
	{
		"FettlePostgreSQLInstanceDown warning",
		[]string{
			`up/orders-0 1x80`, `fettle_postgresql_up/orders-0 1x80`,
			`up/orders-1 1x9 0x70`, `fettle_postgresql_up/orders-1 1x9`,
			`up/orders-2 1x80`, `fettle_postgresql_up/orders-2 1x9 0x70`,
			`up/orders-3 1x80`, `fettle_postgresql_up/orders-3 1x9 0x70`, `fettle_agent_phase/orders-3/phase="Cloning" 1x80`,
		},
		minutes(4, 9), 11 * minute, []string{"pod=orders-1", "pod=orders-2"},
	},
	{
		"FettlePostgreSQLInstancesMissing warning",
		[]string{`up/orders-0 1x80`, `up/orders-1 1x80`, `up/orders-2 1x9`},
		minutes(4, 14), 21 * minute, []string{""},
	},
	{
		"FettlePostgreSQLManyFailovers warning",
		[]string{`fettle_agent_timeline/orders-0 0x3 1x60 2x9 3x9 3x30`, `fettle_agent_timeline/orders-1 0x3 1x60 2x9 3x9 4x30`},
		minutes(2, 30, 40), 45 * minute, []string{""},
	},
	{
		"FettlePostgreSQLLeaseErrors warning",
		[]string{
			`fettle_agent_lease_errors_total/orders-0 0+0x20 1+1x60`, `fettle_agent_api_reachable/orders-0 1x80`,
			`fettle_agent_lease_errors_total/orders-1 0x80`, `fettle_agent_api_reachable/orders-1 1x20 0x60`,
			`fettle_agent_lease_errors_total/orders-2 0+0x20 1+0x60`, `fettle_agent_api_reachable/orders-2 1x80`,
		},
		minutes(5, 14), 25 * minute, []string{"pod=orders-0", "pod=orders-1"},
	},
	{
		"FettlePostgreSQLCopyFails warning",
		[]string{`fettle_agent_work_failures_total/orders-0/work="clone" 0x9 0+1x60`, `fettle_agent_work_failures_total/orders-1/work="rewind" 0x9 2x60`},
		minutes(4, 5), 8 * minute, []string{"pod=orders-0 work=clone"},
	},
	{
		"FettlePostgreSQLCopying info",
		[]string{`fettle_agent_phase/orders-2/phase="Cloning" 0x9 1x150`, `fettle_agent_phase/orders-2/phase="Running" 1x160`},
		minutes(4, 64), 66 * minute, []string{"phase=Cloning pod=orders-2"},
	},
	{
		"FettlePostgreSQLRecloned info",
		[]string{`fettle_agent_reclones_total/orders-1 0x9 1x30`, `fettle_agent_reclones_total/orders-2 1x40`},
		minutes(4), 6 * minute, []string{"pod=orders-1"},
	},
	{
		"FettlePostgreSQLCrashing warning",
		[]string{`fettle_agent_crashes_total/orders-1 0x60 1x9 2x9 3x9 4x40`, `fettle_agent_crashes_total/orders-2 0x60 1x70`},
		minutes(29, 33), 50 * minute, []string{"pod=orders-1"},
	},
}

var ofReplication = []scenario{
	{
		"FettlePostgreSQLReplicaNotStreaming warning",
		[]string{`fettle_postgresql_receiver_streaming/orders-1 1x9 0x30`, `fettle_postgresql_receiver_streaming/orders-2 1x40`},
		minutes(4, 9), 11 * minute, []string{"pod=orders-1"},
	},
	{ // its WAL receiver restarts repeatedly, and is sometimes scraped while it streams
		"FettlePostgreSQLReplicaNotStreaming warning",
		[]string{
			`fettle_postgresql_receiver_streaming/orders-1 1x9 0x3 1 0x2 1 0x23`, `fettle_postgresql_receiver_streaming/orders-2 1x40`,
			`fettle_agent_wal_unavailable/orders-1 0x9 1x30`, `fettle_agent_wal_unavailable/orders-2 0x40`,
		},
		minutes(4, 9), 11 * minute, []string{"pod=orders-1"},
	},
	{
		"FettlePostgreSQLReplicationLag warning",
		[]string{`fettle_postgresql_replay_lag_seconds/orders-1 0x9 61x30`, `fettle_postgresql_replay_lag_seconds/orders-2 60x40`},
		minutes(4, 9), 11 * minute, []string{"pod=orders-1"},
	},
	{
		"FettlePostgreSQLReplicationLagBytes warning",
		[]string{
			`fettle_postgresql_standby_flush_lag_bytes/orders-0/standby="orders-1",sync_state="async" 0x9 134217729x30`,
			`fettle_postgresql_standby_flush_lag_bytes/orders-0/standby="orders-2",sync_state="async" 134217728x40`,
		},
		minutes(4, 9), 11 * minute, []string{"pod=orders-0 standby=orders-1 sync_state=async"},
	},
	{
		"FettlePostgreSQLSynchronousStandbysMissing critical",
		[]string{
			`fettle_postgresql_synchronous_required/orders-0 1x40`, `fettle_postgresql_synchronous_streaming/orders-0 1x9 0x30`,
			`fettle_postgresql_synchronous_required/orders-9 0x40`, `fettle_postgresql_synchronous_streaming/orders-9 0x40`,
		},
		minutes(4, 5), 7 * minute, []string{"pod=orders-0"},
	},
	{
		"FettlePostgreSQLSlotRetainsWAL warning",
		[]string{
			`fettle_postgresql_volume_size_bytes/orders-0 1000x80`, `fettle_postgresql_in_recovery/orders-0 0x80`,
			`fettle_postgresql_volume_size_bytes/orders-1 1000x80`, `fettle_postgresql_in_recovery/orders-1 1x80`,
			`fettle_postgresql_slot_retained_bytes/orders-0/slot="fettle_1" 0x9 101x70`, `fettle_postgresql_slot_retained_bytes/orders-0/slot="fettle_2" 100x80`,
			`fettle_postgresql_slot_retained_bytes/orders-1/slot="fettle_0" 500x80`,
		},
		minutes(4, 14), 16 * minute, []string{"pod=orders-0 slot=fettle_1"},
	},
}

var ofVolumes = []scenario{
	{
		"FettlePostgreSQLDiskFilling warning",
		[]string{
			`fettle_postgresql_volume_size_bytes/orders-0 1000x80`, `fettle_postgresql_volume_free_bytes/orders-0 500x9 149x70`,
			`fettle_postgresql_volume_size_bytes/orders-1 1000x80`, `fettle_postgresql_volume_free_bytes/orders-1 150x80`,
		},
		minutes(4, 19), 21 * minute, []string{"pod=orders-0"},
	},
	{
		"FettlePostgreSQLDiskFillingSoon warning",
		[]string{
			// 100 minutes fill 20 % of the first two volumes. Half of the second one is free.
			`fettle_postgresql_volume_size_bytes/orders-0 100000x400`, `fettle_postgresql_volume_free_bytes/orders-0 49000-100x200`,
			`fettle_postgresql_volume_size_bytes/orders-1 100000x400`, `fettle_postgresql_volume_free_bytes/orders-1 90000-100x200`,
			`fettle_postgresql_volume_size_bytes/orders-2 100000x400`, `fettle_postgresql_volume_free_bytes/orders-2 30000x200`,
		},
		minutes(30, 59), 65 * minute, []string{"pod=orders-0"},
	},
	{
		"FettlePostgreSQLDiskFull critical",
		[]string{
			`fettle_postgresql_volume_size_bytes/orders-0 1000x80`, `fettle_postgresql_volume_free_bytes/orders-0 500x9 49x70`,
			`fettle_postgresql_volume_size_bytes/orders-1 1000x80`, `fettle_postgresql_volume_free_bytes/orders-1 50x80`,
		},
		minutes(4, 5), 7 * minute, []string{"pod=orders-0"},
	},
	{
		"FettlePostgreSQLWritesRejected critical",
		[]string{`fettle_agent_writes_rejected/orders-0 0x9 1x70`, `fettle_agent_writes_rejected/orders-1 0x80`},
		minutes(4, 5), 7 * minute, []string{"pod=orders-0"},
	},
	{
		"FettlePostgreSQLAutoGrowExhausted warning",
		[]string{
			// The maximum is 100 GiB, the threshold 90 %.
			`fettle_postgresql_volume_size_bytes/orders-0 100000000000x80`, `fettle_postgresql_volume_free_bytes/orders-0 20000000000x9 9900000000x70`,
			`fettle_postgresql_volume_size_bytes/orders-1 50000000000x80`, `fettle_postgresql_volume_free_bytes/orders-1 4000000000x80`,
			`fettle_postgresql_volume_size_bytes/orders-2 100000000000x80`, `fettle_postgresql_volume_free_bytes/orders-2 10100000000x80`,
		},
		minutes(4, 19), 21 * minute, []string{"pod=orders-0"},
	},
}

var ofServers = []scenario{
	{
		"FettlePostgreSQLConnectionsNearMax warning",
		[]string{
			`fettle_postgresql_connections/orders-0/database="a",state="idle" 40x80`, `fettle_postgresql_connections/orders-0/database="b",state="active" 40x9 41x70`,
			`fettle_postgresql_max_connections/orders-0 100x80`,
			`fettle_postgresql_connections/orders-1/database="a",state="idle" 80x80`, `fettle_postgresql_max_connections/orders-1 100x80`,
		},
		minutes(4, 9), 11 * minute, []string{"pod=orders-0"},
	},
	{
		"FettlePostgreSQLLongTransaction warning",
		[]string{`fettle_postgresql_oldest_transaction_seconds/orders-0 0x9 3601+30x70`, `fettle_postgresql_oldest_transaction_seconds/orders-1 3600x80`},
		minutes(4, 9), 11 * minute, []string{"pod=orders-0"},
	},
	{
		"FettlePostgreSQLTransactionIDsRunningOut warning",
		[]string{
			`fettle_postgresql_transaction_id_age/orders-0/database="a" 5x9 1000000001x150`, `fettle_postgresql_transaction_id_age/orders-0/database="b" 5x160`,
			`fettle_postgresql_in_recovery/orders-0 0x160`,
			`fettle_postgresql_transaction_id_age/orders-1/database="a" 1000000001x160`, `fettle_postgresql_in_recovery/orders-1 1x160`,
		},
		minutes(4, 64), 66 * minute, []string{"pod=orders-0"},
	},
	{
		"FettlePostgreSQLTransactionIDsRunningOut critical",
		[]string{
			`fettle_postgresql_transaction_id_age/orders-0/database="a" 5x9 1600000001x150`, `fettle_postgresql_in_recovery/orders-0 0x160`,
			`fettle_postgresql_transaction_id_age/orders-1/database="a" 1600000001x160`, `fettle_postgresql_in_recovery/orders-1 1x160`,
			`fettle_postgresql_transaction_id_age/orders-2/database="a" 1600000000x160`, `fettle_postgresql_in_recovery/orders-2 0x160`,
		},
		minutes(4, 9), 11 * minute, []string{"pod=orders-0"},
	},
	{
		"FettlePostgreSQLCertificateExpiring warning",
		[]string{
			// 15 % and 30 % of 90 days are left.
			`fettle_agent_certificate_start_timestamp_seconds/orders-0/certificate="server" 1760616000x150`,
			`fettle_agent_certificate_expiry_timestamp_seconds/orders-0/certificate="server" 1768392000x150`,
			`fettle_agent_certificate_start_timestamp_seconds/orders-0/certificate="agent" 1761782400x150`,
			`fettle_agent_certificate_expiry_timestamp_seconds/orders-0/certificate="agent" 1769558400x150`,
		},
		minutes(1, 59), 61 * minute, []string{"certificate=server pod=orders-0"},
	},
	{
		"FettlePostgreSQLCertificateExpiring critical",
		[]string{
			// 4 % and 15 % of 90 days are left.
			`fettle_agent_certificate_start_timestamp_seconds/orders-0/certificate="server" 1759760640x150`,
			`fettle_agent_certificate_expiry_timestamp_seconds/orders-0/certificate="server" 1767536640x150`,
			`fettle_agent_certificate_start_timestamp_seconds/orders-0/certificate="agent" 1760616000x150`,
			`fettle_agent_certificate_expiry_timestamp_seconds/orders-0/certificate="agent" 1768392000x150`,
		},
		minutes(1, 4), 6 * minute, []string{"certificate=server pod=orders-0"},
	},
	{
		"FettlePostgreSQLHeartbeatSlow warning",
		[]string{
			// 30 heartbeats in 30 s. On orders-0 they start to take from 0.5 s to 1 s.
			`fettle_agent_heartbeat_duration_seconds_bucket/orders-0/le="0.5" 0+30x20 600x60`, `fettle_agent_heartbeat_duration_seconds_bucket/orders-0/le="1" 0+30x80`,
			`fettle_agent_heartbeat_duration_seconds_bucket/orders-0/le="+Inf" 0+30x80`, `fettle_agent_heartbeats_missed_total/orders-0 0x80`,
			`fettle_agent_heartbeat_duration_seconds_bucket/orders-1/le="0.5" 0+30x80`, `fettle_agent_heartbeat_duration_seconds_bucket/orders-1/le="1" 0+30x80`,
			`fettle_agent_heartbeat_duration_seconds_bucket/orders-1/le="+Inf" 0+30x80`, `fettle_agent_heartbeats_missed_total/orders-1 0x20 0+2x60`,
			`fettle_agent_heartbeats_missed_total/orders-2 0x20 3x60`,
		},
		minutes(9, 13), 25 * minute, []string{"pod=orders-0", "pod=orders-1"},
	},
	{
		"FettlePostgreSQLChecksumFailures critical",
		[]string{`fettle_postgresql_checksum_failures_total/orders-0/database="shop" 0x9 1x10`, `fettle_postgresql_checksum_failures_total/orders-1/database="shop" 0x20`},
		minutes(4), 6 * minute, []string{"database=shop pod=orders-0"},
	},
	{
		"FettlePostgreSQLExporterErrors warning",
		[]string{`fettle_postgresql_exporter_errors_total/orders-0 0x9 0+1x90`, `fettle_postgresql_exporter_errors_total/orders-1 0x9 3x90`},
		minutes(4, 19), 40 * minute, []string{"pod=orders-0"},
	},
}

var ofOperator = []scenario{
	{
		"FettleOperatorDown critical",
		[]string{`up{job="fettle-controller-manager-metrics",pod="a"} 1x9 0x30`, `up{job="fettle-controller-manager-metrics",pod="b"} 1x9`},
		minutes(4, 9), 16 * minute, []string{""},
	},
	reconcileErrors("WebApp", "webapp"), reconcileErrors("AppConfig", "appconfig"),
	reconcileErrors("VoteConfig", "voteconfig"), reconcileErrors("PostgreSQL", "postgresql"),
	reconcileErrors("AppStack", "appstack"), reconcileErrors("EcommercePlatform", "ecommerceplatform"),
	reconcileErrors("Backup", "backup"), reconcileErrors("Backup", "backuprun"), reconcileErrors("Backup", "restore"),
	{
		"FettleWorkQueueGrowing warning",
		[]string{
			`workqueue_depth{job="fettle-controller-manager-metrics",pod="a",name="webapp"} 0x9 101x60`,
			`workqueue_depth{job="fettle-controller-manager-metrics",pod="a",name="appconfig"} 100x70`,
			`workqueue_depth{job="other",name="other"} 1000x70`,
		},
		minutes(4, 14), 16 * minute, []string{"name=webapp"},
	},
}

func reconcileErrors(kind, metric string) scenario {
	return scenario{
		"Fettle" + kind + "ReconcileErrors warning",
		[]string{
			metric + `_errors_total{namespace="shop",type="other",pod="a"} 0x9 0+6x60`,
			metric + `_errors_total{namespace="shop",type="conflict",pod="a"} 0x9 0+2x60`,
		},
		minutes(4, 6), 12 * minute, []string{"type=other"},
	}
}

// Times are seconds since 1970. The scrapes begin at 1767225600.
var ofBackups = []scenario{
	{ // the leader changes while the alert is pending, which has other labels
		"FettleBackupFailed warning",
		[]string{
			`backup_last_status{namespace="shop",name="orders",pod="a"} 1x9 0x4`, `backup_last_status{namespace="shop",name="orders",pod="b"} _x12 0x60`,
			`backup_last_status{namespace="shop",name="users",pod="a"} 1x60`,
		},
		minutes(4, 9), 11 * minute, []string{"name=orders"},
	},
	{
		"FettleBackupTooOld critical",
		[]string{
			// An hour after the first scrape, two intervals of an hour have passed since the success.
			backupSeries("backup_last_success_timestamp_seconds", "orders", "1767222000x300"), backupSeries("backup_schedule_interval_seconds", "orders", "3600x300"),
			backupSeries("backup_suspended", "orders", "0x300"),
			backupSeries("backup_last_success_timestamp_seconds", "users", "1767222000x100 1767228600x200"), backupSeries("backup_schedule_interval_seconds", "users", "3600x300"),
			backupSeries("backup_last_success_timestamp_seconds", "old", "1700000000x300"), backupSeries("backup_schedule_interval_seconds", "old", "3600x300"),
			backupSeries("backup_suspended", "old", "1x300"),
			backupSeries("backup_last_success_timestamp_seconds", "by-hand", "1700000000x300"), backupSeries("backup_schedule_interval_seconds", "by-hand", "0x300"),
			backupSeries("backup_last_success_timestamp_seconds", "never", "0x300"), backupSeries("backup_schedule_interval_seconds", "never", "3600x300"),
		},
		minutes(1, 59, 64), 66 * minute, []string{"name=orders"},
	},
	{
		"FettleBackupVerificationFailed warning",
		[]string{
			backupSeries("backup_last_verification_status", "orders", "1x9 0x60"), backupSeries("backup_last_verification_status", "users", "1x70"),
			backupSeries("backup_last_verified_timestamp_seconds", "users", "1767225600x70"), backupSeries("backup_verify_interval_seconds", "users", "3600x70"),
		},
		minutes(4, 9), 11 * minute, []string{"name=orders"},
	},
	{
		"FettleBackupVerificationFailed warning",
		[]string{
			backupSeries("backup_last_verification_status", "late", "1x300"), backupSeries("backup_last_verified_timestamp_seconds", "late", "1767222000x300"),
			backupSeries("backup_verify_interval_seconds", "late", "3600x300"),
			backupSeries("backup_last_verified_timestamp_seconds", "stopped", "1700000000x300"), backupSeries("backup_verify_interval_seconds", "stopped", "3600x300"),
			backupSeries("backup_suspended", "stopped", "1x300"), backupSeries("backup_last_verification_status", "stopped", "0x300"),
			backupSeries("backup_last_verified_timestamp_seconds", "never", "0x300"), backupSeries("backup_verify_interval_seconds", "never", "3600x300"),
		},
		minutes(1, 59, 64), 66 * minute, []string{"name=late"},
	},
	{
		"FettleBackupNeverSucceeded critical",
		[]string{
			// The operator restarts after an hour, and is not scraped for 5 minutes.
			backupSeries("backup_schedule_interval_seconds", "orders", "86400x120 _x10 86400x3200"), backupSeries("backup_suspended", "orders", "0x3200"),
			backupSeries("backup_schedule_interval_seconds", "users", "86400x3200"), backupSeries("backup_last_success_timestamp_seconds", "users", "_x60 1767225600x3200"),
			backupSeries("backup_schedule_interval_seconds", "weekly", "604800x3200"),
			backupSeries("backup_schedule_interval_seconds", "old", "86400x3200"), backupSeries("backup_suspended", "old", "1x3200"),
		},
		[]time.Duration{minute, 26*time.Hour - minute}, 26*time.Hour + minute, []string{"name=orders"},
	},
}

var ofArchiving = []scenario{
	{
		"FettlePostgreSQLArchivingFailed warning",
		[]string{`fettle_postgresql_archiving_failed/orders-0 0x9 1x60`, `fettle_postgresql_archiving_failed/orders-1 0x70`},
		minutes(4, 5), 7 * minute, []string{"pod=orders-0"},
	},
	{ // the primary archives, and the standbys have never archived anything
		"FettlePostgreSQLArchivingBehind critical",
		[]string{
			`fettle_postgresql_archiving_waiting_segments/orders-0 0x9 65x60`, `fettle_postgresql_archiving_last_success_timestamp_seconds/orders-0 1767225600+30x70`,
			`fettle_postgresql_archiving_waiting_segments/orders-1 64x70`, `fettle_postgresql_archiving_last_success_timestamp_seconds/orders-1 0x70`,
		},
		minutes(4, 14), 16 * minute, []string{"pod=orders-0"},
	},
	{ // the last success was 10 minutes before the first scrape
		"FettlePostgreSQLArchivingBehind critical",
		[]string{
			`fettle_postgresql_archiving_waiting_segments/orders-0 1x70`, `fettle_postgresql_archiving_last_success_timestamp_seconds/orders-0 1767225000x70`,
			`fettle_postgresql_archiving_waiting_segments/orders-1 0x70`, `fettle_postgresql_archiving_last_success_timestamp_seconds/orders-1 0x70`,
		},
		minutes(4, 14), 16 * minute, []string{"pod=orders-0"},
	},
}

func backupSeries(metric, name, values string) string {
	return metric + `{namespace="shop",name="` + name + `"} ` + values
}
