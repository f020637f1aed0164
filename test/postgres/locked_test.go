package postgres

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// lockAll has the ledger's role lock all that it may in the database postgres, in a transaction that outlives its session and
// the server.
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

// TestPrimary_isNotStoppedByLocks has a role that may write all data hold every lock that it can get: the primary goes on, and
// so does the next one, to which the prepared transaction comes along.
func TestPrimary_isNotStoppedByLocks(t *testing.T) {
	c := newCluster(t, 2, func(pg *databasev1alpha1.PostgreSQL) {
		pg.Spec.Parameters = map[string]intstr.IntOrString{"max_prepared_transactions": intstr.FromString("5")}
	})
	c.prepareLedger()
	leader := c.settled()
	operator := leader.ask()
	defer operator.Close()
	result, err := operator.Desired(t.Context(), agentapi.Desired{Roles: []agentapi.DesiredRole{{Name: role, Login: true, MemberOf: []string{"pg_write_all_data"}}}})
	if err != nil || result.Items[0].Error != "" {
		t.Fatal(err, result.Items)
	}
	leader.superuser(t, "CREATE TABLE postgres_data ()")
	leader.superuser(t, lockAll)
	if got := leader.superuser(t, "SELECT count(*) FROM pg_locks WHERE relation = 'postgres_data'::regclass AND mode = 'AccessExclusiveLock'"); got != "1" {
		t.Fatalf("%s locks: this shows nothing", got)
	}
	c.staysPrimary(t, leader)

	c.switchover(leader)
	next := c.other(leader)
	c.eventually(next.pod+" to take over", patience, func() bool { return c.leader() == next })
	c.switchedOver(leader)
	if got := next.superuser(t, "SELECT count(*) FROM pg_prepared_xacts"); got != "1" {
		t.Fatalf("%s prepared transactions: this shows nothing", got)
	}
	c.staysPrimary(t, next)
	c.settled()
}

// staysPrimary holds that the Lease is not given up for longer than heartbeats may be missed, and rows can be written after that.
func (c *cluster) staysPrimary(t *testing.T, leader *instance) {
	t.Helper()
	for begun := time.Now(); time.Since(begun) < 6*time.Second; time.Sleep(50 * time.Millisecond) {
		if holder, _ := c.lease(); holder != leader.pod {
			t.Fatalf("%s has the Lease instead of %s after %s", holder, leader.pod, time.Since(begun))
		}
	}
	c.leadsStill(leader)
	leader.exec(t, "CREATE TABLE IF NOT EXISTS after_locks ()")
}
