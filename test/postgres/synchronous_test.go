package postgres

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

// showSync shows the synchronous standbys that commits wait for.
const showSync = "SELECT '<' || current_setting('synchronous_standby_names') || '>'"

// TestSynchronous_turnedOn enables synchronous replication in a running cluster. A standby promoted afterwards must not
// acknowledge a row that no other instance has, even to clients that were connected before the promotion. Then it disables
// synchronous replication.
func TestSynchronous_turnedOn(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	first := c.waitSettled()
	c.prepareWrites()
	next, other := c.instances[(first.ordinal+1)%3], c.instances[(first.ordinal+2)%3]
	c.change(func(spec *databasev1alpha1.PostgreSQLSpec) {
		spec.Synchronous = &databasev1alpha1.PostgreSQLSynchronous{Number: 2}
	})
	c.eventually("the primary to wait for both standbys", timeout, func() bool { return strings.Contains(first.queryOnce(showSync), "ANY 2 (") })
	for _, i := range []*instance{next, other} {
		c.eventually(i.pod+" to require a standby if it is promoted", timeout, func() bool { return len(i.queryOnce(showSync)) > len("<>") })
	}
	acked := next.writeDirectly(t)
	other.disconnect()
	first.partition()
	first.kill()
	c.eventually(next.pod+" to be promoted", timeout, func() bool { return strings.Contains(next.log.text(), `"promoted to primary"`) })
	time.Sleep(3 * time.Second)
	if rows := acked.Load(); rows > 0 {
		t.Errorf("%s acknowledged %d rows that no other instance has", next.pod, rows)
	}
	other.reconnect()
	first.reconnect()
	first.start()
	c.waitSettled()
	c.change(func(spec *databasev1alpha1.PostgreSQLSpec) { spec.Synchronous = nil })
	for _, i := range c.instances {
		c.eventually(i.pod+" to wait for no standby", timeout, func() bool { return i.queryOnce(showSync) == "<>" })
	}
	c.eventually("the Lease to have no synchronous standbys", timeout, func() bool {
		_, record := c.lease()
		return record["sync"] == nil
	})
}

// writeDirectly writes to an instance, primary or not, until the test ends. It counts the acknowledged rows.
func (i *instance) writeDirectly(t *testing.T) *atomic.Int64 {
	ctx, cancel := context.WithCancel(t.Context())
	t.Cleanup(cancel)
	acked := &atomic.Int64{}
	go func() {
		for row := 1; ctx.Err() == nil; time.Sleep(5 * time.Millisecond) {
			conn, err := i.cluster.connect(ctx, i.address(0))
			if err != nil {
				continue
			}
			for ctx.Err() == nil && !conn.IsClosed() {
				each, stop := context.WithTimeout(ctx, 2*time.Second)
				row++
				if _, err := conn.Exec(each, "INSERT INTO acks_rows VALUES ('direct', $1)", row); err == nil {
					acked.Add(1)
				}
				stop()
				time.Sleep(time.Millisecond)
			}
		}
	}()
	return acked
}
