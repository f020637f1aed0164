package config

import (
	"fmt"
	"slices"
	"strings"
)

// restriction says why users cannot set some parameters, and what to use instead.
type restriction struct {
	// names are parameters, or prefixes of parameters that end in *.
	names  []string
	reason string
}

// restrictions are checked in order. The first match counts.
var restrictions = []restriction{
	{[]string{"recovery_prefetch", "recovery_init_sync_method"}, ""}, // they only tune recovery
	{[]string{"archive_command", "archive_library", "archive_mode", "archive_cleanup_command", "restore_command"},
		"it would run a program, and WAL archiving is not supported: remove it"},
	{[]string{"recovery_*", "promote_trigger_file"},
		"Fettle manages recovery, and point-in-time recovery is not supported: remove it"},
	{[]string{"primary_conninfo", "primary_slot_name", "hot_standby", "wal_receiver_create_temp_slot", "wal_receiver_status_interval",
		"sync_replication_slots"},
		"Fettle manages replication: remove it"},
	{[]string{"synchronous_standby_names", "synchronized_standby_slots"},
		"Fettle updates it when instances change: use spec.synchronous"},
	{[]string{"local_preload_libraries", "dynamic_library_path", "jit_provider", "extension_control_path", "oauth_validator_libraries"},
		"it would load arbitrary code: use shared_preload_libraries, which allows known libraries"},
	{[]string{"data_directory", "config_file", "hba_file", "ident_file", "external_pid_file", "include*", "stats_temp_directory",
		"data_sync_retry", "shared_memory_type", "dynamic_shared_memory_type", "krb_*", "gss_*"},
		"Fettle manages the files of the server: remove it"},
	{[]string{"listen_addresses", "port", "unix_socket_*", "bonjour*", "cluster_name", "event_source", "reserved_connections"},
		"clients connect through the Services that Fettle creates: remove it"},
	{[]string{"ssl*", "db_user_namespace"},
		"Fettle manages TLS: use spec.tls for the issuer and DNS names of the certificate"},
	{[]string{"password_encryption"}, "passwords are always stored as SCRAM-SHA-256: remove it"},
	{[]string{"allow_alter_system"}, "ALTER SYSTEM is always disabled: use spec.parameters"},
	{[]string{"restart_after_crash", "exit_on_error", "send_abort_for_*"}, "Fettle manages restarts after a crash to prevent split-brain: remove it"},
	{[]string{"log_destination", "logging_collector", "log_directory", "log_filename", "log_file_mode", "log_rotation_*",
		"log_truncate_on_rotation", "log_line_prefix", "log_timezone", "lc_messages", "syslog_*"},
		"logs always go to the pod's output as JSON: remove it"},
	{[]string{"wal_log_hints"}, "it is always on, because pg_rewind requires it: remove it"},
	{[]string{"zero_damaged_pages", "ignore_checksum_failure", "ignore_invalid_pages", "ignore_system_indexes", "allow_system_table_mods",
		"allow_in_place_tablespaces", "debug_*", "force_parallel_mode", "wal_consistency_checking", "trace_*", "pre_auth_delay",
		"post_auth_delay", "jit_debugging_support", "jit_profiling_support", "jit_dump_bitcode", "backtrace_functions", "huge_page_size"},
		"it is a developer option of PostgreSQL that can lose data or stop the server: remove it"},
	{[]string{"session_replication_role", "default_transaction_read_only", "transaction_isolation", "transaction_read_only", "transaction_deferrable",
		"search_path"},
		"it must not be set for the whole server: use ALTER ROLE or ALTER DATABASE"},
}

// valueChecks are parameters of which only some values are safe. All of them are in the table, so their type has been
// checked before.
var valueChecks = map[string]func(p parameter, value string) error{
	"fsync":                          mustBeOn("a crash of the node would lose data"),
	"full_page_writes":               mustBeOn("a crash of the node would lose data"),
	"wal_level":                      notValue("minimal", "standbys need replica or logical"),
	"max_wal_senders":                atLeast(minSlots, "each standby and each backup needs one"),
	"max_replication_slots":          atLeast(minSlots, "each standby needs one"),
	"max_connections":                atLeast(20, "Fettle needs some connections"),
	"superuser_reserved_connections": atLeast(3, "Fettle must be able to connect when all connections are in use"),
	"max_slot_wal_keep_size":         atLeast(0, "without a limit (-1) the slot of a standby that is gone would fill the volume"),
	"idle_replication_slot_timeout":  zeroOrAtLeast(3600, "a standby that restarts would lose its slot and the WAL that it needs"),
	"wal_sender_timeout":             atLeast(1000, "the loss of a standby would not be detected"),
	"wal_receiver_timeout":           atLeast(1000, "the loss of the primary would not be detected"),
	"shared_preload_libraries":       libraries(sharedLibraries),
	"session_preload_libraries":      libraries([]string{"auto_explain"}),
}

// minSlots is the number of slots and WAL senders for nine instances and some backups.
const minSlots = 12

// sharedLibraries may be loaded at server start. Libraries that are not part of PostgreSQL must be in the image.
var sharedLibraries = []string{
	"auth_delay", "auto_explain", "passwordcheck", "pg_cron", "pg_hint_plan", "pg_partman_bgw", "pg_prewarm", "pg_stat_kcache",
	"pg_stat_statements", "pg_wait_sampling", "pgaudit", "timescaledb",
}

// extensionPrefixes are the prefixes of extension parameters that may be set for the whole server. "app" is for
// applications.
var extensionPrefixes = []string{
	"app", "auth_delay", "auto_explain", "cron", "passwordcheck", "pg_hint_plan", "pg_partman_bgw", "pg_prewarm", "pg_stat_kcache",
	"pg_stat_statements", "pg_trgm", "pg_wait_sampling", "pgaudit", "plpgsql", "timescaledb",
}

// restrictionReason says why users cannot set a parameter. "" means that they can.
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
		return fmt.Errorf("must be on: %s", why)
	}
}

func notValue(excluded, why string) func(parameter, string) error {
	return func(_ parameter, value string) error {
		if strings.EqualFold(value, excluded) {
			return fmt.Errorf("must not be %s: %s", excluded, why)
		}
		return nil
	}
}

func atLeast(least float64, why string) func(parameter, string) error {
	return func(p parameter, value string) error {
		n, err := p.number(value)
		if err == nil && n < least {
			return fmt.Errorf("must be at least %s%s: %s", formatNumber(least), p.unit, why)
		}
		return err
	}
}

// zeroOrAtLeast is atLeast for parameters that 0 disables.
func zeroOrAtLeast(least float64, why string) func(parameter, string) error {
	return func(p parameter, value string) error {
		if n, err := p.number(value); err != nil || n == 0 {
			return err
		}
		if err := atLeast(least, why)(p, value); err != nil {
			return fmt.Errorf("0 disables it, otherwise it %w", err)
		}
		return nil
	}
}

// libraries accepts lists of known libraries, without paths or quotes.
func libraries(known []string) func(parameter, string) error {
	return func(_ parameter, value string) error {
		if value == "" {
			return nil
		}
		for name := range strings.SplitSeq(value, ",") {
			if name = strings.TrimSpace(name); !slices.Contains(known, name) {
				return fmt.Errorf("library %q is not allowed: use %s", name, strings.Join(known, ", "))
			}
		}
		return nil
	}
}
