package appconfig

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	"github.com/fettle-dev/fettle/internal/reconciler"
)

// Indexes of the AppConfigs that an event concerns, and of their children.
const (
	indexValues    = "spec.valuesFrom"
	indexTarget    = "target"
	indexDiscovery = "discovery"
	indexOwner     = "appConfigOwner"

	// bySelector is the value of indexDiscovery of AppConfigs that select workloads by labels.
	bySelector = "selector"
)

// watch adds the triggers of the controller.
func (r *Reconciler) watch(b *builder.Builder) {
	b.Owns(&corev1.ConfigMap{}).
		Watches(&configv1.AppConfig{}, handler.EnqueueRequestsFromMapFunc(r.appConfigsOfPublisher), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesMetadata(&corev1.ConfigMap{}, r.EnqueueBy(indexValues, kindConfigMap+"/")).
		WatchesMetadata(&corev1.ConfigMap{}, r.EnqueueBy(indexTarget, ""), reconciler.OnlyDeletion)
	if r.WatchSecrets {
		b.Owns(&corev1.Secret{}).
			WatchesMetadata(&corev1.Secret{}, r.EnqueueBy(indexValues, kindSecret+"/")).
			WatchesMetadata(&corev1.Secret{}, r.EnqueueBy(indexTarget, ""), reconciler.OnlyDeletion)
	}
	r.engine.Watch(b, r.interested)
}

// indexes are those that the controller needs.
var indexes = []reconciler.Index{
	{Object: &configv1.AppConfig{}, Field: indexValues, Values: func(o client.Object) []string {
		var keys []string
		for _, s := range sourcesOf(o.(*configv1.AppConfig)) {
			keys = append(keys, s.kind+"/"+s.name)
		}
		return keys
	}},
	{Object: &configv1.AppConfig{}, Field: indexTarget, Values: func(o client.Object) []string { return []string{targetName(o.(*configv1.AppConfig))} }},
	{Object: &configv1.AppConfig{}, Field: indexDiscovery, Values: func(o client.Object) []string {
		var keys []string
		s := &o.(*configv1.AppConfig).Spec.Rollout
		if s.Discovery == configv1.DiscoverySelector {
			keys = append(keys, bySelector)
		}
		for _, t := range s.Targets {
			keys = append(keys, t.Kind+"/"+t.Name)
		}
		return keys
	}},
	{Object: &corev1.ConfigMap{}, Field: indexOwner, Values: reconciler.OwnerNames(ownerKind)},
}

// appConfigsOfPublisher returns the AppConfigs that want the name of another one, and those that take values from it, also
// indirectly: a cycle may have closed or opened.
func (r *Reconciler) appConfigsOfPublisher(ctx context.Context, obj client.Object) []reconcile.Request {
	namespace := client.InNamespace(obj.GetNamespace())
	names := []string{targetName(obj.(*configv1.AppConfig))}
	requests := r.RequestsBy(ctx, obj.GetNamespace(), indexTarget, names[0])
	for seen := map[string]bool{}; len(names) > 0; names = names[1:] {
		for _, kind := range []string{kindConfigMap, kindSecret} {
			takers := r.list(ctx, namespace, client.MatchingFields{indexValues: kind + "/" + names[0]})
			for i := range takers {
				if cfg := &takers[i]; !seen[cfg.Name] {
					seen[cfg.Name] = true
					requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(cfg)})
					names = append(names, targetName(cfg))
				}
			}
		}
	}
	return requests
}

// list returns the matching AppConfigs, shared with the cache. It reads the cache, which fails only while it is stopped.
func (r *Reconciler) list(ctx context.Context, opts ...client.ListOption) []configv1.AppConfig {
	list := &configv1.AppConfigList{}
	if err := r.Client.List(ctx, list, append(opts, client.UnsafeDisableDeepCopy)...); err != nil {
		log.FromContext(ctx).Error(err, "failed to list the AppConfigs of an event")
	}
	return list.Items
}
