package postgres

import (
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

// sourcePassword is the password for the source.
const sourcePassword = "ours, 'not' theirs"

// newExternalServer starts a server with data and its own configuration.
func newExternalServer(t *testing.T, ca *testpg.CA) *testpg.External {
	t.Helper()
	f := testpg.NewExternal(t, ca, "synchronous_standby_names = 'nobody'\nsynchronous_commit = local\nmax_connections = 250\n")
	f.SQL(t, "postgres", `CREATE ROLE copier LOGIN REPLICATION PASSWORD 'ours, ''not'' theirs'`, `CREATE ROLE ledger SUPERUSER LOGIN CONNECTION LIMIT 7 PASSWORD 'old'`,
		`CREATE DATABASE ledger`, `SELECT pg_create_physical_replication_slot('theirs', true)`, `ALTER SYSTEM SET primary_slot_name = 'theirs'`)
	f.SQL(t, "ledger", `CREATE TABLE copied (id int PRIMARY KEY)`, `GRANT SELECT ON copied TO PUBLIC`, `INSERT INTO copied SELECT g FROM generate_series(1, 1000) g`)
	return f
}

// writeSourceSecrets writes the files of the mounted Secrets for the source.
func (i *instance) writeSourceSecrets(t *testing.T, ca *testpg.CA, password string) {
	t.Helper()
	caCert, err := os.ReadFile(ca.File("ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(i.dir, "source")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"ca.crt": string(caCert), "password": password + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// writeOn inserts consecutive rows on the source until the returned function is called.
func writeOn(t *testing.T, f *testpg.External) (end func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			f.SQL(t, "ledger", `INSERT INTO copied SELECT max(id) + 1 FROM copied`)
			time.Sleep(5 * time.Millisecond)
		}
	}()
	return func() { cancel(); <-ended }
}

// TestImport bootstraps a cluster with pg_basebackup from a server under write load. The password is wrong at first.
func TestImport(t *testing.T) {
	t.Parallel()
	ca := testpg.NewCA(t)
	f := newExternalServer(t, ca)
	c := newStoppedCluster(t, 2, 2, func(pg *databasev1alpha1.PostgreSQL) {
		pg.Spec.DatabaseName = "ledger"
		pg.Spec.Bootstrap.PgBasebackup = &databasev1alpha1.PostgreSQLPgBasebackup{
			Host: "localhost", Port: int32(f.Port), User: "copier",
			PasswordSecret: &fettlev1.SecretKeyReference{Name: "old"}, CASecret: &fettlev1.SecretKeyReference{Name: "old"},
		}
	})
	first := c.instances[0]
	for _, i := range c.instances {
		i.start()
	}
	end := writeOn(t, f)
	defer end()
	says := func(reason, words string) {
		t.Helper()
		c.eventually(reason, 2*time.Minute, first.statusIs(func(s agentapi.Status) bool { return s.Reason == reason && strings.Contains(s.Message, words) }))
	}
	says("SecretMissing", `"old"`)
	first.writeSourceSecrets(t, ca, "wrong")
	says("SourceRejected", "passwordSecret")
	before := f.QueryText(t, "ledger", "SELECT max(id)::text FROM copied")
	first.writeSourceSecrets(t, ca, sourcePassword)
	if primary := c.waitSettled(); primary != first {
		t.Fatalf("%s is primary", primary.pod)
	}
	end()
	c.prepareWrites()
	c.wantImported(t, f, before)
	c.wantNoSecondImport(t)
}

// wantImported checks the imported data.
func (c *cluster) wantImported(t *testing.T, f *testpg.External, before string) {
	t.Helper()
	first := c.instances[0]
	least, _ := strconv.Atoi(before)
	if rows, _ := strconv.Atoi(first.queryOnce("SELECT CASE WHEN count(*) = max(id) THEN max(id) ELSE -1 END::text FROM copied")); rows < least {
		t.Errorf("the copy has %d rows without a gap, and the source had %d before it began", rows, least)
	}
	status, ok := first.status()
	if !ok || status.Election.SystemID != f.QueryText(t, "postgres", "SELECT system_identifier::text FROM pg_control_system()") || status.Timeline < 2 || status.Reason != "" {
		t.Errorf("the copy: %+v", status)
	}
	first.wantConfiguredByFettle(t)
	if left := f.QueryText(t, "postgres", "SELECT string_agg(slot_name, ',') FROM pg_replication_slots"); left != "theirs" {
		t.Errorf("the source has the slots %s", left)
	}
	c.wantImportReported(t, first, status.Election.SystemID)
}

// wantImportReported checks the events, and that the second instance was cloned from the first.
func (c *cluster) wantImportReported(t *testing.T, first *instance, systemID string) {
	t.Helper()
	if clone := `"action":"clone","source":"` + first.pod + `"`; !strings.Contains(c.instances[1].log.text(), clone) {
		t.Errorf("%s did not copy %s", c.instances[1].pod, first.pod)
	}
	if !c.hasEvent("Copied", first.pod, systemID) || !c.hasEvent("NoChecksums") {
		t.Error("no event says that the data are a copy, and have no checksums")
	}
	for _, i := range c.instances {
		if strings.Contains(i.log.text(), sourcePassword) {
			t.Errorf("the log of %s has the password", i.pod)
		}
	}
}

// wantConfiguredByFettle checks that the copy has Fettle's configuration, roles and databases.
func (i *instance) wantConfiguredByFettle(t *testing.T) {
	t.Helper()
	for question, want := range map[string]string{
		"SELECT string_agg(slot_name, ',') FROM pg_replication_slots":                          "fettle_1",
		"SHOW synchronous_standby_names":                                                       "",
		"SHOW primary_slot_name":                                                               "",
		"SELECT (rolsuper OR rolconnlimit <> -1)::text FROM pg_roles WHERE rolname = 'ledger'": "false",
		"SELECT datdba::regrole::text FROM pg_database WHERE datname = 'ledger'":               "ledger",
	} {
		if is := i.queryOnce(question); is != want {
			t.Errorf("%s: %q, want %q", question, is, want)
		}
	}
}

// wantNoSecondImport removes the Secrets and restarts all instances: nothing is imported again.
func (c *cluster) wantNoSecondImport(t *testing.T) {
	t.Helper()
	first := c.instances[0]
	rows := first.queryOnce("SELECT count(*)::text FROM copied")
	if err := os.RemoveAll(filepath.Join(first.dir, "source")); err != nil {
		t.Fatal(err)
	}
	for _, i := range c.instances {
		i.kill()
		i.start()
	}
	primary := c.waitSettled()
	if now := primary.queryOnce("SELECT count(*)::text FROM copied"); now != rows {
		t.Errorf("%s rows, and %s before the restart", now, rows)
	}
}
