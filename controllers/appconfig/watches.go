package appconfig

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

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	"github.com/fettle-dev/fettle/internal/rollout"
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

// watches sets the triggers of the controller. Neither the owned objects nor the AppConfig have a predicate: a status that another
// client removed is written again.
func (r *Reconciler) watches(mgr ctrl.Manager, opts Options) *builder.Builder {
	gone := builder.WithPredicates(predicate.Funcs{
		CreateFunc: func(event.CreateEvent) bool { return false },
		UpdateFunc: func(event.UpdateEvent) bool { return false },
	})
	b := ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		For(&configv1.AppConfig{}).
		Owns(&corev1.ConfigMap{}).
		Watches(&configv1.AppConfig{}, handler.EnqueueRequestsFromMapFunc(r.appConfigsOfWorkload), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		WatchesMetadata(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.appConfigsUsing(kindConfigMap))).
		WatchesMetadata(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.appConfigsNamed), gone)
	if opts.WatchSecrets {
		b.Owns(&corev1.Secret{}).
			WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.appConfigsUsing(kindSecret))).
			WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.appConfigsNamed), gone)
	}
	return r.engine.Watch(b, func(ctx context.Context, w *rollout.Workload) []reconcile.Request {
		return requests(r.interested(ctx, w))
	})
}

// index adds the indexes that the controller needs to the manager's cache.
func index(ctx context.Context, indexer client.FieldIndexer) error {
	for _, ix := range []struct {
		object client.Object
		field  string
		values client.IndexerFunc
	}{
		{&configv1.AppConfig{}, indexValues, func(o client.Object) []string {
			var keys []string
			for _, s := range sourcesOf(o.(*configv1.AppConfig)) {
				keys = append(keys, s.kind+"/"+s.name)
			}
			return keys
		}},
		{&configv1.AppConfig{}, indexTarget, func(o client.Object) []string { return []string{targetName(o.(*configv1.AppConfig))} }},
		{&configv1.AppConfig{}, indexDiscovery, func(o client.Object) []string {
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
		{&corev1.ConfigMap{}, indexOwner, func(o client.Object) []string {
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

// appConfigsUsing returns the AppConfigs that take values from an object.
func (r *Reconciler) appConfigsUsing(kind string) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		return requests(r.keys(ctx, client.InNamespace(obj.GetNamespace()), client.MatchingFields{indexValues: kind + "/" + obj.GetName()}))
	}
}

// appConfigsNamed returns the AppConfigs that want an object's name.
func (r *Reconciler) appConfigsNamed(ctx context.Context, obj client.Object) []reconcile.Request {
	return requests(r.keys(ctx, client.InNamespace(obj.GetNamespace()), client.MatchingFields{indexTarget: obj.GetName()}))
}

// appConfigsOfWorkload returns the AppConfigs that want the name of another one, and those that take values from it, also
// indirectly: a cycle may have closed or opened.
func (r *Reconciler) appConfigsOfWorkload(ctx context.Context, obj client.Object) []reconcile.Request {
	namespace := client.InNamespace(obj.GetNamespace())
	names := []string{targetName(obj.(*configv1.AppConfig))}
	keys := r.keys(ctx, namespace, client.MatchingFields{indexTarget: names[0]})
	for seen := map[string]bool{}; len(names) > 0; names = names[1:] {
		for _, kind := range []string{kindConfigMap, kindSecret} {
			takers := r.list(ctx, namespace, client.MatchingFields{indexValues: kind + "/" + names[0]})
			for i := range takers {
				if cfg := &takers[i]; !seen[cfg.Name] {
					seen[cfg.Name] = true
					keys, names = append(keys, client.ObjectKeyFromObject(cfg)), append(names, targetName(cfg))
				}
			}
		}
	}
	return requests(keys)
}

// keys returns requests for the matching AppConfigs.
func (r *Reconciler) keys(ctx context.Context, opts ...client.ListOption) []client.ObjectKey {
	found := r.list(ctx, opts...)
	keys := make([]client.ObjectKey, 0, len(found))
	for i := range found {
		keys = append(keys, client.ObjectKeyFromObject(&found[i]))
	}
	return keys
}

// list returns the matching AppConfigs, shared with the cache. It reads the cache, which fails only while it is stopped.
func (r *Reconciler) list(ctx context.Context, opts ...client.ListOption) []configv1.AppConfig {
	list := &configv1.AppConfigList{}
	if err := r.client.List(ctx, list, append(opts, client.UnsafeDisableDeepCopy)...); err != nil {
		log.FromContext(ctx).Error(err, "failed to list the AppConfigs of an event")
	}
	return list.Items
}

func requests(keys []client.ObjectKey) []reconcile.Request {
	out := make([]reconcile.Request, 0, len(keys))
	for _, key := range keys {
		out = append(out, reconcile.Request{NamespacedName: key})
	}
	return out
}
