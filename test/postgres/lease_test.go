package postgres

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestDeletedLease has somebody delete the Lease, three times: its holder makes it again, and clients see nothing of it.
func TestDeletedLease(t *testing.T) {
	c, l := newWritten(t, synchronous)
	leader := c.settled()
	begun := time.Now()
	key := client.ObjectKey{Namespace: c.namespace, Name: name}
	for range 3 {
		before := &coordinationv1.Lease{}
		if err := c.client.Get(t.Context(), key, before); err != nil {
			t.Fatal(err)
		}
		_, record := c.lease()
		if err := c.client.Delete(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.namespace}}); err != nil {
			t.Fatal(err)
		}
		gone := time.Now()
		after := &coordinationv1.Lease{}
		c.eventually("the Lease, again", patience, func() bool {
			return c.client.Get(t.Context(), key, after) == nil && after.UID != before.UID
		})
		t.Logf("made again after %s", time.Since(gone).Round(time.Millisecond))
		holder, now := c.lease()
		if holder != leader.pod || now["timeline"] != record["timeline"] || now["systemID"] != record["systemID"] {
			t.Errorf("held by %s, want %s; the record was %v, and is %v", holder, leader.pod, record, now)
		}
		c.eventually("it is renewed", patience, func() bool {
			_, now := c.lease()
			return now["recreated"] == nil
		})
	}
	c.flows(l, time.Now().Add(12*time.Second)) // longer than the last renewal before would have lasted
	if failures := l.Failed(begun); failures > 0 {
		t.Errorf("the client saw %d errors", failures)
	}
	c.leadsStill(leader)
	c.check(l)
}

// TestLostLease has the Lease vanish together with its holder, and the operator make another that knows nothing: a new
// primary uses a timeline that the old one can't have used, and the old one follows it.
func TestLostLease(t *testing.T) {
	c, l := newWritten(t, synchronous)
	lost := c.settled()
	lost.kill()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.namespace}}
	if err := c.client.Delete(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	if err := c.client.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.namespace}}); err != nil {
		t.Fatal(err)
	}
	c.eventually("another primary", patience, func() bool { leader := c.leader(); return leader != nil && leader != lost })
	killServer(c.leader()) // it starts again, and no longer has what kept the timelines in between from being used
	c.flows(l, time.Now())
	lost.start()
	c.settled()
	if _, record := c.lease(); record["timeline"].(float64) < 1024 {
		t.Errorf("the record is %v: another instance may have used its timeline", record)
	}
	c.check(l)
}
