package config

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCheckParameters_rejected(t *testing.T) {
	cases := []struct{ name, value, want string }{
		{"shared_bufers", "1GB", "no such parameter"},
		{"vacuum_buffer_usage_limit", "1MB", "only versions 16, 17, 18"},
		{"server_version", "16", "read-only"},
		{"archive_command", "cp %p /x", "run a program"},
		{"Archive_Command", "cp %p /x", "run a program"},
		{"archive_library", "x", "run a program"},
		{"archive_cleanup_command", "x", "run a program"},
		{"restore_command", "x", "run a program"},
		{"recovery_end_command", "x", "Fettle manages recovery"},
		{"recovery_target_time", "x", "Fettle manages recovery"},
		{"primary_conninfo", "host=x", "Fettle manages replication"},
		{"primary_slot_name", "x", "Fettle manages replication"},
		{"hot_standby", "off", "Fettle manages replication"},
		{"synchronous_standby_names", "*", "use spec.synchronous"},
		{"dynamic_library_path", "/tmp", "load arbitrary code"},
		{"local_preload_libraries", "x", "load arbitrary code"},
		{"jit_provider", "x", "load arbitrary code"},
		{"data_directory", "/x", "manages the files"},
		{"hba_file", "/x", "manages the files"},
		{"ident_file", "/x", "manages the files"},
		{"config_file", "/x", "manages the files"},
		{"external_pid_file", "/x", "manages the files"},
		{"include", "/x", "manages the files"},
		{"include_dir", "/x", "manages the files"},
		{"include_if_exists", "/x", "manages the files"},
		{"ssl", "off", "use spec.tls"},
		{"ssl_key_file", "/x", "use spec.tls"},
		{"ssl_passphrase_command", "x", "use spec.tls"},
		{"listen_addresses", "*", "the Services"},
		{"port", "1", "the Services"},
		{"unix_socket_directories", "/tmp", "the Services"},
		{"cluster_name", "x", "the Services"},
		{"log_destination", "syslog", "as JSON"},
		{"logging_collector", "on", "as JSON"},
		{"log_directory", "/x", "as JSON"},
		{"log_line_prefix", "x", "as JSON"},
		{"lc_messages", "de_DE", "as JSON"},
		{"restart_after_crash", "on", "split-brain"},
		{"wal_log_hints", "off", "pg_rewind"},
		{"password_encryption", "md5", "SCRAM"},
		{"zero_damaged_pages", "on", "developer option"},
		{"session_replication_role", "replica", "ALTER ROLE"},
		{"search_path", "x", "ALTER ROLE"},
		{"wal_level", "minimal", "standbys need replica or logical"},
		{"fsync", "off", "must be on"},
		{"fsync", "F", "must be on"},
		{"full_page_writes", "0", "must be on"},
		{"max_wal_senders", "2", "at least 12"},
		{"max_slot_wal_keep_size", "-1", "fill the volume"},
		{"wal_sender_timeout", "0", "at least 1000ms"},
		{"wal_receiver_timeout", "500us", "at least 1000ms"},
		{"shared_preload_libraries", "pg_stat_statements, /tmp/evil.so", `library "/tmp/evil.so" is not allowed`},
		{"session_preload_libraries", "$libdir/x", "is not allowed"},
		{"plperl.on_init", "system('x')", "ALTER ROLE"},
		{"a.b.c", "x", "invalid name of an extension parameter"},
		{"app.x\ny", "x", "invalid name of an extension parameter"},
		{"app.x", "a\nfsync = off", "control character"},
		{"app.x", strings.Repeat("x", 1025), "at most 1024"},
		{"application_name", "a\u2028b", "control character"},
		{"application_name", "a\xff", "not UTF-8"},
		{"work_mem", "lots", "is not a number"},
		{"work_mem", "0x10", "is not a number"},
		{"work_mem", "1kb", "has an invalid unit"},
		{"work_mem", "1", "use 64 to 2147483647, in units of kB"},
		{"work_mem", "16MB\n", "control character"},
		{"max_connections", "10", "at least 20"},
		{"max_connections", "100MB", "the parameter has none"},
		{"statement_timeout", "5 fortnights", "use us, ms"},
		{"autovacuum", "maybe", "use on or off"},
		{"autovacuum", "o", "use on or off"},
		{"synchronous_commit", "sometimes", "use one of local"},
		{"random_page_cost", "-3", "use 0 to"},
	}
	for _, tc := range cases {
		t.Run(tc.name+"="+tc.value, func(t *testing.T) {
			err := CheckParameters(15, map[string]string{tc.name: tc.value})
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("want an error with %q, got %v", tc.want, err)
			}
		})
	}
}

func TestCheckParameters_accepted(t *testing.T) {
	cases := map[string]string{
		"shared_buffers": "25 MB", "work_mem": "1.5GB", "Autovacuum": "OFF", "max_connections": "500", "statement_timeout": "5min",
		"synchronous_commit": "remote_apply", "huge_pages": "true", "wal_level": "logical", "fsync": "on", "full_page_writes": "yes",
		"shared_preload_libraries": "pg_stat_statements, auto_explain", "pg_stat_statements.max": "10000", "app.tenant": "it's",
		"random_page_cost": "1.1", "log_min_duration_statement": "-1", "timezone": "Europe/Berlin", "max_slot_wal_keep_size": "1GB",
		"recovery_prefetch": "try", "wal_sender_timeout": "10s", "wal_compression": "zstd", "autovacuum_vacuum_cost_delay": "500us",
		"log_statement": "ddl", "temp_file_limit": "10GB",
	}
	if err := CheckParameters(15, cases); err != nil {
		t.Error(err)
	}
}

