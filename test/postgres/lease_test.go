package postgres

import (
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// TestLease_deleted deletes the Lease three times: its holder re-creates it without errors for clients.
func TestLease_deleted(t *testing.T) {
	t.Parallel()
	c, l := newClusterWithWriter(t, synchronous)
	primary := c.waitSettled()
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
		c.eventually("the Lease to be re-created", timeout, func() bool {
			return c.client.Get(t.Context(), key, after) == nil && after.UID != before.UID
		})
		t.Logf("re-created after %s", time.Since(gone).Round(time.Millisecond))
		holder, now := c.lease()
		if holder != primary.pod || now["timeline"] != record["timeline"] || now["systemID"] != record["systemID"] {
			t.Errorf("held by %s, want %s. The record was %v, now %v", holder, primary.pod, record, now)
		}
		c.eventually("the Lease to be renewed", timeout, func() bool {
			_, now := c.lease()
			return now["recreated"] == nil
		})
	}
	c.waitForWrites(l, time.Now().Add(12*time.Second)) // longer than the Lease duration
	if failures := l.Failed(begun); failures > 0 {
		t.Errorf("the client saw %d errors", failures)
	}
	c.wantStillPrimary(primary)
	c.check(l)
}

// TestLease_deletedWithHolder deletes the Lease together with its holder, and the operator creates an empty one. The new
// primary uses a timeline that the old one cannot have used, and the old one follows it.
func TestLease_deletedWithHolder(t *testing.T) {
	t.Parallel()
	c, l := newClusterWithWriter(t, synchronous)
	lost := c.waitSettled()
	lost.kill()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.namespace}}
	if err := c.client.Delete(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	if err := c.client.Create(t.Context(), &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: c.namespace}}); err != nil {
		t.Fatal(err)
	}
	c.eventually("another primary", timeout, func() bool { primary := c.primary(); return primary != nil && primary != lost })
	killServer(c.primary()) // it starts again, and no longer has what kept the timelines in between from being used
	c.waitForWrites(l, time.Now())
	lost.start()
	c.waitSettled()
	if _, record := c.lease(); record["timeline"].(float64) < 1024 {
		t.Errorf("the record is %v: another instance may have used its timeline", record)
	}
	c.check(l)
}
