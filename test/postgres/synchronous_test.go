package postgres

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

// showSync asks what a server's commits wait for.
const showSync = "SELECT '<' || current_setting('synchronous_standby_names') || '>'"

// TestSynchronous_turnedOn turns synchronous replication on while the instances run. No standby that is promoted after that may acknowledge
// a row that no other instance has, to a client that is with it from before its promotion. Then it is turned off.
func TestSynchronous_turnedOn(t *testing.T) {
	c := newCluster(t, 3, nil)
	first := c.settled()
	c.prepareLedger()
	next, other := c.instances[(first.ordinal+1)%3], c.instances[(first.ordinal+2)%3]
	c.change(func(spec *databasev1alpha1.PostgreSQLSpec) {
		spec.Synchronous = &databasev1alpha1.PostgreSQLSynchronous{Method: "quorum", Number: 2}
	})
	c.eventually("the primary to wait for both standbys", patience, func() bool { return strings.Contains(first.read(showSync), "ANY 2 (") })
	for _, i := range []*instance{next, other} {
		c.eventually(i.pod+" to acknowledge nothing if it is promoted", patience, func() bool { return len(i.read(showSync)) > len("<>") })
	}
	acked := next.writeDirectly(t)
	other.cutOff()
	first.isolate()
	first.kill()
	c.eventually(next.pod+" to be promoted", patience, func() bool { return strings.Contains(next.log.text(), `"promoted to primary"`) })
	time.Sleep(3 * time.Second)
	if rows := acked.Load(); rows > 0 {
		t.Errorf("%s acknowledged %d rows that no other instance has", next.pod, rows)
	}
	other.rejoin()
	first.rejoin()
	first.start()
	c.settled()
	c.change(func(spec *databasev1alpha1.PostgreSQLSpec) { spec.Synchronous = nil })
	for _, i := range c.instances {
		c.eventually(i.pod+" to wait for nobody", patience, func() bool { return i.read(showSync) == "<>" })
	}
	c.eventually("the Lease to tell that nobody confirms", patience, func() bool {
		_, record := c.lease()
		return record["sync"] == nil
	})
}

// writeDirectly has a client write to an instance, be it a primary or not, until the test ends. It counts the rows that are acknowledged.
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
				if _, err := conn.Exec(each, "INSERT INTO ledger_rows VALUES ('direct', $1)", row); err == nil {
					acked.Add(1)
				}
				stop()
				time.Sleep(time.Millisecond)
			}
		}
	}()
	return acked
}
