package config

import (
	"fmt"
	"slices"
	"strings"
)

// restriction says why parameters are not for users, and what to use instead.
type restriction struct {
	// names are parameters, or beginnings of some when they end in *.
	names  []string
	reason string
}

// restrictions are looked through in order; the first that fits counts.
var restrictions = []restriction{
	{[]string{"recovery_prefetch", "recovery_init_sync_method"}, ""}, // tuning, in spite of their names
	{[]string{"archive_command", "archive_library", "archive_mode", "archive_cleanup_command", "restore_command"},
		"it runs a program; the archive is set up by Fettle"},
	{[]string{"recovery_*", "promote_trigger_file"},
		"recovery is run by Fettle: use the spec's bootstrap to restore to a point in time"},
	{[]string{"primary_conninfo", "primary_slot_name", "hot_standby", "wal_receiver_create_temp_slot", "wal_receiver_status_interval",
		"sync_replication_slots"},
		"replication is run by Fettle"},
	{[]string{"synchronous_standby_names", "synchronized_standby_slots"},
		"use the spec's synchronous: Fettle changes the names as instances come and go"},
	{[]string{"local_preload_libraries", "dynamic_library_path", "jit_provider", "extension_control_path", "oauth_validator_libraries"},
		"it loads code into the server; of the libraries in the image, shared_preload_libraries takes known ones"},
	{[]string{"data_directory", "config_file", "hba_file", "ident_file", "external_pid_file", "include*", "stats_temp_directory",
		"data_sync_retry", "shared_memory_type", "dynamic_shared_memory_type", "krb_*", "gss_*"},
		"it says where the server keeps its files, which is Fettle's part"},
	{[]string{"listen_addresses", "port", "unix_socket_*", "bonjour*", "cluster_name", "event_source", "reserved_connections"},
		"clients reach the server through the Services that Fettle makes"},
	{[]string{"ssl*", "db_user_namespace"},
		"TLS is set up by Fettle: use the spec's tls"},
	{[]string{"password_encryption"}, "passwords are stored as SCRAM-SHA-256"},
	{[]string{"allow_alter_system"}, "ALTER SYSTEM is refused: use the spec's parameters"},
	{[]string{"restart_after_crash", "exit_on_error", "send_abort_for_*"}, "what happens after a crash is decided by Fettle, or two primaries could write"},
	{[]string{"log_destination", "logging_collector", "log_directory", "log_filename", "log_file_mode", "log_rotation_*",
		"log_truncate_on_rotation", "log_line_prefix", "log_timezone", "lc_messages", "syslog_*"},
		"logs go to the pod's output, as JSON"},
	{[]string{"wal_log_hints"}, "it has to be on, for a former primary to be rewound"},
	{[]string{"zero_damaged_pages", "ignore_checksum_failure", "ignore_invalid_pages", "ignore_system_indexes", "allow_system_table_mods",
		"allow_in_place_tablespaces", "debug_*", "force_parallel_mode", "wal_consistency_checking", "trace_*", "pre_auth_delay",
		"post_auth_delay", "jit_debugging_support", "jit_profiling_support", "jit_dump_bitcode", "backtrace_functions", "huge_page_size"},
		"it is for the development and the repair of PostgreSQL, and can lose data or stop the server"},
	{[]string{"session_replication_role", "default_transaction_read_only", "transaction_isolation", "transaction_read_only", "transaction_deferrable",
		"search_path"},
		"it is not for a whole server: set it for a role or database, with ALTER ROLE or ALTER DATABASE"},
}

