package voteconfig

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	votingv1alpha1 "github.com/fettle-dev/fettle/api/voting/v1alpha1"
	"github.com/fettle-dev/fettle/internal/reconciler"
	"github.com/fettle-dev/fettle/internal/rollout"
)

// Indexes of the VoteConfigs that an event concerns.
const (
	indexConfigMap   = "spec.target.configMapName"
	indexDeployments = "spec.target.deployments"
)

// watch adds the triggers of the controller.
func (r *Reconciler) watch(b *builder.Builder) {
	b.Owns(&corev1.ConfigMap{}).
		WatchesMetadata(&corev1.ConfigMap{}, r.EnqueueBy(indexConfigMap, ""), reconciler.OnlyDeletion)
	r.engine.Watch(b, r.usedBy)
}

// indexes are those that the watches need.
var indexes = []reconciler.Index{
	{Object: &votingv1alpha1.VoteConfig{}, Field: indexConfigMap, Values: func(o client.Object) []string {
		return []string{configMapName(o.(*votingv1alpha1.VoteConfig))}
	}},
	{Object: &votingv1alpha1.VoteConfig{}, Field: indexDeployments, Values: func(o client.Object) []string {
		return o.(*votingv1alpha1.VoteConfig).Spec.Target.Deployments
	}},
}

// usedBy returns the VoteConfigs that a change of the workload may concern.
func (r *Reconciler) usedBy(ctx context.Context, w *rollout.Workload) []reconcile.Request {
	var requests []reconcile.Request
	for _, ref := range w.References {
		if ref.Kind == rollout.ConfigMap {
			requests = append(requests, r.RequestsBy(ctx, w.Namespace, indexConfigMap, ref.Name)...)
		}
	}
	if w.Kind == rollout.Deployment {
		requests = append(requests, r.RequestsBy(ctx, w.Namespace, indexDeployments, w.Name)...)
	}
	for _, name := range w.Owners(rollout.VotingPrefix) {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: w.Namespace, Name: name}})
	}
	return requests
}
