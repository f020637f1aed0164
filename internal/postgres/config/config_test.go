package config

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-dev/fettle/internal/testenv/golden"
)

// full has every part of the settings.
func full(major int) Settings {
	return Settings{
		Major: major, DataDir: "/data/pgdata", ConfigDir: "/run/fettle", SocketDir: "/run/fettle",
		ClusterName: "orders-1", Instances: 3, MemoryLimit: 2 << 30, VolumeSize: 20 << 30,
		Parameters: map[string]string{"max_connections": "200", "Work_Mem": "8MB", "app.motto": `it's a \ path`},
		TLS:        TLS{CertFile: "/tls/tls.crt", KeyFile: "/tls/tls.key", CAFile: "/tls/ca.crt"},
		Upstream: &Upstream{
			Host: "orders-0.orders-pods.shop.svc", Slot: SlotName(1), CertFile: "/tls/client.crt", KeyFile: "/tls/client.key", CAFile: "/tls/ca.crt",
		},
		Synchronous: &Synchronous{Number: 1, Names: []string{"orders-0", "orders-2"}},
		HBA: []Rule{
			{Databases: []string{"all", "shop"}, Users: []string{"app"}, Address: "10.0.0.0/8", Auth: Password},
			{Users: []string{"robot"}, Auth: Certificate},
			{Address: "192.0.2.7", Auth: Reject},
		},
		LogToken: "abc123", SystemUsers: []string{"postgres"},
	}
}

func TestRender(t *testing.T) {
	for _, name := range []string{"13", "15", "18"} {
		t.Run(name, func(t *testing.T) {
			files, err := Render(full(map[string]int{"13": 13, "15": 15, "18": 18}[name]))
			if err != nil {
				t.Fatal(err)
			}
			got := "=== " + ConfFile + "\n" + files[ConfFile] + "=== " + HBAFile + "\n" + files[HBAFile] + "=== " + IdentFile + "\n" + files[IdentFile]
			golden.Compare(t, filepath.Join("testdata", name+".conf"), got)
		})
	}
}

func TestRender_rejects(t *testing.T) {
	cases := map[string]struct {
		change func(*Settings)
		want   string
	}{
		"version":          {func(s *Settings) { s.Major = 12 }, "PostgreSQL 12 is not supported"},
		"parameter":        {func(s *Settings) { s.Parameters = map[string]string{"archive_command": "true"} }, "archive_command"},
		"relative folder":  {func(s *Settings) { s.DataDir = "pgdata" }, "absolute"},
		"instance":         {func(s *Settings) { s.ClusterName = "a'b" }, "not a pod name"},
		"standby":          {func(s *Settings) { s.Synchronous.Names = []string{`a","b`} }, "not a pod name"},
		"zero standbys":    {func(s *Settings) { s.Synchronous.Number = 0 }, "at least 1"},
		"not acknowledged": {func(s *Settings) { s.Parameters = map[string]string{"synchronous_commit": "local"} }, "synchronous_commit"},
		"slot":             {func(s *Settings) { s.Upstream.Slot = "a b" }, "not a slot name"},
		"rule":             {func(s *Settings) { s.HBA = []Rule{{Auth: "trust"}} }, "invalid authentication method"},
		"path":             {func(s *Settings) { s.TLS.CertFile = "/tls\nssl = off" }, "one line"},
		"user of system":   {func(s *Settings) { s.SystemUsers = []string{`a" "b`} }, "quote"},
		"token":            {func(s *Settings) { s.LogToken = "%u" }, "letters and digits"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			settings := full(15)
			tc.change(&settings)
			if _, err := Render(settings); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("want an error with %q, got %v", tc.want, err)
			}
		})
	}
}

