package postgresql

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/postgres/agent"
)

// checkLease is what memory knows a look at the Lease by.
const checkLease = "lease"

// newLease is the Lease that the agents elect by, about volumes that may hold data. It lacks the label of Fettle's children on purpose: it
// changes every two seconds, and only the agents need it.
func newLease(pg *databasev1alpha1.PostgreSQL) *coordinationv1.Lease {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Name: pg.Name, Namespace: pg.Namespace, Labels: selector(pg),
		OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pg, databasev1alpha1.GroupVersion.WithKind(ownerKind))},
	}}
	inherit(pg, lease)
	return lease
}

// createLease makes the Lease before the first instance is started: free, for whoever is first. A Lease that is about other volumes is
// reset, when no pod can hold it any more.
func (r *Reconciler) createLease(ctx context.Context, pg *databasev1alpha1.PostgreSQL, in *inputs) error {
	key := client.ObjectKeyFromObject(pg)
	r.history.due(key, checkLease, leaseInterval) // it is not checked again at once
	lease := &coordinationv1.Lease{}
	err := r.Live.Get(ctx, key, lease)
	switch {
	case apierrors.IsNotFound(err):
		if err := r.dropVolumes(ctx, key); err != nil {
			return err
		}
		lease = newLease(pg)
		if err := r.startLease(ctx, pg, in, lease); err != nil {
			return err
		}
		if err := r.Client.Create(ctx, lease, client.FieldOwner(controllerName)); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create Lease %q: %w", pg.Name, err)
		}
		return nil
	case err != nil:
		return fmt.Errorf("get Lease %q: %w", pg.Name, err)
	case metav1.IsControlledBy(lease, pg) && agent.LeaseVolumes(lease) == in.cluster.volumes:
		return nil
	case metav1.IsControlledBy(lease, pg):
		return r.switchLease(ctx, pg, in, lease)
	case lease.Labels[labelOwnerName] == pg.Name && lease.Labels[labelOwnerKind] == ownerKind:
		return apierrors.NewConflict(coordinationv1.Resource("leases"), pg.Name, errLeaseOfFormer)
	}
	return &apply.ConflictError{OwnerKind: ownerKind, GVK: coordinationv1.SchemeGroupVersion.WithKind("Lease"), Namespace: pg.Namespace, Name: pg.Name}
}

// startLease fills a Lease in for the volumes that the instances will use.
func (r *Reconciler) startLease(ctx context.Context, pg *databasev1alpha1.PostgreSQL, in *inputs, lease *coordinationv1.Lease) error {
	found, err := r.adoptExistingClaims(ctx, pg, in.cluster.volumes)
	if err != nil {
		return err
	}
	recovery, err := restoredBy(pg, in, found)
	if err != nil {
		return err
	}
	return agent.ResetLease(lease, in.cluster.volumes, found, recovery)
}

// switchLease makes a Lease that is about other volumes one of those that the instances will use.
func (r *Reconciler) switchLease(ctx context.Context, pg *databasev1alpha1.PostgreSQL, in *inputs, lease *coordinationv1.Lease) error {
	if left, err := r.podLeft(ctx, pg); err != nil || left != "" {
		return cmp.Or(err, error(&volumesError{fmt.Sprintf("pod %s of the previous volumes still exists: the instances start when it is gone", left)}))
	}
	if err := r.startLease(ctx, pg, in, lease); err != nil {
		return err
	}
	// With the version that was read: the next reconcile sees what another client wrote.
	if err := r.Client.Update(ctx, lease, client.FieldOwner(controllerName)); err != nil {
		return fmt.Errorf("switch Lease %q to other volumes: %w", pg.Name, err)
	}
	return nil
}

// leaseOfFormerError waits for the garbage collector.
type leaseOfFormerError struct{}

func (leaseOfFormerError) Error() string { return "it belongs to a former PostgreSQL of this name" }

var errLeaseOfFormer = leaseOfFormerError{}

// reconcileLease re-creates the Lease if it was deleted, and releases it if its holder is proven dead, while there are instances
// and none is primary.
func (r *Reconciler) reconcileLease(ctx context.Context, pg *databasev1alpha1.PostgreSQL, c *cluster) error {
	key := client.ObjectKeyFromObject(pg)
	if c.set == nil || c.primary() != nil || len(c.running()) == 0 || !r.history.due(key, checkLease, leaseInterval) {
		return nil
	}
	lease := &coordinationv1.Lease{}
	err := r.Live.Get(ctx, key, lease)
	if apierrors.IsNotFound(err) {
		// No instance holds or released it: a candidate has to wait as for a holder that fell silent, and a
		// holder that lives writes itself into it.
		lease = newLease(pg)
		if err := agent.ResetLease(lease, c.volumes, true, nil); err != nil {
			return err
		}
		if err := r.Client.Create(ctx, lease, client.FieldOwner(controllerName)); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("re-create Lease %q: %w", pg.Name, err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("get Lease %q: %w", pg.Name, err)
	}
	if !holderDead(lease, c) {
		return nil
	}
	log.FromContext(ctx).Info("releasing the Lease of an instance whose container has exited", "holder", *lease.Spec.HolderIdentity)
	lease.Spec.HolderIdentity = nil
	// With the version that was read: a holder that lives has written since, or writes and finds that it lost.
	if err := r.Client.Update(ctx, lease, client.FieldOwner(controllerName)); err != nil && !apierrors.IsConflict(err) {
		return fmt.Errorf("release Lease %q: %w", pg.Name, err)
	}
	return nil
}

// holderDead is true when the very container that holds the Lease is reported as ended, after its last renewal. Both times
// are from the clock of its node, so that a report which is older than a restart proves nothing.
func holderDead(lease *coordinationv1.Lease, c *cluster) bool {
	if lease.Spec.HolderIdentity == nil || lease.Spec.RenewTime == nil {
		return false
	}
	name, uid, found := strings.Cut(*lease.Spec.HolderIdentity, "/")
	in := c.named(name)
	if !found || in == nil || in.pod == nil || string(in.pod.UID) != uid {
		return false // a pod that is gone proves nothing: it may have been deleted by force
	}
	ended := containerExit(in.pod)
	return !ended.IsZero() && ended.After(lease.Spec.RenewTime.Time)
}

// containerExit is when the pod's PostgreSQL container ended; zero while it runs.
func containerExit(pod *corev1.Pod) time.Time {
	for i := range pod.Status.ContainerStatuses {
		c := &pod.Status.ContainerStatuses[i]
		if c.Name != mainContainer || c.State.Running != nil {
			continue
		}
		if t := c.State.Terminated; t != nil {
			return t.FinishedAt.Time
		}
		if t := c.LastTerminationState.Terminated; t != nil {
			return t.FinishedAt.Time
		}
	}
	return time.Time{}
}
