package postgresql

import (
	"context"
	"fmt"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

// Indexes by which the PostgreSQLs that an event concerns are found without looking at all of them.
const (
	indexPasswordSecrets = "passwordSecret"
	indexOptional        = "optional-apis"
	indexOwner           = "owner-postgresql"
)

// watches says what wakes the controller. What is owned has no predicate: readiness lives in status. The Lease is not
// watched: it changes all the time.
func (r *Reconciler) watches(mgr ctrl.Manager, opts Options) *builder.Builder {
	b := ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		For(&databasev1alpha1.PostgreSQL{}).
		Owns(&k8sappsv1.StatefulSet{}).
		Owns(&corev1.Service{}).
		Owns(&corev1.ServiceAccount{}).
		Owns(&rbacv1.Role{}).
		Owns(&rbacv1.RoleBinding{}).
		Owns(&policyv1.PodDisruptionBudget{}).
		Owns(&networkingv1.NetworkPolicy{}).
		Watches(&databasev1alpha1.PostgreSQL{}, r.deletions.handler()).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(ownerByLabel)).
		Watches(&corev1.PersistentVolumeClaim{}, handler.EnqueueRequestsFromMapFunc(ownerByLabel))
	r.apis.Trigger(b, func(ctx context.Context, kind string) []reconcile.Request {
		return r.list(ctx, client.MatchingFields{indexOptional: kind})
	})
	if opts.WatchSecrets {
		b.Watches(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(ownerByLabel)).
			WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.mapSecret))
	}
	return b
}

// index adds the indexes that the watches need to the manager's cache.
func index(ctx context.Context, indexer client.FieldIndexer) error {
	for _, ix := range []struct {
		object client.Object
		field  string
		values client.IndexerFunc
	}{
		{&databasev1alpha1.PostgreSQL{}, indexPasswordSecrets, func(o client.Object) []string {
			var names []string
			for _, u := range userSecretsOf(o.(*databasev1alpha1.PostgreSQL)) {
				names = append(names, u.ref.Name)
			}
			return names
		}},
		{&databasev1alpha1.PostgreSQL{}, indexOptional, func(o client.Object) []string { return optionalKinds(o.(*databasev1alpha1.PostgreSQL)) }},
		{&corev1.Pod{}, indexOwner, func(o client.Object) []string {
			if o.GetLabels()[labelOwnerKind] != ownerKind {
				return nil
			}
			return []string{o.GetLabels()[labelOwnerName]}
		}},
	} {
		if err := indexer.IndexField(ctx, ix.object, ix.field, ix.values); err != nil {
			return fmt.Errorf("index %T by %s: %w", ix.object, ix.field, err)
		}
	}
	return nil
}

// ownerByLabel finds the PostgreSQL of what it does not control: pods, claims, and credentials that outlive it.
func ownerByLabel(_ context.Context, o client.Object) []reconcile.Request {
	l := o.GetLabels()
	if l[labelOwnerKind] != ownerKind || l[labelOwnerName] == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: l[labelOwnerName]}}}
}

func (r *Reconciler) mapSecret(ctx context.Context, secret client.Object) []reconcile.Request {
	return r.list(ctx, client.InNamespace(secret.GetNamespace()), client.MatchingFields{indexPasswordSecrets: secret.GetName()})
}

// list turns the PostgreSQLs that match into requests. It reads the cache, which fails only while it is stopped.
func (r *Reconciler) list(ctx context.Context, opts ...client.ListOption) []reconcile.Request {
	found := &databasev1alpha1.PostgreSQLList{}
	if err := r.client.List(ctx, found, append(opts, client.UnsafeDisableDeepCopy)...); err != nil {
		log.FromContext(ctx).Error(err, "list PostgreSQLs that an event concerns")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(found.Items))
	for i := range found.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&found.Items[i])})
	}
	return requests
}