func TestSynchronous_noStandbys(t *testing.T) {
	for name, q := range map[string]*Synchronous{"nil": nil, "no names": {Number: 1}} {
		if got := q.String(); got != "" {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestSettings_memory(t *testing.T) {
	cases := []struct {
		name  string
		limit int64
		want  map[string]string
	}{
		{"no limit", 0, map[string]string{"shared_buffers": "128MB"}},
		{"small", 256 * miB, map[string]string{
			"shared_buffers": "65536kB", "effective_cache_size": "163840kB", "maintenance_work_mem": "16384kB", "autovacuum_work_mem": "8192kB", "work_mem": "1024kB",
		}},
		{"large", 64 * giB, map[string]string{
			"shared_buffers": "16777216kB", "effective_cache_size": "41943040kB", "maintenance_work_mem": "2097152kB", "autovacuum_work_mem": "1048576kB", "work_mem": "167772kB",
		}},
	}
	for _, tc := range cases {
		t.Run(tc.name, func(t *testing.T) {
			got := map[string]string{}
			Settings{MemoryLimit: tc.limit}.memory(got)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestQuote(t *testing.T) {
	cases := map[string]string{
		"plain": `'plain'`, "": `''`, "it's": `'it''s'`, `a\b`: `'a\\b'`, `\'`: `'\\'''`, "# no comment": `'# no comment'`,
	}
	for text, want := range cases {
		if got, err := quote(text); err != nil || got != want {
			t.Errorf("%q: want %s, got %s, %v", text, want, got, err)
		}
	}
	for _, text := range []string{"a\nfsync = off", "a\rb", "a\x00b"} {
		if got, err := quote(text); err == nil {
			t.Errorf("%q was let through as %s", text, got)
		}
	}
}

func TestIsSlotName(t *testing.T) {
	for name, want := range map[string]bool{SlotName(0): true, SlotName(12): true, "fettle_": false, "fettle_x": false, "mine": false, "fettle_-1": false} {
		if got := IsSlotName(name); got != want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

// TestConnInfo checks libpq's format: quoted values, with escaped quotes and backslashes.
func TestConnInfo(t *testing.T) {
	u := &Upstream{Host: "::1", Port: 6000, CertFile: `/a 'b' \c`}
	base := `host='::1' port='6000' user='streaming_replica' sslmode='verify-ca' sslcert='/a \'b\' \\c' gssencmode='disable' ` +
		`application_name='x-0' connect_timeout='5' `
	want := base + `keepalives_idle='5' keepalives_interval='2' keepalives_count='3' tcp_user_timeout='10000'`
	if got := u.ConnInfo("x-0"); got != want {
		t.Errorf("want %s\ngot  %s", want, got)
	}
	want = base + `dbname='postgres' options='-c wal_sender_timeout=0' keepalives_idle='30' keepalives_interval='10' keepalives_count='6' tcp_user_timeout='120000'`
	if got := u.CopyConnInfo("x-0", "postgres"); got != want {
		t.Errorf("want %s\ngot  %s", want, got)
	}
	u = &Upstream{Host: "shop-0.shop-pods.shop.svc"}
	if got := u.ConnInfo("x-0"); !strings.HasPrefix(got, "host='shop-0.shop-pods.shop.svc' port='5432' user='streaming_replica' sslmode='verify-full' ") {
		t.Error(got)
	}
}

// TestConnInfo_upstreamAddress: libpq connects to the address and verifies the certificate for the host name.
func TestConnInfo_upstreamAddress(t *testing.T) {
	for _, c := range []struct{ host, address, want string }{
		{"shop-0.shop-pods.shop.svc", "10.1.2.3", "host='shop-0.shop-pods.shop.svc' hostaddr='10.1.2.3' port='5432' "},
		{"shop-0.shop-pods.shop.svc", "", "host='shop-0.shop-pods.shop.svc' port='5432' "},
		{"10.1.2.3", "10.1.2.4", "host='10.1.2.3' port='5432' "},
	} {
		if got := (&Upstream{Host: c.host, Address: c.address}).ConnInfo("x-0"); !strings.HasPrefix(got, c.want) {
			t.Errorf("want %s...\ngot  %s", c.want, got)
		}
	}
}

func TestMinimums_raise(t *testing.T) {
	values := map[string]string{"max_connections": "50", "max_wal_senders": "16", "max_locks_per_transaction": "128"}
	Minimums{MaxConnections: 100, MaxWALSenders: 12, MaxWorkerProcesses: 8, MaxPreparedTransactions: 5, MaxLocksPerTransaction: 64}.raise(values)
	want := map[string]string{"max_connections": "100", "max_wal_senders": "16", "max_prepared_transactions": "5", "max_locks_per_transaction": "128"}
	if diff := cmp.Diff(want, values); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}
