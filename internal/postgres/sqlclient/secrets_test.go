package sqlclient_test

import (
	"crypto/rand"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/internal/postgres/sqlclient"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
	"github.com/fettle-dev/fettle/internal/testenv/testscram"
)

// TestVerifiers_leaveNoTrace enables all logging and statistics, and searches for verifiers in everything that other roles
// than superusers can read. A decoy, sent by another superuser session, shows that the logging works.
func TestVerifiers_leaveNoTrace(t *testing.T) {
	ctx := bounded(t)
	i := testpg.New(t, "quiet-0")
	maps.Copy(i.Settings.Parameters, map[string]string{
		"log_statement": "all", "log_min_duration_statement": "0", "log_min_duration_sample": "0", "log_statement_sample_rate": "1",
		"log_transaction_sample_rate": "1", "log_min_error_statement": "debug5", "log_min_messages": "debug2", "log_lock_waits": "on",
		"shared_preload_libraries":         "pg_stat_statements",
		"pg_stat_statements.track_utility": "on", "pg_stat_statements.track": "all", "session_preload_libraries": "auto_explain",
		"auto_explain.log_min_duration": "0", "auto_explain.log_nested_statements": "on", "track_activities": "on",
	})
	must(t, i.Init(ctx, server.InitOptions{WALSegmentSize: 1}))
	i.Start(t)
	admin, c := superuser(t, i, "postgres"), i.Client(t)
	needsLogins(t, admin)
	exec(t, admin, "CREATE EXTENSION pg_stat_statements SCHEMA public")
	password, decoy := rand.Text(), testscram.Verifier(t, "decoy")
	verifiers := make([]string, 4)
	for n := range verifiers {
		verifiers[n] = testscram.Verifier(t, password)
	}
	_, err := c.EnsureRoles(ctx, []sqlclient.Role{
		{Name: "app", Login: true, Verifier: verifiers[0]}, {Name: "watcher", Login: true, MemberOf: []string{"pg_monitor"}},
	})
	must(t, err)
	_, err = c.EnsureRoles(ctx, []sqlclient.Role{{Name: "app", Login: true, Verifier: verifiers[1]}})
	must(t, err)
	_, err = c.EnsureLogin(ctx, sqlclient.Login{Role: "app", Verifier: verifiers[2], Allowed: true})
	must(t, err)
	last := i.Client(t)
	if _, err := last.EnsureRoles(ctx, []sqlclient.Role{{Name: "lost", Login: true, Verifier: verifiers[3], MemberOf: []string{"no_such"}}}); err == nil {
		t.Error("a member of no role")
	}
	exec(t, admin, "ALTER ROLE app PASSWORD '"+decoy+"'")

	watcher := superuser(t, i, "postgres")
	exec(t, watcher, "SET ROLE watcher")
	places := map[string]string{
		"pg_stat_activity":   value(t, watcher, "SELECT string_agg(query, ' ') FROM pg_stat_activity"),
		"pg_stat_statements": value(t, watcher, "SELECT string_agg(query, ' ') FROM public.pg_stat_statements"),
		"log":                serverLog(t, i, admin),
	}
	for name, text := range places {
		if !strings.Contains(text, decoy) {
			t.Errorf("%s: not even the decoy is there", name)
		}
		for n, verifier := range verifiers {
			_, keys, _ := strings.Cut(verifier, ":") // salt, and the two keys that must not be known
			if strings.Contains(text, verifier) || strings.Contains(text, keys[strings.Index(keys, "$")+1:]) || strings.Contains(text, password) {
				t.Errorf("%s: verifier %d is there", name, n)
			}
		}
	}
}

// serverLog returns the server's log up to now. It logs a marker statement and waits for it.
func serverLog(t *testing.T, i *testpg.Instance, conn *pgx.Conn) string {
	t.Helper()
	mark := rand.Text()
	exec(t, conn, "SELECT '"+mark+"'")
	for begin := time.Now(); !strings.Contains(i.Log.String(), mark); time.Sleep(time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatal("the server does not log a statement")
		}
	}
	return i.Log.String()
}
