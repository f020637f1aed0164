package webapp

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	"github.com/fettle-dev/fettle/internal/monitoring"
	"github.com/fettle-dev/fettle/internal/reconciler"
	"github.com/fettle-dev/fettle/internal/rollout"
)

// Restarts for plain ConfigMaps and Secrets, with the defaults of an AppConfig.
const (
	debounce    = 5 * time.Second
	minInterval = 30 * time.Second
)

// restarter restarts the WebApps that list a plain ConfigMap or Secret in spec.configRefs, by the engine. A request is for one such
// object: its name is KIND/NAME.
type restarter struct {
	client   client.Client
	config   *configReader
	engine   *rollout.Engine
	metrics  *monitoring.Metrics
	debounce time.Duration
}

// Reconcile implements reconcile.Reconciler.
func (r *restarter) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	kind, name, _ := strings.Cut(req.Name, "/")
	key := client.ObjectKey{Namespace: req.Namespace, Name: name}
	owner := rollout.Owner{Prefix: rollout.ConfigMapPrefix, Namespace: req.Namespace, Name: name}
	if kind == kindSecret {
		owner.Prefix = rollout.SecretPrefix
	}
	version, publisher, err := r.config.find(ctx, kind, key) // before policy, which leaves out who lacks it
	if err != nil {
		return reconcile.Result{}, err
	}
	policy, resync, err := r.policy(ctx, req)
	if err != nil || policy.Selector == nil || publisher != "" {
		return reconcile.Result{RequeueAfter: resync}, err
	}
	object, err := r.object(ctx, owner, policy, kind, key, version)
	if err != nil || object == nil {
		return reconcile.Result{RequeueAfter: resync}, err
	}
	report, err := r.engine.Roll(ctx, owner, policy, []rollout.Object{*object})
	for range report.Restarted {
		r.metrics.ConfigChanged(monitoring.KindWebApp, key)
	}
	if report.Event != "" {
		log.FromContext(ctx).Info("restarting pods", "object", req.Name, "rollout", report.Event)
	}
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("restart pods for a change of %s %q: %w", kind, name, err)
	}
	return reconcile.Result{RequeueAfter: reconciler.Sooner(report.RequeueAfter, resync)}, nil
}

// policy selects the Deployments of the WebApps that refer to the object, are not paused and lack no other reference: without it
// their pods could not start. Its Selector is nil if there are none.
func (r *restarter) policy(ctx context.Context, req reconcile.Request) (p rollout.Policy, resync time.Duration, err error) {
	p = rollout.Policy{Discovery: rollout.Selector, Debounce: r.debounce, MinInterval: minInterval, MaxConcurrent: 1}
	apps, err := r.webAppsNaming(ctx, req.Namespace, req.Name)
	if err != nil {
		return p, 0, err
	}
	var names []string
	for i := range apps {
		app := &apps[i]
		if app.Spec.Paused || app.DeletionTimestamp != nil {
			continue
		}
		resync = r.config.resync(app)
		config, err := r.config.read(ctx, app)
		if err != nil {
			return p, 0, err
		}
		if configMissing(config) == nil {
			names = append(names, app.Name)
		}
	}
	if len(names) == 0 {
		return p, resync, nil
	}
	named, err := k8slabels.NewRequirement(labelOwnerName, selection.In, names)
	if err != nil {
		return p, 0, fmt.Errorf("select Deployments of WebApps: %w", err)
	}
	p.Selector = k8slabels.SelectorFromSet(k8slabels.Set{labelOwnerKind: ownerKind}).Add(*named)
	return p, resync, nil
}

