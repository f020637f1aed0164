package config_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"github.com/jackc/pgx/v5"

	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
	"github.com/fettle-dev/fettle/internal/testenv/testscram"
)

func superuser(t *testing.T, i *testpg.Instance) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), fmt.Sprintf("host=%s port=%d user=postgres dbname=postgres", i.SocketDir(), i.Settings.Port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(t.Context()) })
	return conn
}

// TestParameters_matchServer compares the table of parameters with the server's.
func TestParameters_matchServer(t *testing.T) {
	i := testpg.NewRunning(t, "table-0")
	major := i.Settings.Major
	rows, err := superuser(t, i).Query(t.Context(), `
SELECT name, concat_ws(E'\t', context, vartype, coalesce(unit, '-'), coalesce(min_val, '-'), coalesce(max_val, '-')), coalesce(enumvals, '{}') FROM pg_settings`)
	if err != nil {
		t.Fatal(err)
	}
	live := map[string]string{}
	var name, line string
	var values []string
	table := tableOf(t, major)
	if _, err := pgx.ForEachRow(rows, []any{&name, &line, &values}, func() error {
		known := strings.Split(table[name].values, ",")
		for _, value := range values {
			if value == "io_uring" {
				continue // seccomp's default profile blocks its system calls
			}
			if !slices.Contains(known, value) {
				t.Errorf("%s takes %s, which the table does not have", name, value)
			}
		}
		live[name] = line
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	delete(live, "extension_destdir")       // Debian's own
	delete(live, "output_plugin_libraries") // added in minor versions, names libraries: rejected as an unknown parameter
	want := map[string]string{}
	for name, entry := range table {
		want[name] = entry.line
	}
	delete(live, "server_version_num")
	delete(want, "server_version_num") // has the minor version as its bounds
	if diff := cmp.Diff(live, want, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("-server %d +table\n%s", major, diff)
	}
}

type entry struct{ line, values string }

// tableOf parses the table independently of the package.
func tableOf(t *testing.T, major int) map[string]entry {
	t.Helper()
	content, err := os.ReadFile("parameters.tsv")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]entry{}
	for line := range strings.Lines(string(content)) {
		f := strings.Split(strings.TrimSpace(line), "\t")
		var from, to int
		if n, _ := fmt.Sscanf(f[1], "%d-%d", &from, &to); n == 2 && from <= major && major <= to {
			found[f[0]] = entry{strings.Join(f[2:7], "\t"), f[7]}
		}
	}
	return found
}

// TestRender_loadedByServer reads each value back from the server.
func TestRender_loadedByServer(t *testing.T) {
	i := testpg.New(t, "quoted-0")
	ca := testpg.NewCA(t)
	ca.EnableTLS(i)
	i.Settings.Parameters = map[string]string{
		"app.motto": `it's a \ 'path' # and no comment`, "work_mem": "8MB", "shared_buffers": "32MB", "application_name": `a"b'c\d`,
		"shared_preload_libraries": "",
	}
	i.Settings.Synchronous = &config.Synchronous{Number: 2, Names: []string{"quoted-1", "quoted-2", "quoted-3"}}
	i.Settings.Upstream = new(ca.Upstream(i))
	i.Settings.Upstream.Slot = config.SlotName(3)
	i.Settings.Upstream.CertFile = `/a 'b' \c`
	i.Settings.MemoryLimit, i.Settings.VolumeSize = 256<<20, 1<<30
	if err := i.Init(t.Context(), server.InitOptions{}); err != nil {
		t.Fatal(err)
	}
	i.Start(t)
	conn := superuser(t, i)
	want := map[string]string{
		"app.motto": `it's a \ 'path' # and no comment`, "work_mem": "8MB", "application_name": `a"b'c\d`, "max_wal_size": "102MB",
		"synchronous_standby_names": `ANY 2 ("quoted-1","quoted-2","quoted-3")`, "primary_slot_name": "fettle_3", "restart_after_crash": "off",
		"primary_conninfo": i.Settings.Upstream.ConnInfo("quoted-0"), "cluster_name": "quoted-0", "wal_log_hints": "on", "full_page_writes": "on",
	}
	for _, name := range slices.Sorted(maps.Keys(want)) {
		var got string
		if err := conn.QueryRow(t.Context(), "SELECT current_setting($1)", name).Scan(&got); err != nil || got != want[name] {
			t.Errorf("%s: want %q, got %q, %v", name, want[name], got, err)
		}
	}
	var problems int
	if err := conn.QueryRow(t.Context(), `SELECT count(*) FROM pg_file_settings WHERE error IS NOT NULL AND (error <> 'setting could not be applied'
  OR name NOT IN (SELECT name FROM pg_settings WHERE context = 'postmaster'))`).Scan(&problems); err != nil || problems > 0 {
		t.Errorf("%d settings are wrong: %v", problems, err)
	}
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM pg_hba_file_rules WHERE error IS NOT NULL").Scan(&problems); err != nil || problems > 0 {
		t.Errorf("%d rules are wrong: %v", problems, err)
	}
}

