package session_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/scram"
	"github.com/fettle-dev/fettle/internal/postgres/session"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

func bounded(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(cancel)
	return ctx
}

// superuser is a connection of its own, with which tests look and tamper.
func superuser(t *testing.T, i *testpg.Instance, database string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), fmt.Sprintf("host=%s port=%d user=postgres dbname='%s'", i.SocketDir(), i.Settings.Port, database))
	if err != nil {
		t.Fatal(err)
	}
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

// value is the answer to a query of one text.
func value(t *testing.T, conn *pgx.Conn, query string) string {
	t.Helper()
	var text string
	if err := conn.QueryRow(t.Context(), query).Scan(&text); err != nil {
		t.Fatalf("%s: %v", query, err)
	}
	return text
}

// writes are the statements that the server logged, but those that only look.
func writes(i *testpg.Instance, since int) []string {
	var found []string
	for line := range strings.Lines(i.Log.String()[since:]) {
		_, statement, logged := strings.Cut(line, "LOG:  statement: ")
		if !logged {
			_, statement, logged = strings.Cut(line, "LOG:  execute ")
			_, statement, _ = strings.Cut(statement, ": ")
		}
		statement = strings.TrimSpace(statement)
		if logged && !strings.HasPrefix(strings.ToUpper(statement), "SELECT") && statement != "" {
			found = append(found, statement)
		}
	}
	return found
}

func TestHeartbeat(t *testing.T) {
	ctx := bounded(t)
	i := testpg.Running(t, "beat-0")
	i.Settings.Parameters["log_statement"] = "all"
	i.Configure(t)
	c := i.Session(t)
	if err := c.WaitSetting(ctx, "log_statement", "all"); err != nil {
		t.Fatal(err)
	}
	if err := c.Heartbeat(ctx); err == nil {
		t.Error("a heartbeat without its table")
	}
	if err := c.Prepare(ctx); err != nil {
		t.Fatal(err)
	}
	since := len(i.Log.String())
	if err := c.Prepare(ctx); err != nil {
		t.Fatal(err)
	}
	if got := writes(i, since); got != nil {
		t.Errorf("Prepare wrote again: %q", got)
	}
	conn := superuser(t, i, "postgres")
	for range 3 {
		before := value(t, conn, "SELECT pg_current_wal_flush_lsn()::text")
		if err := c.Heartbeat(ctx); err != nil {
			t.Fatal(err)
		}
		if after := value(t, conn, "SELECT pg_current_wal_flush_lsn()::text"); after == before {
			t.Error("a heartbeat that reached no disk")
		}
	}
	if got := value(t, conn, "SELECT count(*)::text FROM fettle.heartbeat"); got != "1" {
		t.Errorf("%s rows", got)
	}

	// Nobody acknowledges: other commits wait, the heartbeat does not.
	i.Settings.Synchronous = &config.Synchronous{Method: config.Any, Number: 1, Names: []string{"beat-1"}}
	i.Configure(t)
	if err := c.WaitSetting(ctx, "synchronous_standby_names", `ANY 1 ("beat-1")`); err != nil {
		t.Fatal(err)
	}
	if err := c.Heartbeat(ctx); err != nil {
		t.Errorf("without a quorum: %v", err)
	}

	// A hung server.
	for _, pid := range strings.Fields(value(t, conn, "SELECT string_agg(pid::text, ' ') FROM pg_stat_activity WHERE application_name = 'fettle-agent'")) {
		var n int
		if _, err := fmt.Sscan(pid, &n); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(n, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
	}
	short, cancel := context.WithTimeout(ctx, 300*time.Millisecond)
	defer cancel()
	if err := c.Heartbeat(short); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("of a hung server: %v", err)
	}
	// A new connection is as good as ever.
	if err := c.Heartbeat(ctx); err != nil {
		t.Errorf("after that: %v", err)
	}

	if err := i.Process().Kill(ctx); err != nil {
		t.Fatal(err)
	}
	if err := c.Heartbeat(ctx); !errors.Is(err, session.ErrUnavailable) {
		t.Errorf("of a dead server: %v", err)
	}
	// The client finds the next life by itself.
	i.Settings.Synchronous = nil
	i.Start(t)
	if err := c.Heartbeat(ctx); err != nil {
		t.Errorf("in the next life: %v", err)
	}
	if err := i.SetStandby(true); err != nil {
		t.Fatal(err)
	}
	i.Stop(t)
	i.Start(t)
	if err := c.Heartbeat(ctx); !errors.Is(err, session.ErrReadOnly) {
		t.Errorf("of a standby: %v", err)
	}
}

