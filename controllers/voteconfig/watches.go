package voteconfig

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	votingv1alpha1 "github.com/fettle-dev/fettle/api/voting/v1alpha1"
	"github.com/fettle-dev/fettle/internal/rollout"
)

// Indexes of the VoteConfigs that an event concerns.
const (
	indexConfigMap   = "spec.target.configMapName"
	indexDeployments = "spec.target.deployments"
)

// watches sets the triggers of the controller. The VoteConfig has no predicate: a status that another client removed is written
// again. Of foreign ConfigMaps only the deletion matters, since it frees their names.
func (r *Reconciler) watches(mgr ctrl.Manager) *builder.Builder {
	b := ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		For(&votingv1alpha1.VoteConfig{}).
		Owns(&corev1.ConfigMap{}).
		WatchesMetadata(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.publishing), builder.WithPredicates(predicate.Funcs{
			CreateFunc:  func(event.CreateEvent) bool { return false },
			UpdateFunc:  func(event.UpdateEvent) bool { return false },
			GenericFunc: func(event.GenericEvent) bool { return false },
		}))
	return r.engine.Watch(b, r.usedBy)
}

// index adds the indexes that the watches need to the manager's cache.
func index(ctx context.Context, indexer client.FieldIndexer) error {
	for field, values := range map[string]client.IndexerFunc{
		indexConfigMap:   func(o client.Object) []string { return []string{configMapName(o.(*votingv1alpha1.VoteConfig))} },
		indexDeployments: func(o client.Object) []string { return o.(*votingv1alpha1.VoteConfig).Spec.Target.Deployments },
	} {
		if err := indexer.IndexField(ctx, &votingv1alpha1.VoteConfig{}, field, values); err != nil {
			return fmt.Errorf("index VoteConfigs by %s: %w", field, err)
		}
	}
	return nil
}

// publishing returns the VoteConfigs that want a ConfigMap of that name.
func (r *Reconciler) publishing(ctx context.Context, configMap client.Object) []reconcile.Request {
	return r.list(ctx, configMap.GetNamespace(), indexConfigMap, configMap.GetName())
}

// usedBy returns the VoteConfigs that a change of the workload may concern.
func (r *Reconciler) usedBy(ctx context.Context, w *rollout.Workload) []reconcile.Request {
	var requests []reconcile.Request
	for _, ref := range w.References {
		if ref.Kind == rollout.ConfigMap {
			requests = append(requests, r.list(ctx, w.Namespace, indexConfigMap, ref.Name)...)
		}
	}
	if w.Kind == rollout.Deployment {
		requests = append(requests, r.list(ctx, w.Namespace, indexDeployments, w.Name)...)
	}
	for _, name := range w.Owners(rollout.VotingPrefix) {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: w.Namespace, Name: name}})
	}
	return requests
}

func (r *Reconciler) list(ctx context.Context, namespace, field, value string) []reconcile.Request {
	list := &votingv1alpha1.VoteConfigList{}
	if err := r.client.List(ctx, list, client.InNamespace(namespace), client.MatchingFields{field: value}, client.UnsafeDisableDeepCopy); err != nil {
		log.FromContext(ctx).Error(err, "failed to list VoteConfigs", "namespace", namespace, "field", field, "value", value)
		return nil
	}
	requests := make([]reconcile.Request, len(list.Items))
	for i := range list.Items {
		requests[i].NamespacedName = client.ObjectKeyFromObject(&list.Items[i])
	}
	return requests
}
