package postgres

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// lockAll locks everything that the writer's role may lock in the database postgres, in a prepared transaction that
// outlives its session and the server.
const lockAll = `SET SESSION AUTHORIZATION ` + role + `;
DO $$ DECLARE r regclass; BEGIN
  FOR r IN SELECT oid FROM pg_class WHERE relkind IN ('r', 'p', 'm') AND relpersistence = 'p' LOOP
    BEGIN
      EXECUTE format('LOCK TABLE %s IN ACCESS EXCLUSIVE MODE', r);
    EXCEPTION WHEN insufficient_privilege THEN NULL;
    END;
  END LOOP;
END $$;
PREPARE TRANSACTION 'held'`

// TestPrimary_userLocksDoNotStopIt: a role with pg_write_all_data holds every possible lock. The primary keeps running, and
// so does the next one, which also has the prepared transaction.
func TestPrimary_userLocksDoNotStopIt(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, func(pg *databasev1alpha1.PostgreSQL) {
		pg.Spec.Parameters = map[string]intstr.IntOrString{"max_prepared_transactions": intstr.FromString("5")}
	})
	c.prepareWrites()
	primary := c.waitSettled()
	operator := primary.agentClient()
	defer operator.Close()
	result, err := operator.ApplyDesired(t.Context(), agentapi.Desired{Roles: []agentapi.DesiredRole{{Name: role, Login: true, MemberOf: []string{"pg_write_all_data"}}}})
	if err != nil || result.Items[0].Error != "" {
		t.Fatal(err, result.Items)
	}
	primary.superuser(t, "CREATE TABLE postgres_data ()")
	primary.superuser(t, lockAll)
	if got := primary.superuser(t, "SELECT count(*) FROM pg_locks WHERE relation = 'postgres_data'::regclass AND mode = 'AccessExclusiveLock'"); got != "1" {
		t.Fatalf("%s locks: this shows nothing", got)
	}
	c.wantStaysPrimary(t, primary)

	c.switchover(primary)
	next := c.other(primary)
	c.eventually(next.pod+" to become primary", timeout, func() bool { return c.primary() == next })
	c.switchedOver(primary)
	if got := next.superuser(t, "SELECT count(*) FROM pg_prepared_xacts"); got != "1" {
		t.Fatalf("%s prepared transactions: this shows nothing", got)
	}
	c.wantStaysPrimary(t, next)
	c.waitSettled()
}

// wantStaysPrimary checks that the primary keeps the Lease for longer than missed heartbeats are tolerated, and accepts
// writes.
func (c *cluster) wantStaysPrimary(t *testing.T, primary *instance) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < 6*time.Second; time.Sleep(50 * time.Millisecond) {
		if holder, _ := c.lease(); holder != primary.pod {
			t.Fatalf("%s has the Lease instead of %s after %s", holder, primary.pod, time.Since(begun))
		}
	}
	c.wantStillPrimary(primary)
	primary.exec(t, "CREATE TABLE IF NOT EXISTS after_locks ()")
}
