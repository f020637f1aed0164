package sqlclient_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5"

	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/sqlclient"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
	"github.com/fettle-dev/fettle/internal/testenv/testscram"
)

// asClient connects over TLS with a password, like an application.
func asClient(ctx context.Context, ca *testpg.CA, i *testpg.Instance, user, password, database string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig("host=127.0.0.1 sslmode=disable passfile=/dev/null")
	if err != nil {
		return nil, err
	}
	pem, err := os.ReadFile(ca.File("ca.crt"))
	if err != nil {
		return nil, err
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(pem)
	cfg.Port, cfg.User, cfg.Password, cfg.Database = uint16(i.Settings.Port), user, password, database
	cfg.TLSConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots, ServerName: "127.0.0.1"}
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol // DISCARD ALL takes prepared statements away
	return pgx.ConnectConfig(ctx, cfg)
}

// TestEnsureLogin: sessions of a second login act as the role, have its settings, and own nothing.
func TestEnsureLogin(t *testing.T) {
	ctx := bounded(t)
	ca := testpg.NewCA(t)
	i := ca.Primary(t, "logins-0")
	c := i.Client(t)
	admin := superuser(t, i, "postgres")
	needsLogins(t, admin)
	for _, role := range []string{"myapp", strings.Repeat("x", 63)} {
		login := config.SecondLogin(role)
		_, err := c.EnsureRoles(ctx, []sqlclient.Role{{Name: role, Login: true, Verifier: testscram.Verifier(t, "first")}})
		must(t, err)
		_, err = c.EnsureDatabase(ctx, sqlclient.Database{Name: role, Owner: role})
		must(t, err)
		exec(t, admin, `ALTER ROLE `+role+` SET search_path TO "odd, ""one", public`, `ALTER ROLE `+role+` SET app.tenant TO 'it''s = "x"'`,
			`ALTER ROLE `+role+` IN DATABASE `+role+` SET work_mem TO '8MB'`)

		changes, err := c.EnsureLogin(ctx, sqlclient.Login{Role: role, Allowed: true})
		must(t, err)
		if changes != nil {
			t.Errorf("made without need: %v", changes)
		}
		wish := sqlclient.Login{Role: role, Verifier: testscram.Verifier(t, "second"), Allowed: true, ConnectionLimit: new(2)}
		for _, want := range [][]string{{"created login " + login}, nil} {
			changes, err := c.EnsureLogin(ctx, wish)
			must(t, err)
			if diff := cmp.Diff(want, changes); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		}
		first, err := asClient(ctx, ca, i, role, "first", role)
		must(t, err)
		second, err := asClient(ctx, ca, i, login, "second", role)
		must(t, err)
		who := `SELECT concat_ws('|', current_user, current_setting('search_path'), current_setting('work_mem'), current_setting('app.tenant'))`
		want := role + `|"odd, ""one", public|8MB|it's = "x"`
		for _, before := range []string{"SELECT 1", "RESET ROLE", "RESET ALL", "DISCARD ALL", "RESET SESSION AUTHORIZATION"} {
			exec(t, second, before)
			if diff := cmp.Diff([]string{want, value(t, first, who)}, []string{value(t, second, who), want}); diff != "" {
				t.Errorf("after %s (-want +got):\n%s", before, diff)
			}
		}
		exec(t, second, "CREATE TABLE public.made ()", "ALTER ROLE "+role+" SET statement_timeout TO '7s'")
		exec(t, first, "DROP TABLE public.made")
		other, err := asClient(ctx, ca, i, login, "second", role)
		must(t, err)
		if _, err := asClient(ctx, ca, i, login, "second", role); err == nil || !strings.Contains(err.Error(), "too many connections") {
			t.Errorf("beyond its limit: %v", err)
		}
		for _, conn := range []*pgx.Conn{first, second, other} {
			must(t, conn.Close(ctx))
		}
	}
}

// needsLogins skips a test if the server's minor version does not support second logins.
func needsLogins(t *testing.T, conn *pgx.Conn) {
	t.Helper()
	var number int
	must(t, conn.QueryRow(t.Context(), "SELECT current_setting('server_version_num')::int").Scan(&number))
	if err := sqlclient.CheckVersion(number); err != nil {
		t.Skip(err)
	}
}

// TestSyncLogins: a login follows the settings of its role, and a disabled login stays disabled.
func TestSyncLogins(t *testing.T) {
	ctx := bounded(t)
	ca := testpg.NewCA(t)
	i := ca.Primary(t, "sync-0")
	c, tp := newLoggedClient(t, i)
	admin := superuser(t, i, "postgres")
	needsLogins(t, admin)
	_, err := c.EnsureRoles(ctx, []sqlclient.Role{{Name: "myapp", Login: true}, {Name: "other"}, {Name: "fettle_odd", MemberOf: []string{"other"}}})
	must(t, err)
	wish := sqlclient.Login{Role: "myapp", Verifier: testscram.Verifier(t, "second"), Allowed: true}
	_, err = c.EnsureLogin(ctx, wish)
	must(t, err)
	noted := `SELECT coalesce(string_agg(setting, ' ' ORDER BY setting COLLATE "C"), '') FROM pg_db_role_setting, unnest(setconfig) setting WHERE setrole = 'fettle_login_myapp'::regrole`
	for _, step := range []struct {
		change, want string
		changes      []string
	}{
		{"SELECT 1", "role=myapp", nil},
		{"ALTER ROLE myapp SET work_mem TO '9MB'", "role=myapp work_mem=9MB", []string{"changed login fettle_login_myapp"}},
		{"SELECT 1", "role=myapp work_mem=9MB", nil},
		{"ALTER ROLE fettle_login_myapp RESET role", "role=myapp work_mem=9MB", []string{"changed login fettle_login_myapp"}},
		{"ALTER ROLE myapp RESET work_mem", "role=myapp", []string{"changed login fettle_login_myapp"}},
		{`ALTER ROLE myapp SET search_path TO ''`, `role=myapp search_path=""`, []string{"changed login fettle_login_myapp"}},
		{`ALTER ROLE myapp SET role TO other`, `role=other search_path=""`, []string{"changed login fettle_login_myapp"}},
	} {
		exec(t, admin, step.change)
		tp.reset()
		changes, err := c.SyncLogins(ctx)
		must(t, err)
		if diff := cmp.Diff(step.changes, changes); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.change, diff)
		}
		tp.checkWrites(t, step.changes)
		if got := value(t, admin, noted); got != step.want {
			t.Errorf("%s: %s", step.change, got)
		}
	}
	before, err := c.InsertLSN(ctx)
	must(t, err)
	wish.Allowed = false
	_, err = c.EnsureLogin(ctx, wish)
	must(t, err)
	after, err := c.InsertLSN(ctx)
	must(t, err)
	if after <= before {
		t.Errorf("a change is not in the WAL: %d, %d", before, after)
	}
	if conn, err := asClient(ctx, ca, i, "fettle_login_myapp", "second", "postgres"); err == nil {
		t.Errorf("a disabled login connected as %s", fmt.Sprint(conn.Config().User))
	}
	for _, wrong := range []sqlclient.Login{{Role: "postgres", Allowed: true}, {Role: "myapp", Verifier: "secret", Allowed: true}, {Role: ""}} {
		if _, err := c.EnsureLogin(ctx, wrong); err == nil {
			t.Errorf("%+v was let through", wrong)
		}
	}
}
