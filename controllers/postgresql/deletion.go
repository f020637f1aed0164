package postgresql

import (
	"context"
	"fmt"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

// Volumes are deleted by the operator alone, and by the last spec of the deleted PostgreSQL alone, which the event of the deletion
// has. An owner reference would have the garbage collector delete them by the spec that the operator saw last: too much, where
// a user changed deletionPolicy to Retain just before. A finalizer would keep the PostgreSQL where the operator was removed first.
// What is lost with the operator is the deletion: where it does not run, the volumes stay.

// deletions knows of which deleted PostgreSQLs the volumes are to be deleted. It is safe for concurrent use.
type deletions struct {
	mu sync.Mutex
	of map[types.NamespacedName]types.UID
}

func newDeletions() *deletions { return &deletions{of: map[types.NamespacedName]types.UID{}} }

// note remembers how the last PostgreSQL of that name was deleted; stale says that its last spec is not known.
func (d *deletions) note(pg *databasev1alpha1.PostgreSQL, stale bool) {
	key := client.ObjectKeyFromObject(pg)
	if stale || pg.Spec.DeletionPolicy != databasev1alpha1.DeletionDelete {
		d.forget(key)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.of[key] = pg.UID
}

// pending is the UID of the deleted PostgreSQL whose volumes are to be deleted; empty where there is none.
func (d *deletions) pending(key types.NamespacedName) types.UID {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.of[key]
}

// take ends it when a new PostgreSQL of that name has started on the volumes: whatever there are, they are its own. A pass over the
// deleted one that has not noticed yet ends nothing.
func (d *deletions) take(pg *databasev1alpha1.PostgreSQL) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if key := client.ObjectKeyFromObject(pg); d.of[key] != pg.UID {
		delete(d.of, key)
	}
}

// forget ends it. It is called when the volumes are deleted.
func (d *deletions) forget(key types.NamespacedName) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.of, key)
}

// handler notes deletions, and has the controller look at them.
func (d *deletions) handler() handler.EventHandler {
	return handler.Funcs{DeleteFunc: func(_ context.Context, e event.DeleteEvent, queue workqueue.TypedRateLimitingInterface[reconcile.Request]) {
		if pg, ok := e.Object.(*databasev1alpha1.PostgreSQL); ok {
			d.note(pg, e.DeleteStateUnknown)
			queue.Add(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(pg)})
		}
	}}
}

// dropVolumes deletes the claims of a PostgreSQL that was deleted with them. It is called while no later one of its name has
// started. Claims that it never used stay.
func (r *Reconciler) dropVolumes(ctx context.Context, key types.NamespacedName) error {
	uid := r.deletions.pending(key)
	if uid == "" {
		return nil
	}
	claims := &corev1.PersistentVolumeClaimList{}
	labels := client.MatchingLabels{labelOwnerKind: ownerKind, labelOwnerName: key.Name}
	if err := r.Client.List(ctx, claims, client.InNamespace(key.Namespace), labels); err != nil {
		return fmt.Errorf("list PVCs: %w", err)
	}
	for i := range claims.Items {
		claim := &claims.Items[i]
		if claim.DeletionTimestamp != nil || claim.Annotations[databasev1alpha1.AnnotationUnusedBy] == string(uid) {
			continue
		}
		err := r.Client.Delete(ctx, claim, client.Preconditions{UID: &claim.UID})
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete PVC %q: %w", claim.Name, err)
		}
	}
	return nil
}
