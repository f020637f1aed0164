package sqlclient_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/sqlclient"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
	"github.com/fettle-dev/fettle/internal/testenv/testscram"
)

func TestEnsureSlots(t *testing.T) {
	ctx := bounded(t)
	i := testpg.NewRunning(t, "slots-0")
	c := i.Client(t)
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
		must(t, err)
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

func TestEnsureRoles(t *testing.T) {
	ctx := bounded(t)
	i := testpg.NewRunning(t, "roles-0")
	c, tp := newLoggedClient(t, i)
	conn := superuser(t, i, "postgres")
	secret, other := testscram.Verifier(t, "secret"), testscram.Verifier(t, "other")
	const odd = `O'Brien"; DROP TABLE x; --\ é`
	first := []sqlclient.Role{
		{Name: "group"}, {Name: "app", Login: true, Verifier: secret, MemberOf: []string{"group", "pg_monitor"}},
		{Name: odd, Login: true, CreateDB: true, ConnectionLimit: new(5)},
	}
	describe := `SELECT string_agg(rolname || ' ' || concat_ws(' ', rolsuper, rolinherit, rolcreaterole, rolcreatedb, rolcanlogin, rolreplication, rolbypassrls, rolconnlimit,
  (SELECT string_agg(roleid::regrole::text, '+' ORDER BY roleid::regrole::text) FROM pg_auth_members WHERE member = pg_roles.oid)), E'\n' ORDER BY rolname COLLATE "C")
FROM pg_roles WHERE rolname IN ('app', 'group', '` + strings.ReplaceAll(odd, "'", "''") + `')`
	steps := []struct {
		name    string
		roles   []sqlclient.Role
		changes []string
		want    string
	}{
		{"created", first, []string{"created role group", "created role app", "created role " + odd},
			odd + " f t f t t f f 5\napp f t f f t f f -1 \"group\"+pg_monitor\ngroup f t f f f f f -1"},
		{"again", first, nil, odd + " f t f t t f f 5\napp f t f f t f f -1 \"group\"+pg_monitor\ngroup f t f f f f f -1"},
		{"changed", []sqlclient.Role{{Name: "app", Login: true, Verifier: other, MemberOf: []string{}}}, []string{"changed role app"},
			odd + " f t f t t f f 5\napp f t f f t f f -1\ngroup f t f f f f f -1"},
		{"memberships left alone", []sqlclient.Role{{Name: "app", Login: true}}, nil,
			odd + " f t f t t f f 5\napp f t f f t f f -1\ngroup f t f f f f f -1"},
	}
	for _, step := range steps {
		tp.reset()
		changes, err := c.EnsureRoles(ctx, step.roles)
		must(t, err)
		if diff := cmp.Diff(step.changes, changes); diff != "" {
			t.Errorf("%s: -want +got\n%s", step.name, diff)
		}
		tp.checkWrites(t, step.changes)
		want := strings.Split(step.want, "\n")
		if diff := cmp.Diff(want, strings.Split(value(t, conn, describe), "\n")); diff != "" {
			t.Errorf("%s: -want +got\n%s", step.name, diff)
		}
	}
	if got := value(t, conn, "SELECT rolpassword FROM pg_authid WHERE rolname = 'app'"); got != other {
		t.Errorf("the verifier is %s", got)
	}
	plain := value(t, conn, describe)
	for _, privilege := range []string{"SUPERUSER", "CREATEROLE", "BYPASSRLS", "NOINHERIT", "REPLICATION", "CREATEDB"} {
		exec(t, conn, "ALTER ROLE app "+privilege)
		if _, err := c.EnsureRoles(ctx, []sqlclient.Role{{Name: "app", Login: true}}); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(plain, value(t, conn, describe)); diff != "" {
			t.Errorf("a wanted role keeps %s (-want +got):\n%s", privilege, diff)
		}
	}
}

func TestEnsureRoles_rejects(t *testing.T) {
	cases := map[string]struct {
		role sqlclient.Role
		want string
	}{
		"no name":        {sqlclient.Role{}, "empty"},
		"too long":       {sqlclient.Role{Name: strings.Repeat("x", 64)}, "at most 63"},
		"a line break":   {sqlclient.Role{Name: "a\nb"}, "control character"},
		"the superuser":  {sqlclient.Role{Name: "postgres"}, "reserved"},
		"replication":    {sqlclient.Role{Name: config.ReplicationUser}, "reserved"},
		"PostgreSQL's":   {sqlclient.Role{Name: "pg_mine"}, "reserved"},
		"plain password": {sqlclient.Role{Name: "app", Verifier: "secret"}, "not a SCRAM-SHA-256 verifier"},
		"injection":      {sqlclient.Role{Name: "app", Verifier: "SCRAM-SHA-256$4096:x' SUPERUSER --"}, "not a SCRAM-SHA-256 verifier"},
		"programs":       {sqlclient.Role{Name: "app", MemberOf: []string{"pg_execute_server_program"}}, "membership in"},
		"maintenance":    {sqlclient.Role{Name: "app", MemberOf: []string{"pg_maintain"}}, "membership in pg_maintain"},
		"to be postgres": {sqlclient.Role{Name: "app", MemberOf: []string{"postgres"}}, "membership in"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if err := tc.role.Check(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("want an error with %q, got %v", tc.want, err)
			}
			c := sqlclient.New(sqlclient.Options{SocketDir: "/nowhere"})
			if _, err := c.EnsureRoles(t.Context(), []sqlclient.Role{tc.role}); err == nil || errors.Is(err, sqlclient.ErrUnavailable) {
				t.Errorf("it was sent: %v", err)
			}
		})
	}
}

