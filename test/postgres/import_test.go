package postgres

import (
	"context"
	"fmt"
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

// foreignPassword is what the source wants to hear.
const foreignPassword = "ours, 'not' theirs"

// newForeign is a server with rows, that is run in a way of its own.
func newForeign(t *testing.T, ca *testpg.CA) *testpg.Foreign {
	t.Helper()
	f := testpg.NewForeign(t, ca, "synchronous_standby_names = 'nobody'\nsynchronous_commit = local\nmax_connections = 250\n")
	f.SQL(t, "postgres", `CREATE ROLE copier LOGIN REPLICATION PASSWORD 'ours, ''not'' theirs'`, `CREATE ROLE ledger SUPERUSER LOGIN CONNECTION LIMIT 7 PASSWORD 'old'`,
		`CREATE DATABASE ledger`, `SELECT pg_create_physical_replication_slot('theirs', true)`, `ALTER SYSTEM SET primary_slot_name = 'theirs'`)
	f.SQL(t, "ledger", `CREATE TABLE copied (id int PRIMARY KEY)`, `GRANT SELECT ON copied TO PUBLIC`, `INSERT INTO copied SELECT g FROM generate_series(1, 1000) g`)
	return f
}

// open gives an instance what opens the source: the files of its mounted Secrets.
func (i *instance) open(t *testing.T, ca *testpg.CA, password string) {
	t.Helper()
	authority, err := os.ReadFile(ca.File("ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(i.dir, "source")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{"ca.crt": string(authority), "password": password + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// writeOn has the source take rows, each the one after the last, until what it returns is called.
func writeOn(t *testing.T, f *testpg.Foreign) (end func()) {
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

// TestImport makes a cluster whose data are a copy of a server that goes on writing. Its password is wrong at first.
func TestImport(t *testing.T) {
	t.Parallel()
	ca := testpg.NewCA(t)
	f := newForeign(t, ca)
	c := newStopped(t, 2, 2, func(pg *databasev1alpha1.PostgreSQL) {
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
		c.eventually(reason, 2*time.Minute, first.says(func(s agentapi.Status) bool { return s.Reason == reason && strings.Contains(s.Message, words) }))
	}
	says("SecretMissing", `"old"`)
	first.open(t, ca, "wrong")
	says("SourceRejected", "passwordSecret")
	before := f.Ask(t, "ledger", "SELECT max(id)::text FROM copied")
	first.open(t, ca, foreignPassword)
	if leader := c.settled(); leader != first {
		t.Fatalf("%s leads", leader.pod)
	}
	end()
	c.prepareLedger()
	c.imported(t, f, before)
	c.restarted(t)
}

// imported holds what a copy has to be.
func (c *cluster) imported(t *testing.T, f *testpg.Foreign, before string) {
	t.Helper()
	first := c.instances[0]
	least, _ := strconv.Atoi(before)
	if rows, _ := strconv.Atoi(first.read("SELECT CASE WHEN count(*) = max(id) THEN max(id) ELSE -1 END::text FROM copied")); rows < least {
		t.Errorf("the copy has %d rows without a gap, and the source had %d before it began", rows, least)
	}
	status, ok := first.status()
	if !ok || status.SystemID != f.Ask(t, "postgres", "SELECT system_identifier::text FROM pg_control_system()") || status.Timeline < 2 || status.Reason != "" {
		t.Errorf("the copy: %+v", status)
	}
	first.answers(t)
	if left := f.Ask(t, "postgres", "SELECT string_agg(slot_name, ',') FROM pg_replication_slots"); left != "theirs" {
		t.Errorf("the source has the slots %s", left)
	}
	c.toldOfCopy(t, first, status.SystemID)
}

// toldOfCopy holds what was said of it, and that the second instance copied the first.
func (c *cluster) toldOfCopy(t *testing.T, first *instance, systemID string) {
	t.Helper()
	if clone := fmt.Sprintf("election.Clone{Source:%s}", first.pod); !strings.Contains(c.instances[1].log.text(), clone) {
		t.Errorf("%s did not copy %s", c.instances[1].pod, first.pod)
	}
	if !c.told("Copied", first.pod, systemID) || !c.told("NoChecksums") {
		t.Error("no event says that the data are a copy, and have no checksums")
	}
	for _, i := range c.instances {
		if strings.Contains(i.log.text(), foreignPassword) {
			t.Errorf("the log of %s has the password", i.pod)
		}
	}
}

// answers holds that the copy is configured by Fettle, and its roles and databases are what was asked for.
func (i *instance) answers(t *testing.T) {
	t.Helper()
	for question, want := range map[string]string{
		"SELECT string_agg(slot_name, ',') FROM pg_replication_slots":                          "fettle_1",
		"SHOW synchronous_standby_names":                                                       "",
		"SHOW primary_slot_name":                                                               "",
		"SELECT (rolsuper OR rolconnlimit <> -1)::text FROM pg_roles WHERE rolname = 'ledger'": "false",
		"SELECT datdba::regrole::text FROM pg_database WHERE datname = 'ledger'":               "ledger",
	} {
		if is := i.read(question); is != want {
			t.Errorf("%s: %q, want %q", question, is, want)
		}
	}
}

// restarted takes away what opens the source, and starts all instances anew: nothing is copied again.
func (c *cluster) restarted(t *testing.T) {
	t.Helper()
	first := c.instances[0]
	rows := first.read("SELECT count(*)::text FROM copied")
	if err := os.RemoveAll(filepath.Join(first.dir, "source")); err != nil {
		t.Fatal(err)
	}
	for _, i := range c.instances {
		i.kill()
		i.start()
	}
	leader := c.settled()
	if now := leader.read("SELECT count(*)::text FROM copied"); now != rows {
		t.Errorf("%s rows, and %s before the restart", now, rows)
	}
}
