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
	certificate, gateway := optionalapi.Certificate, optionalapi.Gateway
	certificate.Concerned, gateway.Concerned = r.webAppsOfCertificate, r.webAppsOfGateway
	gateway.Predicates = []predicate.TypedPredicate[*unstructured.Unstructured]{gatewayChanged}
	return []optionalapi.API{optionalapi.HTTPRoute, optionalapi.ServiceMonitor, certificate, gateway}
}

// optionalKinds are the kinds of optional APIs that app uses.
func optionalKinds(app *appsv1.WebApp) []string {
	var kinds []string
	if app.Spec.Gateway != nil {
		kinds = append(kinds, optionalapi.HTTPRoute.Kind, optionalapi.Gateway.Kind)
	}
	if app.Spec.Monitoring != nil {
		kinds = append(kinds, optionalapi.ServiceMonitor.Kind)
	}
	if app.Spec.Ingress != nil && app.Spec.Ingress.CertIssuer != nil {
		kinds = append(kinds, optionalapi.Certificate.Kind)
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