func TestEnsureDatabase(t *testing.T) {
	ctx := bounded(t)
	i := testpg.NewRunning(t, "databases-0")
	c, tp := newLoggedClient(t, i)
	if _, err := c.EnsureRoles(ctx, []sqlclient.Role{{Name: "app", Login: true}, {Name: `o"o`}}); err != nil {
		t.Fatal(err)
	}
	const odd = `shop "2" 'x'`
	first := []sqlclient.Database{
		{Name: "shop", Owner: "app", Extensions: []string{"plpgsql"}},
		{Name: odd, Owner: `o"o`},
	}
	conn := superuser(t, i, "postgres")
	describe := `SELECT string_agg(concat_ws('|', datname, pg_get_userbyid(datdba), pg_encoding_to_char(encoding)), ', ' ORDER BY datname COLLATE "C")
FROM pg_database WHERE datname LIKE 'shop%'`
	steps := []struct {
		name    string
		wanted  []sqlclient.Database
		changes []string
		want    string
	}{
		{"created", first, []string{"created database shop", "created database " + odd}, `shop|app|UTF8, ` + odd + `|o"o|UTF8`},
		{"again", first, nil, `shop|app|UTF8, ` + odd + `|o"o|UTF8`},
		{"another owner", []sqlclient.Database{{Name: odd, Owner: "app"}}, []string{"changed database " + odd}, `shop|app|UTF8, ` + odd + `|app|UTF8`},
		{"owner left alone", []sqlclient.Database{{Name: odd}}, nil, `shop|app|UTF8, ` + odd + `|app|UTF8`},
	}
	for _, step := range steps {
		tp.reset()
		var changes []string
		for _, d := range step.wanted {
			made, err := c.EnsureDatabase(ctx, d)
			must(t, err)
			changes = append(changes, made...)
		}
		if diff := cmp.Diff(step.changes, changes); diff != "" {
			t.Errorf("%s: -want +got\n%s", step.name, diff)
		}
		tp.checkWrites(t, step.changes)
		if got := value(t, conn, describe); got != step.want {
			t.Errorf("%s: %s", step.name, got)
		}
	}
	if _, err := c.EnsureDatabase(ctx, sqlclient.Database{Name: "shop", Extensions: []string{"no_such"}}); err == nil ||
		!strings.Contains(err.Error(), "the image does not contain it") || errors.Is(err, sqlclient.ErrUnavailable) {
		t.Errorf("an extension that is not there: %v", err)
	}
	if _, err := c.EnsureDatabase(ctx, sqlclient.Database{Name: "postgres", Owner: "app"}); err == nil {
		t.Error("the database of PostgreSQL was given away")
	}
}

// TestEnsureDatabase_extensions needs PostgreSQL's contrib extensions.
func TestEnsureDatabase_extensions(t *testing.T) {
	ctx := bounded(t)
	i := testpg.NewRunning(t, "extensions-0")
	c := i.Client(t)
	shop := sqlclient.Database{Name: "shop", Extensions: []string{"pg_stat_statements", "hstore", "earthdistance"}}
	conn := superuser(t, i, "postgres")
	if value(t, conn, "SELECT count(*)::text FROM pg_available_extensions WHERE name IN ('pg_stat_statements', 'hstore', 'earthdistance', 'cube')") != "4" {
		t.Skip("this installation has no extensions")
	}
	want := []string{"created database shop", "created extension pg_stat_statements in shop", "created extension hstore in shop", "created extension earthdistance in shop"}
	for _, want := range [][]string{want, nil} {
		changes, err := c.EnsureDatabase(ctx, shop)
		must(t, err)
		if diff := cmp.Diff(want, changes); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	}
	in := superuser(t, i, "shop")
	query := `SELECT string_agg(extname || ' in ' || extnamespace::regnamespace, ', ' ORDER BY extname) FROM pg_extension WHERE extname <> 'plpgsql'`
	if got := value(t, in, query); got != "cube in public, earthdistance in public, hstore in public, pg_stat_statements in public" {
		t.Error(got)
	}
}