// valueChecks are parameters of which just some values are safe. All of them are in the table, so a value has been checked for
// its type before.
var valueChecks = map[string]func(p parameter, value string) error{
	"fsync":                          mustBeOn("a crash of the node would lose data"),
	"full_page_writes":               mustBeOn("a crash of the node would lose data"),
	"wal_level":                      notValue("minimal", "there could be no replicas: use replica or logical"),
	"max_wal_senders":                atLeast(minSlots, "each other instance needs one, and backups do"),
	"max_replication_slots":          atLeast(minSlots, "each other instance needs one"),
	"max_connections":                atLeast(20, "Fettle itself needs some"),
	"superuser_reserved_connections": atLeast(3, "Fettle has to get in when all connections are taken"),
	"max_slot_wal_keep_size":         atLeast(0, "a replica that is gone would fill the volume: -1 has no limit"),
	"idle_replication_slot_timeout":  zeroOrAtLeast(3600, "a replica that restarts would lose its slot, and with it the log that it needs next"),
	"wal_sender_timeout":             atLeast(1000, "a replica that is gone would never be noticed"),
	"wal_receiver_timeout":           atLeast(1000, "a primary that is gone would never be noticed"),
	"shared_preload_libraries":       libraries(sharedLibraries),
	"session_preload_libraries":      libraries([]string{"auto_explain"}),
}

// minSlots is how many slots and senders nine instances need, with some for backups.
const minSlots = 12

// sharedLibraries may be loaded when a server starts. Those that are not part of PostgreSQL have to be in the image.
var sharedLibraries = []string{
	"auth_delay", "auto_explain", "passwordcheck", "pg_cron", "pg_hint_plan", "pg_partman_bgw", "pg_prewarm", "pg_stat_kcache",
	"pg_stat_statements", "pg_wait_sampling", "pgaudit", "timescaledb",
}

// extensionPrefixes are those of the parameters of extensions that may be set for a whole server. "app" is for applications.
var extensionPrefixes = []string{
	"app", "auth_delay", "auto_explain", "cron", "passwordcheck", "pg_hint_plan", "pg_partman_bgw", "pg_prewarm", "pg_stat_kcache",
	"pg_stat_statements", "pg_trgm", "pg_wait_sampling", "pgaudit", "plpgsql", "timescaledb",
}

// restrictionReason says why a parameter is not for users; "" when it is.
func restrictionReason(name string) string {
	for _, r := range restrictions {
		if slices.ContainsFunc(r.names, func(pattern string) bool {
			prefix, wild := strings.CutSuffix(pattern, "*")
			return name == pattern || wild && strings.HasPrefix(name, prefix)
		}) {
			return r.reason
		}
	}
	return ""
}

func mustBeOn(why string) func(parameter, string) error {
	return func(_ parameter, value string) error {
		if v := strings.ToLower(value); strings.HasPrefix("true", v) || strings.HasPrefix("yes", v) || v == "on" || v == "1" {
			return nil
		}
		return fmt.Errorf("it has to be on: %s", why)
	}
}

func notValue(excluded, why string) func(parameter, string) error {
	return func(_ parameter, value string) error {
		if strings.EqualFold(value, excluded) {
			return fmt.Errorf("not %s: %s", excluded, why)
		}
		return nil
	}
}

func atLeast(least float64, why string) func(parameter, string) error {
	return func(p parameter, value string) error {
		n, err := p.number(value)
		if err == nil && n < least {
			return fmt.Errorf("at least %s%s: %s", formatNumber(least), p.unit, why)
		}
		return err
	}
}

// zeroOrAtLeast is for those that 0 turns off.
func zeroOrAtLeast(least float64, why string) func(parameter, string) error {
	return func(p parameter, value string) error {
		if n, err := p.number(value); err != nil || n == 0 {
			return err
		}
		if err := atLeast(least, why)(p, value); err != nil {
			return fmt.Errorf("0, or %w", err)
		}
		return nil
	}
}

// libraries takes lists of known ones. Paths and quotes are not among them.
func libraries(known []string) func(parameter, string) error {
	return func(_ parameter, value string) error {
		if value == "" {
			return nil
		}
		for name := range strings.SplitSeq(value, ",") {
			if name = strings.TrimSpace(name); !slices.Contains(known, name) {
				return fmt.Errorf("the library %q is none of %s", name, strings.Join(known, ", "))
			}
		}
		return nil
	}
}
