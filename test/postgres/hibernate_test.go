package postgres

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// hibernate writes spec.hibernated.
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

// asleep waits until no server runs any more, and returns what the agents say then.
func (c *cluster) asleep() []agentapi.Status {
	c.t.Helper()
	var all []agentapi.Status
	c.eventually("all servers stopped", patience, func() bool {
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

// TestHibernation stops a cluster under a client that writes, and wakes it up without the instance that was the primary: all
// have all of the log, so that nothing is lost even where no commit waits for another instance.
func TestHibernation(t *testing.T) {
	for name, change := range map[string]func(*databasev1alpha1.PostgreSQL){"synchronous": synchronous, "asynchronous": nil} {
		t.Run(name, func(t *testing.T) {
			c, l := newWritten(t, change)
			last := c.settled()
			c.hibernate(true)
			all := c.asleep()
			for _, status := range all[1:] {
				if status.Received != all[0].Received || status.Timeline != all[0].Timeline {
					t.Errorf("%s has the log up to %d/%d, %s up to %d/%d", status.Pod, status.Timeline, status.Received, all[0].Pod, all[0].Timeline, all[0].Received)
				}
			}
			c.eventually("the Lease to be free, and to say that all have all", patience, func() bool { // it is written after the last server has stopped
				holder, record := c.lease()
				return holder == "" && record["cleanShutdown"] == true
			})
			for _, i := range c.instances { // the operator takes the pods away
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
			c.flows(l, begun)
			l.End()
			if report := c.audit(t, l); report.Lost > 0 {
				t.Errorf("%d acknowledged rows were lost", report.Lost)
			}
			last.start()
			c.settled()
		})
	}
}