// TestCheckParameters_version18 checks the parameters that are new in version 18.
func TestCheckParameters_version18(t *testing.T) {
	for _, tc := range []struct{ name, value, want string }{
		{"idle_replication_slot_timeout", "0", ""},
		{"idle_replication_slot_timeout", "0min", ""},
		{"idle_replication_slot_timeout", "3600", ""},
		{"idle_replication_slot_timeout", "1d", ""},
		{"idle_replication_slot_timeout", "1", "0 disables it, otherwise it must be at least 3600s: a standby"},
		{"idle_replication_slot_timeout", "59min", "0 disables it, otherwise it must be at least 3600s: a standby"},
		{"idle_replication_slot_timeout", "soon", "is not a number"},
		{"io_method", "sync", ""},
		{"io_method", "worker", ""},
		{"io_method", "io_uring", "use one of sync, worker"},
		{"log_connections", "receipt,authorization", ""},
		{"ssl_groups", "X25519", "use spec.tls"},
		{"ssl_ecdh_curve", "prime256v1", "use spec.tls"},
		{"md5_password_warnings", "off", ""},
	} {
		err := CheckParameters(18, map[string]string{tc.name: tc.value})
		if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
			t.Errorf("%s = %s: %v, want %q", tc.name, tc.value, err, tc.want)
		}
	}
	if err := CheckParameters(17, map[string]string{"idle_replication_slot_timeout": "1d"}); err == nil {
		t.Error("version 17 has no such parameter")
	}
}

func TestCheckParameters_reportsAll(t *testing.T) {
	err := CheckParameters(15, map[string]string{"port": "1", "nonsense": "1", "work_mem": "8MB", "WORK_MEM": "9MB"})
	want := `parameter "nonsense": PostgreSQL 15 has no such parameter: check its name
parameter "port": cannot be set because clients connect through the Services that Fettle creates: remove it
parameter "work_mem" is the same as "WORK_MEM": remove one of them`
	if err == nil {
		t.Fatal("no error")
	}
	if diff := cmp.Diff(want, err.Error()); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if CheckParameters(19, nil) == nil || CheckParameters(12, nil) == nil {
		t.Error("a version that does not exist was let through")
	}
}

// TestRestrictions_coverUnsafeParameters checks all known parameters: those with a file, a program or a library are
// rejected, so that a new version's are not forgotten.
func TestRestrictions_coverUnsafeParameters(t *testing.T) {
	suspicious := []string{"_command", "_file", "_librar", "_director", "_provider", "_path", "_conninfo", "ssl_", "debug_", "preload"}
	harmless := map[string]bool{ // a list of known names; a number; a name of a method
		"shared_preload_libraries": true, "session_preload_libraries": true, "log_replication_commands": true, "temp_file_limit": true,
		"max_files_per_process": true, "remove_temp_files_after_crash": true, "file_extend_method": true, "file_copy_method": true,
		"log_temp_files": true,
	}
	for major, all := range parameters() {
		for name, p := range all {
			if p.context == "internal" {
				continue
			}
			for _, part := range suspicious {
				if strings.Contains(name, part) && !harmless[name] && restrictionReason(name) == "" {
					t.Errorf("version %d: %s can be set", major, name)
				}
			}
		}
	}
}

func TestCheckRules(t *testing.T) {
	cases := map[string]struct {
		rule Rule
		want string
	}{
		"trust":           {Rule{Auth: "trust"}, "invalid authentication method"},
		"nothing":         {Rule{}, "invalid authentication method"},
		"quote in a name": {Rule{Users: []string{`a" all all trust`}, Auth: Password}, "quote"},
		"pattern":         {Rule{Databases: []string{"/.*"}, Auth: Password}, "start with a slash"},
		"line break":      {Rule{Users: []string{"a\nhost all all all trust"}, Auth: Password}, "control character"},
		"empty name":      {Rule{Users: []string{""}, Auth: Password}, "empty"},
		"long name":       {Rule{Users: []string{strings.Repeat("é", 32)}, Auth: Password}, "at most 63"},
		"host name":       {Rule{Address: "example.org", Auth: Password}, "invalid address"},
		"zone":            {Rule{Address: "fe80::1%eth0", Auth: Password}, "invalid address"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := checkRules([]Rule{tc.rule}); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("want an error with %q, got %v", tc.want, err)
			}
		})
	}
	good := []Rule{{Auth: Reject, Address: "2001:db8::1"}, {Auth: Password, Address: "2001:db8::/32", Users: []string{"+x", "all"}}}
	if err := checkRules(good); err != nil {
		t.Error(err)
	}
	if got, want := good[0].line(), "host all all 2001:db8::1/128 reject"; got != want {
		t.Errorf("want %s, got %s", want, got)
	}
}
