package sqlclient_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/internal/postgres/sqlclient"
	"github.com/fettle-dev/fettle/internal/testenv/testpg"
)

// TestHeartbeat_userLocksDoNotBlock: a role with pg_write_all_data locks everything that it can, also in a prepared
// transaction, which survives the session and a restart.
func TestHeartbeat_userLocksDoNotBlock(t *testing.T) {
	ctx := bounded(t)
	i := testpg.New(t, "locked-0")
	i.Settings.Parameters["max_prepared_transactions"] = "5"
	must(t, i.Init(ctx, server.InitOptions{WALSegmentSize: 1}))
	i.Start(t)
	c := i.Client(t)
	must(t, c.Prepare(ctx))
	must(t, c.Heartbeat(ctx))
	_, err := c.EnsureRoles(ctx, []sqlclient.Role{{Name: "writer", Login: true, MemberOf: []string{"pg_write_all_data"}}})
	must(t, err)
	for _, database := range []string{"postgres", "template1"} {
		conn := superuser(t, i, database)
		exec(t, conn, "CREATE TABLE mine (x int)", "SET SESSION AUTHORIZATION writer")
		if locked := lockAll(t, conn); locked == 0 {
			t.Fatal("nothing can be locked: this shows nothing")
		}
		exec(t, conn, "PREPARE TRANSACTION '"+database+"'")
	}
	alive := func(when string) {
		t.Helper()
		short, cancel := context.WithTimeout(ctx, 30*time.Second)
		defer cancel()
		wantError(t, "heartbeat "+when, c.Heartbeat(short), nil)
	}
	alive("of a session that was there")
	i.Stop(t)
	i.Start(t)
	alive("after a restart")

	// Only a superuser can lock catalogs that new sessions need. This is not a timeout.
	conn := superuser(t, i, "postgres")
	exec(t, conn, "BEGIN", "LOCK TABLE pg_catalog.pg_proc IN ACCESS EXCLUSIVE MODE")
	wantError(t, "beside a lock of the catalog", i.Client(t).Heartbeat(ctx), sqlclient.ErrLocked)
}

// lockAll locks all relations that the role may lock, in one open transaction.
func lockAll(t *testing.T, conn *pgx.Conn) int {
	t.Helper()
	rows, err := conn.Query(t.Context(), "SELECT oid::regclass::text FROM pg_class WHERE relkind IN ('r', 'p', 'm') AND relpersistence = 'p'")
	must(t, err)
	names, err := pgx.CollectRows(rows, pgx.RowTo[string])
	must(t, err)
	exec(t, conn, "BEGIN")
	locked := 0
	for _, name := range names {
		exec(t, conn, "SAVEPOINT before")
		if _, err := conn.Exec(t.Context(), "LOCK TABLE "+name+" IN ACCESS EXCLUSIVE MODE", pgx.QueryExecModeSimpleProtocol); err != nil {
			exec(t, conn, "ROLLBACK TO before")
			continue
		}
		locked++
	}
	return locked
}
