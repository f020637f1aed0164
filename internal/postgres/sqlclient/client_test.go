package sqlclient_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/sqlclient"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// superuser is a separate connection of the test.
func superuser(t *testing.T, i *testpg.Instance, database string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), fmt.Sprintf("host=%s port=%d user=postgres dbname='%s'", i.SocketDir(), i.Settings.Port, database))
	must(t, err)
	t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(t.Context())) })
	return conn
}

func exec(t *testing.T, conn *pgx.Conn, statements ...string) {
	t.Helper()
	for _, statement := range statements {
		if _, err := conn.Exec(t.Context(), statement, pgx.QueryExecModeSimpleProtocol); err != nil {
			t.Fatalf("%s: %v", statement, err)
		}
	}
}

// value returns the text result of a query.
func value(t *testing.T, conn *pgx.Conn, query string) string {
	t.Helper()
	var text string
	if err := conn.QueryRow(t.Context(), query).Scan(&text); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return text
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestHeartbeat(t *testing.T) {
	ctx := bounded(t)
	i := testpg.NewRunning(t, "beat-0")
	c, tp := newLoggedClient(t, i)
	must(t, c.Prepare(ctx))
	conn := superuser(t, i, "postgres")
	tp.reset()
	must(t, c.Prepare(ctx))
	if got := tp.writes(); got != nil {
		t.Errorf("Prepare wrote again: %q", got)
	}
	for range 3 {
		before := value(t, conn, "SELECT pg_current_wal_flush_lsn()::text")
		must(t, c.Heartbeat(ctx))
		if after := value(t, conn, "SELECT pg_current_wal_flush_lsn()::text"); after == before {
			t.Error("a heartbeat that reached no disk")
		}
	}

	// No standby acknowledges: other commits wait, the heartbeat does not.
	i.Settings.Synchronous = &config.Synchronous{Number: 1, Names: []string{"beat-1"}}
	i.Configure(t)
	must(t, c.WaitSetting(ctx, "synchronous_standby_names", `ANY 1 ("beat-1")`))
	options := i.ClientOptions()
	options.StatementTimeout = time.Minute
	patient := sqlclient.New(options)
	defer patient.Close(ctx)
	short, cancel := context.WithTimeout(ctx, 15*time.Second)
	defer cancel()
	wantError(t, "without a quorum", patient.Heartbeat(short), nil)
}

// TestHeartbeat_brokenServer also checks that the client reconnects after a restart.
func TestHeartbeat_brokenServer(t *testing.T) {
	ctx := bounded(t)
	i := testpg.NewRunning(t, "beat-0")
	c := i.Client(t)
	must(t, c.Prepare(ctx))
	stopBackend(t, superuser(t, i, "postgres"))
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	wantError(t, "of a hung server", c.Heartbeat(short), context.DeadlineExceeded)
	wantError(t, "by a new connection", c.Heartbeat(ctx), nil)

	must(t, i.Process().Kill(ctx))
	wantError(t, "of a dead server", c.Heartbeat(ctx), sqlclient.ErrUnavailable)
	i.Start(t)
	wantError(t, "in the next life", c.Heartbeat(ctx), nil)
	must(t, i.SetStandby(true))
	i.Stop(t)
	i.Start(t)
	wantError(t, "of a standby", c.Heartbeat(ctx), sqlclient.ErrReadOnly)
}

// stopBackend stops the backend of the agent's connection (SIGSTOP).
func stopBackend(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	pid, err := strconv.Atoi(value(t, conn, "SELECT pid::text FROM pg_stat_activity WHERE application_name = 'fettle-agent'"))
	must(t, err)
	must(t, syscall.Kill(pid, syscall.SIGSTOP))
}

func wantError(t *testing.T, what string, got, want error) {
	t.Helper()
	if !errors.Is(got, want) {
		t.Errorf("%s: want %v, got %v", what, want, got)
	}
}

// TestClient_ignoresUserFunctions has user functions and settings with the names that the package uses.
func TestClient_ignoresUserFunctions(t *testing.T) {
	ctx := bounded(t)
	i := testpg.NewRunning(t, "trap-0")
	conn := superuser(t, i, "postgres")
	exec(t, conn,
		"CREATE TABLE fooled (by text)",
		"CREATE FUNCTION public.pg_is_in_recovery() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.fooled VALUES (current_user); RETURN true; END $$",
		"CREATE FUNCTION public.current_setting(text) RETURNS text LANGUAGE sql AS $$ INSERT INTO public.fooled VALUES ('x') RETURNING 'x' $$",
		"ALTER DATABASE postgres SET search_path TO public, pg_catalog", "ALTER ROLE postgres SET search_path TO public, pg_catalog",
		"ALTER DATABASE postgres SET default_transaction_read_only TO on", "ALTER ROLE postgres SET statement_timeout TO 1")
	c := i.Client(t)
	if standby, err := c.InRecovery(ctx); err != nil || standby {
		t.Errorf("%v, %v", standby, err)
	}
	if err := c.Prepare(ctx); err != nil {
		t.Error(err)
	}
	if err := c.Heartbeat(ctx); err != nil {
		t.Error(err)
	}
	if got := value(t, conn, "SELECT count(*)::text FROM public.fooled"); got != "0" {
		t.Errorf("fooled %s times", got)
	}
}

func TestStatus_primary(t *testing.T) {
	ctx := bounded(t)
	i := testpg.NewRunning(t, "status-0")
	c := i.Client(t)
	i.Settings.Parameters["max_connections"], i.Settings.Parameters["work_mem"] = "33", "9MB"
	must(t, c.Reload(ctx, func() error { // the server is slow to notice
		go func() { time.Sleep(200 * time.Millisecond); i.Configure(t) }()
		return nil
	}))
	got, err := c.Status(ctx)
	must(t, err)
	conn := superuser(t, i, "postgres")
	want := sqlclient.Status{SystemID: value(t, conn, "SELECT system_identifier::text FROM pg_control_system()"), Timeline: 1, PendingRestart: []string{"max_connections"}, Written: got.Written, Senders: []sqlclient.Sender{}}
	if diff := cmp.Diff(want, got); diff != "" || got.Written == 0 {
		t.Errorf("-want +got\n%s", diff)
	}
	if _, err := conn.Exec(ctx, "ALTER SYSTEM SET archive_command TO 'true'"); err == nil && i.Settings.Major >= 17 {
		t.Error("ALTER SYSTEM was let through")
	}
}
