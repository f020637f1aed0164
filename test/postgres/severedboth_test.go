package postgres

import (
	"testing"
	"time"
)

// TestSeveredBoth has the primary remove the log that both standbys need: they are made anew, one after the other, and no person
// is asked.
func TestSeveredBoth(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, keepLittle)
	leader := c.settled()
	c.prepareLedger()
	at := leader.superuser(t, "SELECT pg_walfile_name(pg_current_wal_lsn())")
	var away []*instance
	for _, i := range c.instances {
		if i != leader {
			i.stop()
			away = append(away, i)
		}
	}
	for _, row := range []string{"a", "b", "c", "d", "e", "f"} {
		leader.superuser(t, "SELECT pg_switch_wal()")
		leader.exec(t, "INSERT INTO ledger_rows VALUES ('"+row+"', 1)")
	}
	c.eventually("the log to be removed", time.Minute, func() bool {
		leader.superuser(t, "CHECKPOINT")
		return leader.superuser(t, "SELECT count(*) FROM pg_ls_waldir() WHERE name = '"+at+"'") == "0"
	})
	for _, i := range away {
		i.start()
	}
	for _, i := range away {
		c.eventually(i.pod+" to be made anew", 3*time.Minute, func() bool { return c.told("Recloned", i.pod) })
	}
	for _, i := range away {
		c.same(t, leader, i)
	}
}
