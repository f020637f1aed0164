package postgresql

import (
	"context"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/reconciler"
)

// Indexes by which the PostgreSQLs that an event concerns are found without looking at all of them.
const (
	indexPasswordSecrets = "passwordSecret"
	indexOptional        = "optional-apis"
	indexOwner           = "owner-postgresql"
	indexRecovery        = "recovery-backup"
)

// watch adds the triggers of the controller. What is owned has no predicate: readiness lives in status. The Lease is not
// watched: it changes all the time.
func (r *Reconciler) watch(b *builder.Builder) {
	b.Owns(&k8sappsv1.StatefulSet{}).
		Owns(&corev1.Service{}).
		Owns(&corev1.ServiceAccount{}).
		Owns(&rbacv1.Role{}).
		Owns(&rbacv1.RoleBinding{}).
		Owns(&policyv1.PodDisruptionBudget{}).
		Owns(&networkingv1.NetworkPolicy{}).
		Owns(&backupv1alpha1.Backup{}).
		Watches(&databasev1alpha1.PostgreSQL{}, r.deletions.handler()).
		Watches(&backupv1alpha1.Backup{}, r.EnqueueBy(indexRecovery, ""), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&corev1.Pod{}, r.EnqueueOwner()). // the kind does not control pods, claims, and credentials that outlive it
		Watches(&corev1.PersistentVolumeClaim{}, r.EnqueueOwner())
	r.apis.Trigger(b, func(ctx context.Context, kind string) []reconcile.Request {
		return r.Requests(ctx, client.MatchingFields{indexOptional: kind})
	})
	if r.WatchSecrets {
		b.Watches(&corev1.Secret{}, r.EnqueueOwner()).
			WatchesMetadata(&corev1.Secret{}, r.EnqueueBy(indexPasswordSecrets, ""))
	}
}

// indexes are those that the watches need.
var indexes = []reconciler.Index{
	{Object: &databasev1alpha1.PostgreSQL{}, Field: indexPasswordSecrets, Values: func(o client.Object) []string {
		var names []string
		for _, u := range userSecretsOf(o.(*databasev1alpha1.PostgreSQL)) {
			names = append(names, u.ref.Name)
		}
		return names
	}},
	{Object: &databasev1alpha1.PostgreSQL{}, Field: indexOptional, Values: func(o client.Object) []string {
		return optionalKinds(o.(*databasev1alpha1.PostgreSQL))
	}},
	{Object: &databasev1alpha1.PostgreSQL{}, Field: indexRecovery, Values: func(o client.Object) []string {
		if from := o.(*databasev1alpha1.PostgreSQL).Spec.Bootstrap.Recovery; from != nil && from.Backup != "" {
			return []string{from.Backup}
		}
		return nil
	}},
	{Object: &corev1.Pod{}, Field: indexOwner, Values: reconciler.OwnerNames(ownerKind)},
}
