package webapp

import (
	"cmp"
	"context"
	"fmt"

	k8sappsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	configv1 "github.com/fettle-dev/fettle/api/config/v1"
)

// Indexes of the WebApps that an event concerns.
const (
	indexConfigRefs = "spec.configRefs"
	indexOptional   = "optionalAPIs"
	indexOwner      = "owner"
	indexScales     = "scales"
	indexClass      = "spec.ingress.className"
	indexTLS        = "tlsSecret"
	indexGateways   = "spec.gateway.parentRefs"
)

// watches sets the triggers of the controller. Owned objects have no predicate, since readiness is in their status. The WebApp has
// none either: a status that another client removed is written again, and the reconcile after Fettle's own write changes nothing.
func (r *Reconciler) watches(mgr ctrl.Manager, opts Options) *builder.Builder {
	b := ctrl.NewControllerManagedBy(mgr).
		Named(controllerName).
		For(&appsv1.WebApp{}).
		Owns(&k8sappsv1.Deployment{}).
		Owns(&k8sappsv1.ControllerRevision{}).
		Owns(&corev1.Service{}).
		Owns(&networkingv1.Ingress{}).
		Owns(&networkingv1.NetworkPolicy{}).
		Owns(&autoscalingv2.HorizontalPodAutoscaler{}).
		Owns(&policyv1.PodDisruptionBudget{}).
		Watches(&autoscalingv1.HorizontalPodAutoscaler{}, handler.EnqueueRequestsFromMapFunc(webAppOfScaler), builder.WithPredicates(scalingChanged)).
		Watches(&corev1.Pod{}, handler.EnqueueRequestsFromMapFunc(ownerOfPod)).
		WatchesMetadata(&corev1.ConfigMap{}, handler.EnqueueRequestsFromMapFunc(r.webAppsUsing(kindConfigMap))).
		Watches(&configv1.AppConfig{}, handler.EnqueueRequestsFromMapFunc(r.webAppsUsing(kindAppConfig)), builder.WithPredicates(publishedChanged)).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.webAppsInNamespace),
			builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WatchesMetadata(&networkingv1.IngressClass{}, handler.EnqueueRequestsFromMapFunc(r.webAppsOfClass), builder.WithPredicates(comesOrGoes))
	r.apis.Trigger(b, func(ctx context.Context, kind string) []reconcile.Request {
		return r.list(ctx, client.MatchingFields{indexOptional: kind})
	})
	if opts.WatchSecrets {
		b.WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.webAppsUsing(kindSecret)))
		b.WatchesMetadata(&corev1.Secret{}, handler.EnqueueRequestsFromMapFunc(r.webAppsWithTLS), builder.WithPredicates(comesOrGoes))
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
		{&appsv1.WebApp{}, indexConfigRefs, func(o client.Object) []string {
			var keys []string
			for _, ref := range o.(*appsv1.WebApp).Spec.ConfigRefs {
				keys = append(keys, refKey(ref))
			}
			return keys
		}},
		{&appsv1.WebApp{}, indexOptional, func(o client.Object) []string { return optionalKinds(o.(*appsv1.WebApp)) }},
		{&appsv1.WebApp{}, indexClass, ofIngress(func(app *appsv1.WebApp) string { return app.Spec.Ingress.ClassName })},
		{&appsv1.WebApp{}, indexTLS, ofIngress(tlsSecret)},
		{&appsv1.WebApp{}, indexGateways, func(o client.Object) []string {
			app, keys := o.(*appsv1.WebApp), []string{}
			if app.Spec.Gateway != nil {
				for _, ref := range app.Spec.Gateway.ParentRefs {
					keys = append(keys, cmp.Or(ref.Namespace, app.Namespace)+"/"+ref.Name)
				}
			}
			return keys
		}},
		{&corev1.Pod{}, indexOwner, func(o client.Object) []string {
			if o.GetLabels()[labelOwnerKind] != ownerKind {
				return nil
			}
			return []string{o.GetLabels()[labelOwnerName]}
		}},
		{&autoscalingv1.HorizontalPodAutoscaler{}, indexScales, func(o client.Object) []string {
			if name := scaledDeployment(o.(*autoscalingv1.HorizontalPodAutoscaler)); name != "" {
				return []string{name}
			}
			return nil
		}},
	} {
		if err := indexer.IndexField(ctx, ix.object, ix.field, ix.values); err != nil {
			return fmt.Errorf("index %T by %s: %w", ix.object, ix.field, err)
		}
	}
	return nil
}

