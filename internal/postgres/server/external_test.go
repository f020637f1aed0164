package server_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

// external is the connection to an external server.
func external(f *testpg.External, ca *testpg.CA) server.External {
	return server.External{
		External:        config.External{Host: "localhost", Port: f.Port, User: "copier", SSLMode: "verify-full", CAFile: ca.File("ca.crt")},
		Password:        "it's: a\\secret", // nothing of it means anything
		ApplicationName: "shop-0",
	}
}

// newExternalServer starts a server with roles, slots and settings that must not be copied.
func newExternalServer(t *testing.T, ca *testpg.CA) *testpg.External {
	t.Helper()
	f := testpg.NewExternal(t, ca, "synchronous_standby_names = 'nobody'\nsynchronous_commit = local\nmax_connections = 250\n")
	f.SQL(t, "postgres",
		`CREATE ROLE copier LOGIN REPLICATION PASSWORD 'it''s: a\secret'`, `CREATE ROLE reader LOGIN PASSWORD 'x'`, `CREATE ROLE stranger LOGIN REPLICATION PASSWORD 'x'`,
		`CREATE ROLE certified LOGIN REPLICATION`, `CREATE ROLE app SUPERUSER LOGIN PASSWORD 'old'`, `CREATE DATABASE shop OWNER app`,
		`SELECT pg_create_physical_replication_slot('theirs', true)`, `ALTER SYSTEM SET primary_slot_name = 'theirs'`, `ALTER SYSTEM SET restore_command = 'false'`)
	f.SQL(t, "shop", `CREATE TABLE t AS SELECT g FROM generate_series(1, 1000) g`)
	return f
}

// TestPreflight_sourceErrors triggers each error that users can fix, on a real server.
func TestPreflight_sourceErrors(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	ca, other := testpg.NewCA(t), testpg.NewCA(t)
	ca.ClientCert(t, "certified")
	f, i := newExternalServer(t, ca), testpg.New(t, "shop-0")
	for _, c := range []struct {
		name   string
		change func(*server.External)
		kind   server.SourceErrorKind // "" for none
		says   string
	}{
		{"all is well", func(*server.External) {}, "", ""},
		{"an IP address with verify-ca", func(e *server.External) { e.Host, e.SSLMode = "127.0.0.1", "verify-ca" }, "", ""},
		{"encrypted, and no more", func(e *server.External) { e.SSLMode, e.CAFile = "require", "" }, "", ""},
		{"a certificate instead of a password", func(e *server.External) {
			e.User, e.Password, e.CertFile, e.KeyFile = "certified", "", ca.File("certified.crt"), ca.File("certified.key")
		}, "", ""},
		{"no certificate", func(e *server.External) { e.User = "certified" }, server.Rejected, "clientCertificateSecret"},
		{"no name", func(e *server.External) { e.Host = "nowhere.invalid" }, server.Unreachable, "DNS"},
		{"wrong port", func(e *server.External) { e.Port = testpg.Port(t) }, server.Unreachable, "accepts no connections"},
		{"another password", func(e *server.External) { e.Password = "wrong" }, server.Rejected, "passwordSecret"},
		{"no password", func(e *server.External) { e.Password = "" }, server.Rejected, "passwordSecret"},
		{"no such role", func(e *server.External) { e.User = "nobody" }, server.Rejected, "nobody"},
		{"may not replicate", func(e *server.External) { e.User, e.Password = "reader", "x" }, server.Rejected, `ALTER ROLE "reader" REPLICATION`},
		{"not let in", func(e *server.External) { e.User, e.Password = "stranger", "x" }, server.Rejected, "hostssl replication stranger"},
		{"another CA", func(e *server.External) { e.CAFile = other.File("ca.crt") }, server.Untrusted, "CA in caSecret"},
		{"no CA", func(e *server.External) { e.CAFile = "/nonexistent" }, server.Untrusted, "caSecret"},
	} {
		e := external(f, ca)
		c.change(&e)
		identity, err := i.Preflight(ctx, e)
		if c.kind != "" {
			wantSourceError(t, c.name, err, c.kind, c.says)
		} else if err != nil || identity.SystemID != f.QueryText(t, "postgres", "SELECT system_identifier::text FROM pg_control_system()") || identity.Checksums {
			t.Errorf("%s: %+v, %v", c.name, identity, err)
		}
		if secret := external(f, ca).Password; err != nil && strings.Contains(fmt.Sprint(err, errors.Unwrap(err))+i.Log.String(), secret) {
			t.Errorf("%s: the password is leaked: %v", c.name, err)
		}
	}
	for _, dir := range []string{i.DataDir(), i.CloneDir()} {
		if _, err := os.Stat(dir); !os.IsNotExist(err) {
			t.Errorf("%s is there: %v", dir, err)
		}
	}
}

