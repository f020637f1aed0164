package postgresql

import (
	"testing"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

// TestDeletions_byTheLastSpec holds that volumes are deleted only where the last spec of the last PostgreSQL of that name said so.
func TestDeletions_byTheLastSpec(t *testing.T) {
	of := func(uid string, policy databasev1alpha1.DeletionPolicy) *databasev1alpha1.PostgreSQL {
		pg := wanting(1)
		pg.UID, pg.Spec.DeletionPolicy = types.UID(uid), policy
		return pg
	}
	const drop, keep = databasev1alpha1.DeletionDelete, databasev1alpha1.DeletionRetain
	for _, c := range []struct {
		name   string
		events []event.DeleteEvent
		want   types.UID
	}{
		{"Delete", []event.DeleteEvent{{Object: of("a", drop)}}, "a"},
		{"Retain", []event.DeleteEvent{{Object: of("a", keep)}}, ""},
		{"no policy", []event.DeleteEvent{{Object: of("a", "")}}, ""},
		{"Delete, and the event was missed", []event.DeleteEvent{{Object: of("a", drop), DeleteStateUnknown: true}}, ""},
		{"Delete, and a later one with Retain", []event.DeleteEvent{{Object: of("a", drop)}, {Object: of("b", keep)}}, ""},
		{"Delete, and a later one of which the event was missed", []event.DeleteEvent{{Object: of("a", drop)}, {Object: of("b", drop), DeleteStateUnknown: true}}, ""},
	} {
		d := newDeletions()
		queue := workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[reconcile.Request]())
		key := client.ObjectKeyFromObject(wanting(1))
		for _, e := range c.events {
			d.handler().Delete(t.Context(), e, queue)
		}
		if got := d.pending(key); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if queue.Len() != 1 {
			t.Errorf("%s: %d requests", c.name, queue.Len())
		}
		if d.forget(key); d.pending(key) != "" {
			t.Errorf("%s: it was to be forgotten", c.name)
		}
		queue.ShutDown()
	}
}

// TestDeletions_outliveAPass holds that a pass which began before the deletion does not end it, and that one over a later PostgreSQL does.
func TestDeletions_outliveAPass(t *testing.T) {
	deleted, later := wanting(1), wanting(1)
	deleted.UID, deleted.Spec.DeletionPolicy, later.UID = "a", databasev1alpha1.DeletionDelete, "b"
	key, d := client.ObjectKeyFromObject(deleted), newDeletions()
	d.note(deleted, false)
	if d.take(deleted); d.pending(key) != "a" {
		t.Error("a pass over the deleted PostgreSQL keeps its volumes")
	}
	if d.take(later); d.pending(key) != "" {
		t.Error("the volumes of a PostgreSQL that runs are to be deleted")
	}
}
