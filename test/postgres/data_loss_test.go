package postgres

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// TestAsynchronous_boundsLoss: a standby that lags more than spec.failover.maximumLag must not become primary after the
// primary stopped. The former primary becomes primary again without data loss, unless a person accepts the loss. Then its
// old data stay on its volume.
func TestAsynchronous_boundsLoss(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, func(pg *databasev1alpha1.PostgreSQL) {
		pg.Spec.Failover.MaximumLag = resource.MustParse("1Mi")
	})
	primary := c.waitSettled()
	c.prepareWrites()
	l := c.newWriter("service", "")
	c.waitForWrites(l, time.Now())
	other := c.other(primary)

	c.stopWithUnreplicatedWAL(t, primary, other)
	asks := other.statusIs(func(s agentapi.Status) bool {
		return s.Reason == databasev1alpha1.ReasonDataLossNotAccepted && containsAll(s.Message, "lacks", "bytes", "fettle.dev/accept-data-loss="+other.pod)
	})
	c.eventually(other.pod+" to ask whether the loss is accepted", timeout, asks)
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if now := c.primary(); now != nil {
			t.Fatalf("%s is primary without WAL that only %s has", now.pod, primary.pod)
		}
	}
	c.restartFormer(primary, other)
	if now := c.waitSettled(); now != primary {
		t.Errorf("%s is primary, not %s, which has all WAL", now.pod, primary.pod)
	}
	c.waitForWrites(l, time.Now())
	c.check(l)

	c.stopWithUnreplicatedWAL(t, primary, other)
	c.eventually(other.pod+" to ask whether the loss is accepted", timeout, asks)
	c.annotate(databasev1alpha1.AnnotationAcceptDataLoss, primary.pod)
	time.Sleep(2 * time.Second)
	c.annotate(databasev1alpha1.AnnotationAcceptDataLoss, other.pod)
	c.eventually(other.pod+" to become primary", timeout, func() bool { return c.primary() == other })
	c.annotate(databasev1alpha1.AnnotationAcceptDataLoss, "")

	c.restartFormer(primary, other)
	c.eventually(primary.pod+" to ask whether its WAL may be discarded", timeout, primary.statusIs(func(s agentapi.Status) bool {
		return s.Reason == databasev1alpha1.ReasonDataLossNotAccepted && containsAll(s.Message, "has", "bytes of WAL that "+other.pod+" lacks", "fettle.dev/accept-data-loss="+other.pod)
	}))
	if log := primary.log.text(); strings.Contains(log, `"action":"rewind"`) || strings.Contains(log, `"action":"reclone-keeping-data"`) {
		t.Errorf("%s discards WAL that only it has, although the loss was not accepted", primary.pod)
	}
	c.annotate(databasev1alpha1.AnnotationAcceptDataLoss, other.pod)
	c.waitSettled()
	kept, err := filepath.Glob(filepath.Join(primary.dir, "data", "pgdata.kept-*"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("the old data of %s are not kept: %v, %v", primary.pod, kept, err)
	}
	if _, err := os.Stat(filepath.Join(kept[0], "global", "pg_control")); err != nil {
		t.Error(err)
	}
	c.eventually("an event that names the kept data", timeout, func() bool { return c.hasEvent("Recloned", primary.pod, filepath.Base(kept[0])) })
}

// stopWithUnreplicatedWAL writes more than 1 MiB on the primary that the standby does not receive, and stops the primary.
func (c *cluster) stopWithUnreplicatedWAL(t *testing.T, primary, other *instance) {
	t.Helper()
	primary.disconnect("replication")
	other.disconnect("replication")
	primary.superuser(t, "SELECT count(pg_logical_emit_message(true, 'fill', repeat('x', 1000000))) FROM generate_series(1, 4)")
	primary.stop()
}

// restartFormer reconnects the instances and restarts the former primary.
func (c *cluster) restartFormer(primary, other *instance) {
	primary.reconnect()
	other.reconnect()
	primary.recreatePod()
	primary.start()
}
