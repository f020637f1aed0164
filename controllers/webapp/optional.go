package webapp

import (
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/optionalapi"
)

// optionalAPIs are the APIs that a cluster may lack. HTTPRoutes and ServiceMonitors are children.
func (r *Reconciler) optionalAPIs() []optionalapi.API {
	return []optionalapi.API{
		{Definition: "httproutes.gateway.networking.k8s.io", GroupVersionKind: httpRouteGVK},
		{Definition: "servicemonitors.monitoring.coreos.com", GroupVersionKind: serviceMonitorGVK},
		{Definition: "certificates.cert-manager.io", GroupVersionKind: certificateGVK, Concerned: r.webAppsOfCertificate},
		{Definition: "gateways.gateway.networking.k8s.io", GroupVersionKind: gatewayGVK, Concerned: r.webAppsOfGateway,
			Predicates: []predicate.TypedPredicate[*unstructured.Unstructured]{gatewayChanged}},
	}
}

// optionalKinds are the kinds of optional APIs that app uses.
func optionalKinds(app *appsv1.WebApp) []string {
	var kinds []string
	if app.Spec.Gateway != nil {
		kinds = append(kinds, kindHTTPRoute, kindGateway)
	}
	if app.Spec.Monitoring != nil {
		kinds = append(kinds, kindServiceMonitor)
	}
	if app.Spec.Ingress != nil && app.Spec.Ingress.CertIssuer != nil {
		kinds = append(kinds, kindCertificate)
	}
	return kinds
}

// gatewayChanged drops updates of a Gateway that only change the number of attached routes in its status.
var gatewayChanged = predicate.TypedFuncs[*unstructured.Unstructured]{
	UpdateFunc: func(e event.TypedUpdateEvent[*unstructured.Unstructured]) bool {
		was, _, _ := unstructured.NestedSlice(e.ObjectOld.Object, "status", "addresses")
		is, _, _ := unstructured.NestedSlice(e.ObjectNew.Object, "status", "addresses")
		return e.ObjectOld.GetGeneration() != e.ObjectNew.GetGeneration() || !equality.Semantic.DeepEqual(was, is)
	},
}
