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

// TestAsynchronous_boundsLoss has a standby lack more than spec.failover.maximumLag when the primary stops in order. It must not lead before the
// primary is back, which then has all that was acknowledged, unless a person accepts the loss. What is lost then stays on its volume.
func TestAsynchronous_boundsLoss(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 2, func(pg *databasev1alpha1.PostgreSQL) {
		pg.Spec.Failover.MaximumLag = resource.MustParse("1Mi")
	})
	leader := c.settled()
	c.prepareLedger()
	l := c.newLedger("service", "")
	c.flows(l, time.Now())
	other := c.other(leader)

	c.leaveBehind(t, leader, other)
	asks := other.says(func(s agentapi.Status) bool {
		return s.Reason == databasev1alpha1.ReasonDataLossNotAccepted && all(s.Message, "lacks", "bytes", "fettle.dev/accept-data-loss="+other.pod)
	})
	c.eventually(other.pod+" to ask whether the loss is accepted", patience, asks)
	for end := time.Now().Add(15 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if now := c.leader(); now != nil {
			t.Fatalf("%s leads without what only %s has", now.pod, leader.pod)
		}
	}
	c.comesBack(leader, other)
	if now := c.settled(); now != leader {
		t.Errorf("%s leads, not %s, which has everything", now.pod, leader.pod)
	}
	c.flows(l, time.Now())
	c.check(l)

	c.leaveBehind(t, leader, other)
	c.eventually(other.pod+" to ask whether the loss is accepted", patience, asks)
	c.annotate(databasev1alpha1.AnnotationAcceptDataLoss, leader.pod)
	time.Sleep(2 * time.Second)
	c.annotate(databasev1alpha1.AnnotationAcceptDataLoss, other.pod)
	c.eventually(other.pod+" to lead", patience, func() bool { return c.leader() == other })
	c.annotate(databasev1alpha1.AnnotationAcceptDataLoss, "")

	c.comesBack(leader, other)
	c.eventually(leader.pod+" to ask whether what it has may be given up", patience, leader.says(func(s agentapi.Status) bool {
		return s.Reason == databasev1alpha1.ReasonDataLossNotAccepted && all(s.Message, "has", "bytes of WAL that "+other.pod+" lacks", "fettle.dev/accept-data-loss="+other.pod)
	}))
	if log := leader.log.text(); strings.Contains(log, `"action":"rewind"`) || strings.Contains(log, `"action":"reclone-keeping-data"`) {
		t.Errorf("%s gives up what only it has, and nobody has accepted that", leader.pod)
	}
	c.annotate(databasev1alpha1.AnnotationAcceptDataLoss, other.pod)
	c.settled()
	kept, err := filepath.Glob(filepath.Join(leader.dir, "data", "pgdata.kept-*"))
	if err != nil || len(kept) != 1 {
		t.Fatalf("the former data of %s are not kept: %v, %v", leader.pod, kept, err)
	}
	if _, err := os.Stat(filepath.Join(kept[0], "global", "pg_control")); err != nil {
		t.Error(err)
	}
	c.eventually("an event that names them", patience, func() bool { return c.told("Recloned", leader.pod, filepath.Base(kept[0])) })
}

// leaveBehind has the primary write more than 1 MiB that the other instance does not get, and stop in order.
func (c *cluster) leaveBehind(t *testing.T, leader, other *instance) {
	t.Helper()
	leader.cutOff("replication")
	other.cutOff("replication")
	leader.superuser(t, "SELECT count(pg_logical_emit_message(true, 'fill', repeat('x', 1000000))) FROM generate_series(1, 4)")
	leader.stop()
}

// comesBack has what was left behind be joined again.
func (c *cluster) comesBack(leader, other *instance) {
	leader.rejoin()
	other.rejoin()
	leader.recreatePod()
	leader.start()
}
