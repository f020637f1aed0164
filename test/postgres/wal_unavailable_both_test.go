package postgres

import (
	"testing"
	"time"
)

// TestWALUnavailable_bothStandbys: the primary removed WAL that both standbys need. They are recloned one after the other
// without a person.
func TestWALUnavailable_bothStandbys(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, retainLittleWAL)
	primary := c.waitSettled()
	c.prepareWrites()
	at := primary.superuser(t, "SELECT pg_walfile_name(pg_current_wal_lsn())")
	var away []*instance
	for _, i := range c.instances {
		if i != primary {
			i.stop()
			away = append(away, i)
		}
	}
	for _, row := range []string{"a", "b", "c", "d", "e", "f"} {
		primary.superuser(t, "SELECT pg_switch_wal()")
		primary.exec(t, "INSERT INTO acks_rows VALUES ('"+row+"', 1)")
	}
	c.eventually("the WAL to be removed", time.Minute, func() bool {
		primary.superuser(t, "CHECKPOINT")
		return primary.superuser(t, "SELECT count(*) FROM pg_ls_waldir() WHERE name = '"+at+"'") == "0"
	})
	for _, i := range away {
		i.start()
	}
	for _, i := range away {
		c.eventually(i.pod+" to be recloned", 3*time.Minute, func() bool { return c.hasEvent("Recloned", i.pod) })
	}
	for _, i := range away {
		c.wantSameRows(t, primary, i)
	}
}
