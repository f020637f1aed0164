package webapp

import (
	"cmp"
	"context"

	k8sappsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	"github.com/fettle-dev/fettle/internal/reconciler"
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

// watch adds the triggers of the controller. Owned objects have no predicate, since readiness is in their status.
func (r *Reconciler) watch(b *builder.Builder) {
	b.Owns(&k8sappsv1.Deployment{}).
		Owns(&k8sappsv1.ControllerRevision{}).
		Owns(&corev1.Service{}).
		Owns(&networkingv1.Ingress{}).
		Owns(&networkingv1.NetworkPolicy{}).
		Owns(&autoscalingv2.HorizontalPodAutoscaler{}).
		Owns(&policyv1.PodDisruptionBudget{}).
		Watches(&autoscalingv1.HorizontalPodAutoscaler{}, handler.EnqueueRequestsFromMapFunc(webAppOfScaler), builder.WithPredicates(scalingChanged)).
		Watches(&corev1.Pod{}, r.EnqueueOwner()).
		WatchesMetadata(&corev1.ConfigMap{}, r.EnqueueBy(indexConfigRefs, kindConfigMap+"/")).
		Watches(&configv1.AppConfig{}, r.EnqueueBy(indexConfigRefs, kindAppConfig+"/"), builder.WithPredicates(publishedChanged)).
		WatchesMetadata(&corev1.Namespace{}, handler.EnqueueRequestsFromMapFunc(r.webAppsInNamespace),
			builder.WithPredicates(predicate.LabelChangedPredicate{})).
		WatchesMetadata(&networkingv1.IngressClass{}, handler.EnqueueRequestsFromMapFunc(r.webAppsOfClass), builder.WithPredicates(comesOrGoes))
	r.apis.Trigger(b, func(ctx context.Context, kind string) []reconcile.Request {
		return r.Requests(ctx, client.MatchingFields{indexOptional: kind})
	})
	if r.WatchSecrets {
		b.WatchesMetadata(&corev1.Secret{}, r.EnqueueBy(indexConfigRefs, kindSecret+"/")).
			WatchesMetadata(&corev1.Secret{}, r.EnqueueBy(indexTLS, ""), builder.WithPredicates(comesOrGoes))
	}
}

// indexes are those that the watches need.
var indexes = []reconciler.Index{
	{Object: &appsv1.WebApp{}, Field: indexConfigRefs, Values: func(o client.Object) []string {
		var keys []string
		for _, ref := range o.(*appsv1.WebApp).Spec.ConfigRefs {
			keys = append(keys, refKey(ref))
		}
		return keys
	}},
	{Object: &appsv1.WebApp{}, Field: indexOptional, Values: func(o client.Object) []string { return optionalKinds(o.(*appsv1.WebApp)) }},
	{Object: &appsv1.WebApp{}, Field: indexClass, Values: ofIngress(func(app *appsv1.WebApp) string { return app.Spec.Ingress.ClassName })},
	{Object: &appsv1.WebApp{}, Field: indexTLS, Values: ofIngress(tlsSecret)},
	{Object: &appsv1.WebApp{}, Field: indexGateways, Values: func(o client.Object) []string {
		app, keys := o.(*appsv1.WebApp), []string{}
		if app.Spec.Gateway != nil {
			for _, ref := range app.Spec.Gateway.ParentRefs {
				keys = append(keys, cmp.Or(ref.Namespace, app.Namespace)+"/"+ref.Name)
			}
		}
		return keys
	}},
	{Object: &corev1.Pod{}, Field: indexOwner, Values: reconciler.OwnerNames(ownerKind)},
	{Object: &autoscalingv1.HorizontalPodAutoscaler{}, Field: indexScales, Values: func(o client.Object) []string {
		if name := scaledDeployment(o.(*autoscalingv1.HorizontalPodAutoscaler)); name != "" {
			return []string{name}
		}
		return nil
	}},
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

func (r *Reconciler) webAppsOfClass(ctx context.Context, class client.Object) []reconcile.Request {
	return r.Requests(ctx, client.MatchingFields{indexClass: class.GetName()})
}

// webAppsOfCertificate uses the name of the Secret, which is that of the Certificate.
func (r *Reconciler) webAppsOfCertificate(ctx context.Context, certificate *unstructured.Unstructured) []reconcile.Request {
	return r.RequestsBy(ctx, certificate.GetNamespace(), indexTLS, certificate.GetName())
}

func (r *Reconciler) webAppsOfGateway(ctx context.Context, gateway *unstructured.Unstructured) []reconcile.Request {
	return r.Requests(ctx, client.MatchingFields{indexGateways: gateway.GetNamespace() + "/" + gateway.GetName()})
}

func (r *Reconciler) webAppsInNamespace(ctx context.Context, ns client.Object) []reconcile.Request {
	return r.Requests(ctx, client.InNamespace(ns.GetName()))
}
