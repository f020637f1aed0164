package postgres

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// hibernate sets spec.hibernated.
func (c *cluster) hibernate(yes bool) {
	c.t.Helper()
	pg := &databasev1alpha1.PostgreSQL{}
	if err := c.client.Get(c.t.Context(), client.ObjectKey{Namespace: c.namespace, Name: name}, pg); err != nil {
		c.t.Fatal(err)
	}
	before := pg.DeepCopy()
	pg.Spec.Hibernated = yes
	if err := c.client.Patch(c.t.Context(), pg, client.MergeFrom(before)); err != nil {
		c.t.Fatal(err)
	}
}

// waitHibernated waits until all servers are stopped, and returns the agents' statuses.
func (c *cluster) waitHibernated() []agentapi.Status {
	c.t.Helper()
	var all []agentapi.Status
	c.eventually("all servers stopped", timeout, func() bool {
		all = nil
		for _, i := range c.instances {
			status, ok := i.status()
			if !ok || status.Phase != agentapi.Stopped || status.Received == 0 {
				return false
			}
			all = append(all, status)
		}
		return true
	})
	return all
}

// TestHibernation hibernates a cluster under write load, and resumes it without the former primary. All instances have all
// WAL, so nothing is lost, even with asynchronous replication.
func TestHibernation(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*databasev1alpha1.PostgreSQL){"synchronous": synchronous, "asynchronous": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, l := newClusterWithWriter(t, change)
			last := c.waitSettled()
			c.hibernate(true)
			all := c.waitHibernated()
			for _, status := range all[1:] {
				if status.Received != all[0].Received || status.Timeline != all[0].Timeline {
					t.Errorf("%s has WAL up to %d/%d, %s up to %d/%d", status.Pod, status.Timeline, status.Received, all[0].Pod, all[0].Timeline, all[0].Received)
				}
			}
			c.eventually("the Lease to be released and to record a clean shutdown", timeout, func() bool { // it is written after the last server stopped
				holder, record := c.lease()
				return holder == "" && record["cleanShutdown"] == true
			})
			for _, i := range c.instances { // the operator deletes the pods
				i.stop()
				i.recreatePod()
			}
			begun := time.Now()
			c.hibernate(false)
			for _, i := range c.instances {
				if i != last {
					i.start()
				}
			}
			c.waitForWrites(l, begun)
			l.End()
			if report := c.audit(t, l); report.Lost > 0 {
				t.Errorf("%d acknowledged rows were lost", report.Lost)
			}
			last.start()
			c.waitSettled()
		})
	}
}