func wantSourceError(t *testing.T, name string, err error, kind server.SourceErrorKind, says string) {
	t.Helper()
	if sourceErr, ok := errors.AsType[*server.SourceError](err); !ok || sourceErr.Kind != kind || !strings.Contains(sourceErr.Message, says) {
		t.Errorf("%s: %v, want %s with %q", name, err, kind, says)
	}
}

// TestPreflight_rejectsTablespaces: a source with tablespaces is rejected before anything is written, in particular into
// them.
func TestPreflight_rejectsTablespaces(t *testing.T) {
	ctx := bounded(t)
	ca := testpg.NewCA(t)
	f, i := newExternalServer(t, ca), testpg.New(t, "shop-0")
	space := testpg.Dir(t)
	f.SQL(t, "postgres", "CREATE TABLESPACE fast LOCATION '"+space+"'")
	before, _ := os.ReadDir(space)
	_, err := i.Preflight(ctx, external(f, ca))
	wantSourceError(t, "tablespaces", err, server.Unsuitable, "tablespaces")
	if after, _ := os.ReadDir(space); len(after) != len(before) {
		t.Errorf("something was written into a tablespace: %v", after)
	}
}

// TestImport imports an external server and promotes the copy: it has a new timeline and none of the source's
// configuration.
func TestImport(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Minute)
	defer cancel()
	ca := testpg.NewCA(t)
	f, i := newExternalServer(t, ca), testpg.New(t, "shop-0")
	ca.EnableTLS(i)
	must(t, os.MkdirAll(filepath.Join(i.CloneDir(), "base"), 0o700)) // as an agent that was killed would have left it
	must(t, i.Import(ctx, external(f, ca)))
	if err := i.Import(ctx, external(f, ca)); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("data that are there were copied over: %v", err)
	}
	wantNoSourceConfig(t, i)
	control, err := i.ControlData(ctx)
	must(t, err)
	i.Settings.Minimums = control.Minimums
	i.Start(t)
	s := i.Client(t)
	if s := status(t, s); !s.InRecovery || s.Receiver != nil {
		t.Errorf("before its promotion: %+v", s)
	}
	must(t, i.Process().Promote())
	must(t, s.WaitPrimary(ctx))
	must(t, s.Prepare(ctx))
	must(t, s.Heartbeat(ctx))
	if now := status(t, s); now.InRecovery || now.Timeline != 2 {
		t.Errorf("the copy is on timeline %d, and in recovery: %v", now.Timeline, now.InRecovery)
	}
	if left := f.QueryText(t, "postgres", "SELECT count(*)::text FROM pg_replication_slots WHERE slot_name <> 'theirs'"); left != "0" {
		t.Errorf("%s slots were left on the source", left)
	}
}

// wantNoSourceConfig checks that a copy is a standby without slots and settings of the source.
func wantNoSourceConfig(t *testing.T, i *testpg.Instance) {
	t.Helper()
	if standby, err := i.IsStandby(); err != nil || !standby {
		t.Errorf("a copy that is no standby: %v, %v", standby, err)
	}
	if slots, err := os.ReadDir(filepath.Join(i.DataDir(), "pg_replslot")); err != nil || len(slots) != 0 {
		t.Errorf("slots came along: %v, %v", slots, err)
	}
	for _, name := range []string{"postgresql.conf", "pg_hba.conf", "postgresql.auto.conf"} {
		content, err := os.ReadFile(filepath.Join(i.DataDir(), name))
		must(t, err)
		if strings.Contains(string(content), "=") || strings.Contains(string(content), "hostssl") {
			t.Errorf("%s came along: %s", name, content)
		}
	}
}