// ofIngress indexes WebApps by the references of their Ingress.
func ofIngress(name func(*appsv1.WebApp) string) client.IndexerFunc {
	return func(o client.Object) []string {
		app := o.(*appsv1.WebApp)
		if app.Spec.Ingress == nil || name(app) == "" {
			return nil
		}
		return []string{name(app)}
	}
}

// comesOrGoes is for objects of which only the existence matters.
var comesOrGoes = predicate.Funcs{UpdateFunc: func(event.UpdateEvent) bool { return false }}

// scalingChanged drops the bookkeeping of an autoscaler, which changes every few seconds.
var scalingChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	was, is := e.ObjectOld.(*autoscalingv1.HorizontalPodAutoscaler), e.ObjectNew.(*autoscalingv1.HorizontalPodAutoscaler)
	return !equality.Semantic.DeepEqual(was.Spec, is.Spec) || !equality.Semantic.DeepEqual(was.OwnerReferences, is.OwnerReferences)
}}

// publishedChanged passes the updates of an AppConfig that publish something.
var publishedChanged = predicate.Funcs{UpdateFunc: func(e event.UpdateEvent) bool {
	was, is := e.ObjectOld.(*configv1.AppConfig), e.ObjectNew.(*configv1.AppConfig)
	return (was.Status.ConfigMapName == "") != (is.Status.ConfigMapName == "")
}}

func ownerOfPod(_ context.Context, pod client.Object) []reconcile.Request {
	l := pod.GetLabels()
	if l[labelOwnerKind] != ownerKind || l[labelOwnerName] == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: pod.GetNamespace(), Name: l[labelOwnerName]}}}
}

func (r *Reconciler) webAppsUsing(kind string) handler.MapFunc {
	return func(ctx context.Context, obj client.Object) []reconcile.Request {
		return r.list(ctx, client.InNamespace(obj.GetNamespace()), client.MatchingFields{indexConfigRefs: kind + "/" + obj.GetName()})
	}
}

func (r *Reconciler) webAppsOfClass(ctx context.Context, class client.Object) []reconcile.Request {
	return r.list(ctx, client.MatchingFields{indexClass: class.GetName()})
}

func (r *Reconciler) webAppsWithTLS(ctx context.Context, secret client.Object) []reconcile.Request {
	return r.list(ctx, client.InNamespace(secret.GetNamespace()), client.MatchingFields{indexTLS: secret.GetName()})
}

// webAppsOfCertificate uses the name of the Secret, which is that of the Certificate.
func (r *Reconciler) webAppsOfCertificate(ctx context.Context, certificate *unstructured.Unstructured) []reconcile.Request {
	return r.webAppsWithTLS(ctx, certificate)
}

func (r *Reconciler) webAppsOfGateway(ctx context.Context, gateway *unstructured.Unstructured) []reconcile.Request {
	return r.list(ctx, client.MatchingFields{indexGateways: gateway.GetNamespace() + "/" + gateway.GetName()})
}

func (r *Reconciler) webAppsInNamespace(ctx context.Context, ns client.Object) []reconcile.Request {
	return r.list(ctx, client.InNamespace(ns.GetName()))
}

// list returns requests for the matching WebApps. It reads the cache, which fails only while it is stopped.
func (r *Reconciler) list(ctx context.Context, opts ...client.ListOption) []reconcile.Request {
	apps := &appsv1.WebAppList{}
	if err := r.client.List(ctx, apps, append(opts, client.UnsafeDisableDeepCopy)...); err != nil {
		log.FromContext(ctx).Error(err, "failed to list the WebApps of an event")
		return nil
	}
	requests := make([]reconcile.Request, 0, len(apps.Items))
	for i := range apps.Items {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKeyFromObject(&apps.Items[i])})
	}
	return requests
}