// TestSessionsAreNotFooled has a user who owns a function and an operator of the names that sessions use.
func TestSessionsAreNotFooled(t *testing.T) {
	ctx := bounded(t)
	i := testpg.Running(t, "trap-0")
	conn := superuser(t, i, "postgres")
	exec(t, conn,
		"CREATE TABLE fooled (by text)",
		"CREATE FUNCTION public.pg_is_in_recovery() RETURNS boolean LANGUAGE plpgsql AS $$ BEGIN INSERT INTO public.fooled VALUES (current_user); RETURN true; END $$",
		"CREATE FUNCTION public.current_setting(text) RETURNS text LANGUAGE sql AS $$ INSERT INTO public.fooled VALUES ('x') RETURNING 'x' $$",
		"ALTER DATABASE postgres SET search_path TO public, pg_catalog", "ALTER ROLE postgres SET search_path TO public, pg_catalog",
		"ALTER DATABASE postgres SET default_transaction_read_only TO on", "ALTER ROLE postgres SET statement_timeout TO 1")
	c := i.Session(t)
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

func TestStatusOfAPrimary(t *testing.T) {
	ctx := bounded(t)
	i := testpg.Running(t, "status-0")
	c := i.Session(t)
	i.Settings.Parameters["max_connections"] = "33"
	i.Configure(t)
	var got session.Status
	deadline := time.Now().Add(time.Minute)
	for len(got.PendingRestart) == 0 && time.Now().Before(deadline) {
		var err error
		if got, err = c.Status(ctx); err != nil {
			t.Fatal(err)
		}
	}
	control, err := i.ControlData(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := session.Status{SystemID: control.SystemID, Timeline: 1, PendingRestart: []string{"max_connections"}, Written: got.Written, StartedAt: got.StartedAt, Senders: []session.Sender{}}
	if diff := cmp.Diff(want, got); diff != "" || got.Written == 0 || time.Since(got.StartedAt) > time.Hour {
		t.Errorf("-want +got\n%s", diff)
	}
	conn := superuser(t, i, "postgres")
	if config.MaxMajor >= 17 && i.Settings.Major < 17 {
		exec(t, conn, "ALTER SYSTEM SET archive_command TO 'true'", "SELECT pg_reload_conf()")
		if foreign, err := c.ForeignSettings(ctx); err != nil || len(foreign) != 1 || foreign[0] != "archive_command" {
			t.Errorf("%v, %v", foreign, err)
		}
	} else if _, err := conn.Exec(ctx, "ALTER SYSTEM SET archive_command TO 'true'"); err == nil {
		t.Error("ALTER SYSTEM was let through")
	}
	if refused, err := c.RefusedSettings(ctx); err != nil || len(refused) > 0 {
		t.Errorf("%v, %v", refused, err)
	}
}

func TestSlots(t *testing.T) {
	ctx := bounded(t)
	i := testpg.Running(t, "slots-0")
	c := i.Session(t)
	conn := superuser(t, i, "postgres")
	exec(t, conn, "SELECT pg_create_physical_replication_slot('mine')")
	slots := "SELECT coalesce(string_agg(slot_name || ' ' || (restart_lsn IS NOT NULL), ',' ORDER BY slot_name), '') FROM pg_replication_slots"
	steps := []struct {
		wanted  []string
		changes []string
		slots   string
	}{
		{[]string{"fettle_1", "fettle_2"}, []string{"created slot fettle_1", "created slot fettle_2"}, "fettle_1 true,fettle_2 true,mine false"},
		{[]string{"fettle_1", "fettle_2"}, nil, "fettle_1 true,fettle_2 true,mine false"},
		{[]string{"fettle_2", "fettle_3"}, []string{"dropped slot fettle_1", "created slot fettle_3"}, "fettle_2 true,fettle_3 true,mine false"},
		{nil, []string{"dropped slot fettle_2", "dropped slot fettle_3"}, "mine false"},
	}
	for n, step := range steps {
		changes, err := c.EnsureSlots(ctx, step.wanted)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(step.changes, changes); diff != "" {
			t.Errorf("step %d: -want +got\n%s", n, diff)
		}
		if got := value(t, conn, slots); got != step.slots {
			t.Errorf("step %d: %s", n, got)
		}
	}
	if _, err := c.EnsureSlots(ctx, []string{"mine"}); err == nil {
		t.Error("a foreign slot was let through")
	}
}

func TestRoles(t *testing.T) {
	ctx := bounded(t)
	i := testpg.Running(t, "roles-0")
	i.Settings.Parameters["log_statement"] = "all"
	i.Configure(t)
	c := i.Session(t)
	if err := c.WaitSetting(ctx, "log_statement", "all"); err != nil {
		t.Fatal(err)
	}
	conn := superuser(t, i, "postgres")
	verifier, err := scram.Verifier("secret")
	if err != nil {
		t.Fatal(err)
	}
	other, err := scram.Verifier("other")
	if err != nil {
		t.Fatal(err)
	}
	const odd = `O'Brien"; DROP TABLE x; --\ é`
	first := []session.Role{
		{Name: "group"}, {Name: "app", Login: true, Verifier: verifier, MemberOf: []string{"group", "pg_monitor"}},
		{Name: odd, Login: true, CreateDB: true, ConnectionLimit: new(5)},
	}
	describe := `SELECT string_agg(rolname || ' ' || concat_ws(' ', rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolbypassrls, rolconnlimit,
  (SELECT string_agg(roleid::regrole::text, '+' ORDER BY roleid::regrole::text) FROM pg_auth_members WHERE member = oid)), E'\n' ORDER BY rolname COLLATE "C")
FROM pg_roles WHERE rolname IN ('app', 'group', '` + strings.ReplaceAll(odd, "'", "''") + `')`
	steps := []struct {
		name    string
		roles   []session.Role
		changes []string
		want    string
	}{
		{"created", first, []string{"created role group", "created role app", "created role " + odd},
			odd + " f t f t t f f 5\napp f t f f t f f -1 \"group\"+pg_monitor\ngroup f t f f f f f -1"},
		{"again", first, nil, odd + " f t f t t f f 5\napp f t f f t f f -1 \"group\"+pg_monitor\ngroup f t f f f f f -1"},
		{"changed", []session.Role{{Name: "app", Login: true, NoInherit: true, Verifier: other, MemberOf: []string{}}}, []string{"changed role app"},
			odd + " f t f t t f f 5\napp f f f f t f f -1\ngroup f t f f f f f -1"},
		{"memberships left alone", []session.Role{{Name: "app", Login: true, NoInherit: true}}, nil,
			odd + " f t f t t f f 5\napp f f f f t f f -1\ngroup f t f f f f f -1"},
	}
	for _, step := range steps {
		since := len(i.Log.String())
		changes, err := c.EnsureRoles(ctx, step.roles)
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if diff := cmp.Diff(step.changes, changes); diff != "" {
			t.Errorf("%s: -want +got\n%s", step.name, diff)
		}
		if got := writes(i, since); step.changes == nil && got != nil {
			t.Errorf("%s: nothing differs, and it sent %q", step.name, got)
		}
		want := strings.Split(step.want, "\n")
		if diff := cmp.Diff(want, strings.Split(value(t, conn, describe), "\n")); diff != "" {
			t.Errorf("%s: -want +got\n%s", step.name, diff)
		}
	}
	if got := value(t, conn, "SELECT rolpassword FROM pg_authid WHERE rolname = 'app'"); got != other {
		t.Errorf("the verifier is %s", got)
	}
	exec(t, conn, "ALTER ROLE app SUPERUSER")
	if _, err := c.EnsureRoles(ctx, []session.Role{{Name: "app", Login: true, NoInherit: true}}); err != nil {
		t.Fatal(err)
	}
	if got := value(t, conn, "SELECT rolsuper::text FROM pg_roles WHERE rolname = 'app'"); got != "false" {
		t.Error("a wanted role stays a superuser")
	}
	for range 2 {
		if err := c.DropRole(ctx, odd); err != nil {
			t.Error(err)
		}
	}
}

func TestRolesThatAreRefused(t *testing.T) {
	cases := map[string]struct {
		role session.Role
		want string
	}{
		"no name":        {session.Role{}, "empty"},
		"too long":       {session.Role{Name: strings.Repeat("x", 64)}, "at most 63"},
		"a line break":   {session.Role{Name: "a\nb"}, "control character"},
		"the superuser":  {session.Role{Name: "postgres"}, "taken"},
		"replication":    {session.Role{Name: config.ReplicationUser}, "taken"},
		"PostgreSQL's":   {session.Role{Name: "pg_mine"}, "taken"},
		"plain password": {session.Role{Name: "app", Verifier: "secret"}, "no SCRAM-SHA-256 verifier"},
		"injection":      {session.Role{Name: "app", Verifier: "SCRAM-SHA-256$4096:x' SUPERUSER --"}, "no SCRAM-SHA-256 verifier"},
		"programs":       {session.Role{Name: "app", MemberOf: []string{"pg_execute_server_program"}}, "leave the database"},
		"to be postgres": {session.Role{Name: "app", MemberOf: []string{"postgres"}}, "leave the database"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := tc.role.Check(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("want an error with %q, got %v", tc.want, err)
			}
			c := session.New(session.Options{SocketDir: "/nowhere"})
			if _, err := c.EnsureRoles(t.Context(), []session.Role{tc.role}); err == nil || errors.Is(err, session.ErrUnavailable) {
				t.Errorf("it was sent: %v", err)
			}
		})
	}
}

func TestDatabases(t *testing.T) {
	ctx := bounded(t)
	i := testpg.Running(t, "databases-0")
	i.Settings.Parameters["log_statement"] = "all"
	i.Configure(t)
	c := i.Session(t)
	if err := c.WaitSetting(ctx, "log_statement", "all"); err != nil {
		t.Fatal(err)
	}
	if _, err := c.EnsureRoles(ctx, []session.Role{{Name: "app", Login: true}, {Name: `o"o`}}); err != nil {
		t.Fatal(err)
	}
	const odd = `shop "2" 'x'`
	first := []session.Database{
		{Name: "shop", Owner: "app", Encoding: "LATIN1", Locale: "C", Extensions: []session.Extension{{Name: "plpgsql"}}},
		{Name: odd, Owner: `o"o`},
	}
	conn := superuser(t, i, "postgres")
	describe := `SELECT string_agg(concat_ws('|', datname, pg_get_userbyid(datdba), pg_encoding_to_char(encoding)), ', ' ORDER BY datname COLLATE "C")
FROM pg_database WHERE datname LIKE 'shop%'`
	steps := []struct {
		name    string
		wanted  []session.Database
		changes []string
		want    string
	}{
		{"created", first, []string{"created database shop", "created database " + odd}, `shop|app|LATIN1, ` + odd + `|o"o|UTF8`},
		{"again", first, nil, `shop|app|LATIN1, ` + odd + `|o"o|UTF8`},
		{"another owner", []session.Database{{Name: odd, Owner: "app"}}, []string{"changed database " + odd}, `shop|app|LATIN1, ` + odd + `|app|UTF8`},
		{"owner left alone", []session.Database{{Name: odd}}, nil, `shop|app|LATIN1, ` + odd + `|app|UTF8`},
	}
	for _, step := range steps {
		since := len(i.Log.String())
		changes, err := c.EnsureDatabases(ctx, step.wanted)
		if err != nil {
			t.Fatalf("%s: %v", step.name, err)
		}
		if diff := cmp.Diff(step.changes, changes); diff != "" {
			t.Errorf("%s: -want +got\n%s", step.name, diff)
		}
		if got := writes(i, since); step.changes == nil && got != nil {
			t.Errorf("%s: nothing differs, and it sent %q", step.name, got)
		}
		if got := value(t, conn, describe); got != step.want {
			t.Errorf("%s: %s", step.name, got)
		}
	}
	if _, err := c.EnsureDatabases(ctx, []session.Database{{Name: "shop", Extensions: []session.Extension{{Name: "no_such"}}}}); err == nil ||
		!strings.Contains(err.Error(), "the image does not have it") {
		t.Errorf("an extension that is not there: %v", err)
	}
	for range 2 {
		if err := c.DropDatabase(ctx, odd); err != nil {
			t.Error(err)
		}
	}
	if err := c.DropDatabase(ctx, "postgres"); err == nil {
		t.Error("the database of PostgreSQL was dropped")
	}
}

// TestExtensions needs those that come with PostgreSQL.
func TestExtensions(t *testing.T) {
	ctx := bounded(t)
	i := testpg.Running(t, "extensions-0")
	c := i.Session(t)
	shop := session.Database{Name: "shop", Extensions: []session.Extension{{Name: "pg_stat_statements"}, {Name: "hstore"}, {Name: "earthdistance"}}}
	conn := superuser(t, i, "postgres")
	if value(t, conn, "SELECT count(*)::text FROM pg_available_extensions WHERE name IN ('pg_stat_statements', 'hstore', 'earthdistance', 'cube')") != "4" {
		t.Skip("this installation has no extensions")
	}
	want := []string{"created database shop", "created extension pg_stat_statements in shop", "created extension hstore in shop", "created extension earthdistance in shop"}
	for _, want := range [][]string{want, nil} {
		changes, err := c.EnsureDatabases(ctx, []session.Database{shop})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, changes); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	}
	in := superuser(t, i, "shop")
	query := `SELECT string_agg(extname || ' in ' || extnamespace::regnamespace, ', ' ORDER BY extname) FROM pg_extension WHERE extname <> 'plpgsql'`
	if got := value(t, in, query); got != "cube in public, earthdistance in public, hstore in public, pg_stat_statements in public" {
		t.Error(got)
	}
	exec(t, in, "CREATE SCHEMA elsewhere")
	shop.Extensions = []session.Extension{{Name: "hstore", Schema: "elsewhere", Version: value(t, in, "SELECT extversion FROM pg_extension WHERE extname = 'hstore'")}}
	if changes, err := c.EnsureDatabases(ctx, []session.Database{shop}); err != nil || len(changes) != 1 {
		t.Errorf("%v, %v", changes, err)
	}
	if got := value(t, in, query); !strings.Contains(got, "hstore in elsewhere") {
		t.Error(got)
	}
}
