package postgresql

import (
	"context"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/conditions"
)

// reconcilePaused does for a paused PostgreSQL what its instances can't live without: certificates are renewed, volumes grow, and
// the Lease of a dead primary is released. Status tells what the instances do. No pod is created, deleted or restarted, and nothing
// else that the spec asks for is done.
func (r *Reconciler) reconcilePaused(ctx context.Context, pg *databasev1alpha1.PostgreSQL) (reconcile.Result, error) {
	in, err := r.resolve(ctx, pg)
	if err != nil {
		setPaused(pg, &observed{applyErr: err})
		return reconcile.Result{}, err
	}
	seen := &observed{at: r.Clock.Now(), cluster: in.cluster, growth: in.growth, issued: in.issued, serving: in.certificates.serving}
	if in.cluster.set == nil { // nothing was started yet
		setPaused(pg, seen)
		return reconcile.Result{}, nil
	}
	seen.applyErr = r.applyCertificates(ctx, pg, in)
	if apply.Transient(seen.applyErr) {
		return reconcile.Result{}, seen.applyErr
	}
	in.growth.replaceSet = false // new claims have their size when the StatefulSet is re-created
	if seen.growErr, err = r.resize(ctx, pg, in); err != nil {
		return reconcile.Result{}, err
	}
	if err := r.reconcileLease(ctx, pg, &in.cluster); err != nil {
		return reconcile.Result{}, err
	}
	setPaused(pg, seen)
	wait := pollIdle
	if isHibernated(pg, &in.cluster) {
		wait = min(max(in.certificates.renewAt.Sub(r.Clock.Now()), pollActive), 24*time.Hour)
	}
	return reconcile.Result{RequeueAfter: wait}, seen.applyErr
}

// applyCertificates renews the certificates, and the authorities by which clients verify them. No password changes.
func (r *Reconciler) applyCertificates(ctx context.Context, pg *databasev1alpha1.PostgreSQL, in *inputs) error {
	for i := range in.credentials {
		c := &in.credentials[i]
		if c.live == nil {
			continue
		}
		c.rotation, c.copiedFrom = rotationOf(c.role, c.live), c.live.Annotations[annotationCopiedFrom]
		if err := r.ensureSecret(ctx, c.live, c.object(pg, in.certificates.serving.roots)); err != nil {
			return err
		}
	}
	return r.Applier.Apply(ctx, pg, certificateSecrets(pg, in)...)
}

// setPaused reports what the instances do. Ready says whether clients are served.
func setPaused(pg *databasev1alpha1.PostgreSQL, seen *observed) {
	paused := conditions.Unknown(fettlev1.ReasonPaused,
		"spec.paused is true: the spec is not applied until it is false. Failover, the renewal of certificates and the growth of volumes continue")
	seen.cluster.instances = slices.DeleteFunc(slices.Clone(seen.cluster.instances), func(i instance) bool {
		return i.pod == nil && i.ordinal >= seen.cluster.size() // it is created when the spec is applied
	})
	pg.Status.ObservedGeneration = pg.Generation
	conditions.SetState(pg, databasev1alpha1.PostgreSQLConfigured, true, paused)
	conditions.SetState(pg, databasev1alpha1.PostgreSQLApplied, true, paused)
	if seen.applyErr != nil {
		conditions.SetState(pg, databasev1alpha1.PostgreSQLApplied, true, applied(seen))
	}
	if seen.cluster.set != nil {
		describe(pg, seen)
		conditions.SetState(pg, databasev1alpha1.PostgreSQLVolumesReady, true, volumesReady(pg, &seen.cluster, seen.growth, seen.growErr, seen.at))
		conditions.SetState(pg, databasev1alpha1.PostgreSQLPrimaryReady, true, primaryReady(pg, seen))
		conditions.SetState(pg, databasev1alpha1.PostgreSQLInstancesReady, true, pausedInstances(pg, seen))
		conditions.SetState(pg, databasev1alpha1.PostgreSQLCertified, seen.issued != nil, certified(seen.issued, seen.serving))
	}
	summarize(pg)
	pg.Status.Phase = databasev1alpha1.PhasePaused
}

// pausedInstances does not take instances for up to date that wait for the end of the pause.
func pausedInstances(pg *databasev1alpha1.PostgreSQL, seen *observed) conditions.State {
	v := instancesReady(pg, seen)
	for i := range seen.cluster.instances {
		if in := &seen.cluster.instances[i]; v.Status == metav1.ConditionTrue && (in.outdated || in.needsRestart()) {
			return conditions.Unknown(fettlev1.ReasonPaused, in.name+" is updated when spec.paused is false")
		}
	}
	return v
}