// object is the ConfigMap or Secret for the engine; nil if all pods run its contents, or the cache is out of date.
func (r *restarter) object(ctx context.Context, owner rollout.Owner, policy rollout.Policy, kind string, key client.ObjectKey, version string) (*rollout.Object, error) {
	known, noted, err := r.engine.AllRunning(ctx, owner, policy, rollout.Object{Kind: kind, Target: key.Name, Name: key.Name, Version: version})
	if err != nil || known {
		return nil, err
	}
	found, err := r.config.contentsOf(ctx, kind, key, version, noted)
	if err != nil {
		return nil, err
	}
	return objectOf(kind, key.Name, version, found), nil
}

// objectOf returns an object that the cache has at a version, "" if it does not exist. It is nil if the cache does not show yet that
// Fettle publishes the object, or that it was deleted: pods do not restart without what they need.
func objectOf(kind, name, version string, found contents) *rollout.Object {
	if found.publisher != "" || version != "" && found.version == "" {
		return nil
	}
	o := &rollout.Object{Kind: kind, Target: name, Name: name, Version: found.version, Exists: found.version != ""}
	if o.Exists {
		o.Data = found.values
	}
	if !found.changedAt.IsZero() {
		o.PublishedAt = rollout.PublishedAt("", true, true, found.changedAt)
	}
	return o
}

// watches triggers the restarter by changes of an object, of a WebApp that refers to it, and of its Deployment.
func (r *restarter) watches(mgr ctrl.Manager, watchSecrets bool) *builder.Builder {
	b := ctrl.NewControllerManagedBy(mgr).
		Named(controllerName+"-config").
		Watches(&appsv1.WebApp{}, handler.EnqueueRequestsFromMapFunc(refsOf), builder.WithPredicates(predicate.GenerationChangedPredicate{})).
		Watches(&configv1.AppConfig{}, handler.EnqueueRequestsFromMapFunc(r.webAppsUsing(kindAppConfig)), builder.WithPredicates(publishedChanged)).
		WatchesMetadata(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.webAppsUsing(kindConfigMap)))
	if watchSecrets {
		b.WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.webAppsUsing(kindSecret)))
	}
	return r.engine.Watch(b, func(ctx context.Context, w *rollout.Workload) []reconcile.Request {
		if w.Kind != rollout.Deployment || w.Labels[labelOwnerKind] != ownerKind {
			return nil
		}
		app := &appsv1.WebApp{}
		if err := r.client.Get(ctx, client.ObjectKey{Namespace: w.Namespace, Name: w.Labels[labelOwnerName]}, app, client.UnsafeDisableDeepCopy); err != nil {
			return nil // it is gone, and its Deployment goes
		}
		return refsOf(ctx, app)
	})
}

// webAppsUsing returns requests for all references of the WebApps that refer to an object: a missing one delays the restarts for the
// others.
func (r *restarter) webAppsUsing(kind string) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		apps, err := r.webAppsNaming(ctx, obj.GetNamespace(), kind+"/"+obj.GetName())
		if err != nil {
			log.FromContext(ctx).Error(err, "failed to find the WebApps of an event")
		}
		var requests []reconcile.Request
		for i := range apps {
			requests = append(requests, refsOf(ctx, &apps[i])...)
		}
		return requests
	}
}

// webAppsNaming returns the WebApps that list an object in spec.configRefs. It reads the cache, which fails only while it is
// stopped.
func (r *restarter) webAppsNaming(ctx context.Context, namespace, ref string) ([]appsv1.WebApp, error) {
	apps := &appsv1.WebAppList{}
	err := r.client.List(ctx, apps, client.InNamespace(namespace), client.MatchingFields{indexConfigRefs: ref}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return nil, fmt.Errorf("list WebApps: %w", err)
	}
	return apps.Items, nil
}

// refsOf returns requests for the ConfigMaps and Secrets of a WebApp.
func refsOf(_ context.Context, app client.Object) []reconcile.Request {
	var requests []reconcile.Request
	for _, ref := range app.(*appsv1.WebApp).Spec.ConfigRefs {
		if ref.Kind != kindAppConfig {
			requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: app.GetNamespace(), Name: refKey(ref)}})
		}
	}
	return requests
}