// TestHBA_authentication tries all authentication methods.
func TestHBA_authentication(t *testing.T) {
	ca := testpg.NewCA(t)
	i := ca.Primary(t, "hba-0")
	conn := superuser(t, i)
	stored := testscram.Verifier(t, "secret")
	for _, role := range []string{"app", "robot", "locked", "stranger", "postgres", config.ReplicationUser, config.MonitorUser} {
		statement := "CREATE ROLE " + role + " LOGIN"
		if slices.Contains([]string{"postgres", config.ReplicationUser, config.MonitorUser}, role) {
			statement = "SELECT 1"
		}
		for _, s := range []string{statement, "ALTER ROLE " + role + " PASSWORD '" + stored + "'"} {
			if _, err := conn.Exec(t.Context(), s); err != nil {
				t.Fatal(err)
			}
		}
		ca.ClientCert(t, role)
	}
	i.Settings.HBA = []config.Rule{
		{Users: []string{"robot"}, Databases: []string{"postgres"}, Address: "127.0.0.0/8", Auth: config.Certificate},
		{Users: []string{"locked"}, Auth: config.Reject},
		{Auth: config.Password, Databases: []string{"all"}}, // a database named all, which does not exist
		{Users: []string{"app"}, Auth: config.Password},
	}
	i.Stop(t) // a reload does not report when it is done
	i.Start(t)
	local, remote := fmt.Sprintf("host=%s", i.SocketDir()), "host=127.0.0.1 sslmode=verify-ca sslrootcert="+ca.File("ca.crt")
	cases := []struct {
		name, options, user string
		want                bool
	}{
		{"superuser by socket", local, "postgres", true},
		{"monitor by socket", local, config.MonitorUser, true},
		{"application by socket", local + " password=secret", "app", false},
		{"application with its password", remote + " password=secret", "app", true},
		{"application with another one", remote + " password=other", "app", false},
		{"application without TLS", "host=127.0.0.1 sslmode=disable password=secret", "app", false},
		{"robot with its certificate", remote + cert(ca, "robot"), "robot", true},
		{"robot with another's", remote + cert(ca, "app"), "robot", false},
		{"robot with a password", remote + " password=secret", "robot", false},
		{"who is locked out", remote + " password=secret", "locked", false},
		{"whom no rule fits", remote + " password=secret", "stranger", false},
		{"superuser with a password", remote + " password=secret", "postgres", false},
		{"superuser with a certificate", remote + cert(ca, "postgres"), "postgres", false},
		{"monitor from afar", remote + " password=secret", config.MonitorUser, false},
		{"replication with a certificate", remote + cert(ca, config.ReplicationUser), config.ReplicationUser, true},
		{"replication with a password", remote + " password=secret", config.ReplicationUser, false},
		{"a stream", remote + " replication=yes" + cert(ca, config.ReplicationUser), config.ReplicationUser, true},
		{"another's stream", remote + " replication=yes password=secret", "app", false},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			c, err := pgx.Connect(t.Context(), fmt.Sprintf("%s port=%d user=%s dbname=postgres", tc.options, i.Settings.Port, tc.user))
			if err == nil {
				_ = c.Close(t.Context())
			}
			if (err == nil) != tc.want {
				t.Errorf("want %v, got %v", tc.want, err)
			}
		})
	}
}

func cert(ca *testpg.CA, role string) string {
	return " sslcert=" + ca.File(role+".crt") + " sslkey=" + ca.File(role+".key")
}
