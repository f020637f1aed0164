package webapp

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/optionalapi"
)

// publication is the observed state of the Service, the Ingress and the HTTPRoute.
type publication struct {
	// service and ingress are nil if there is none, or if another owner has it.
	service *corev1.Service
	ingress *networkingv1.Ingress
	// classMissing and secretMissing are true if the object of spec.ingress.className or tlsSecretName does not exist.
	classMissing, secretMissing bool
	// certificate is that of spec.ingress.certIssuer; nil before cert-manager created it.
	certificate *certificate
	// route is nil if there is none, if another owner has it, or if it is older than the last write.
	route *route
	// gateways are the existing Gateways of spec.gateway in watched namespaces.
	gateways []gateway
}

// certificate is the part of cert-manager's Certificate that says whether it can be used.
type certificate struct {
	Status struct {
		Conditions []metav1.Condition `json:"conditions"`
	} `json:"status"`
}

// route is the part of an HTTPRoute with the answers of the Gateways.
type route struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Status   struct {
		Parents []struct {
			ParentRef  appsv1.GatewayRef  `json:"parentRef"`
			Conditions []metav1.Condition `json:"conditions"`
		} `json:"parents"`
	} `json:"status"`
}

// published returns the state of the Ingress and the HTTPRoute: the first that is False, otherwise the first that is Unknown.
func published(app *appsv1.WebApp, in inputs, seen observed) conditionState {
	var found []conditionState
	if app.Spec.Gateway != nil {
		found = append(found, routePublished(app, in, seen))
	}
	if app.Spec.Ingress != nil {
		found = append(found, ingressPublished(app, in, seen))
	}
	for _, status := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown} {
		if i := slices.IndexFunc(found, func(v conditionState) bool { return v.status == status }); i >= 0 {
			return found[i]
		}
	}
	return yes(appsv1.ReasonPublished, "published by all of spec.ingress and spec.gateway")
}

// ingressPublished checks the references of the Ingress before its address, since an address stays while the certificate is missing.
// It checks the class after the address: some controllers accept a class without an IngressClass.
func ingressPublished(app *appsv1.WebApp, in inputs, seen observed) conditionState {
	want, is := app.Spec.Ingress, seen.publication
	switch {
	case want.CertIssuer != nil && in.missing[optionalapi.Certificate.Kind]:
		return no(appsv1.ReasonAPIMissing, "spec.ingress.certIssuer: the cluster has no cert-manager (cert-manager.io/v1): install it, or set tlsSecretName")
	case is.ingress == nil && seen.applyErr != nil:
		return unknown(fettlev1.ReasonReconciling, "the Ingress does not exist")
	case is.secretMissing:
		return no(appsv1.ReasonTLSSecretMissing, fmt.Sprintf(
			"spec.ingress.tlsSecretName: Secret %q does not exist in namespace %q: create it (kubectl create secret tls), or set certIssuer",
			want.TLSSecretName, app.Namespace))
	case want.CertIssuer != nil && !certificateReady(is.certificate):
		return certificateProblem(app, is.certificate)
	case is.ingress != nil && addressOf(is.ingress) != "":
		return yes(appsv1.ReasonPublished, "")
	case is.classMissing:
		return no(appsv1.ReasonIngressClassMissing, fmt.Sprintf(
			"spec.ingress.className: IngressClass %q does not exist: use one of kubectl get ingressclass, or install its ingress controller", want.ClassName))
	}
	return unknown(appsv1.ReasonAddressPending, fmt.Sprintf("no ingress controller has set the address of Ingress %q%s. "+
		"Ready does not wait for it, since some controllers never set it; status.url does", app.Name, classAdvice(is.ingress)))
}

func classAdvice(live *networkingv1.Ingress) string {
	switch {
	case live == nil:
		return ""
	case live.Spec.IngressClassName != nil:
		return fmt.Sprintf(": check that the controller of class %q runs and publishes its address", *live.Spec.IngressClassName)
	default:
		return ": it has no class, and the cluster has no default class; set spec.ingress.className unless your controller accepts an Ingress without a class"
	}
}

func certificateReady(c *certificate) bool {
	return c != nil && meta.IsStatusConditionTrue(c.Status.Conditions, "Ready")
}

// certificateProblem says why a certificate can't be used: cert-manager is issuing it, or failed and will retry.
func certificateProblem(app *appsv1.WebApp, c *certificate) conditionState {
	name := tlsSecret(app)
	if c == nil {
		return no(appsv1.ReasonCertificatePending, fmt.Sprintf("cert-manager has not created Certificate %q yet: check that its ingress-shim runs", name))
	}
	ready := meta.FindStatusCondition(c.Status.Conditions, "Ready")
	issuing := cmp.Or(meta.FindStatusCondition(c.Status.Conditions, "Issuing"), &metav1.Condition{})
	if ready == nil || issuing.Status == metav1.ConditionTrue {
		return no(appsv1.ReasonCertificatePending, fmt.Sprintf("Certificate %q is being issued: %s; check kubectl describe certificate %s", name, issuing.Message, name))
	}
	return no(appsv1.ReasonCertificateFailed, fmt.Sprintf("Certificate %q: %s %s; check kubectl describe certificate %s", name, ready.Message, issuing.Message, name))
}

// addressOf is the first address that an ingress controller has set; "" if there is none.
func addressOf(i *networkingv1.Ingress) string {
	for _, a := range i.Status.LoadBalancer.Ingress {
		if address := cmp.Or(a.Hostname, a.IP); address != "" {
			return address
		}
	}
	return ""
}

func routePublished(app *appsv1.WebApp, in inputs, seen observed) conditionState {
	switch {
	case in.missing[optionalapi.HTTPRoute.Kind]:
		return no(appsv1.ReasonAPIMissing, "spec.gateway: the cluster has no HTTPRoute API (gateway.networking.k8s.io/v1): install the Gateway API, or use spec.ingress")
	case seen.publication.route == nil && seen.applyErr != nil:
		return unknown(fettlev1.ReasonReconciling, "the HTTPRoute does not exist")
	}
	for _, ref := range app.Spec.Gateway.ParentRefs {
		if v := acceptedBy(app, seen.publication.route, ref); v.status != metav1.ConditionTrue {
			return v
		}
	}
	return yes(appsv1.ReasonPublished, "")
}

// acceptedBy is the answer of a Gateway's controllers to the route. One controller that accepts it is enough.
func acceptedBy(app *appsv1.WebApp, r *route, ref appsv1.GatewayRef) conditionState {
	gateway := fmt.Sprintf("Gateway %q in namespace %q", ref.Name, cmp.Or(ref.Namespace, app.Namespace))
	pending := no(appsv1.ReasonRoutePending, fmt.Sprintf("%s has not accepted the HTTPRoute yet: check that the Gateway exists and that the controller of its class runs", gateway))
	if r == nil {
		return pending
	}
	v := pending
	for _, parent := range r.Status.Parents {
		if !sameGateway(app, parent.ParentRef, ref) {
			continue
		}
		accepted, bad := routeConditions(parent.Conditions, r.Metadata.Generation)
		switch {
		case bad != nil:
			v = no(appsv1.ReasonRouteNotAccepted, fmt.Sprintf("%s: %s is %s (%s): %s", gateway, bad.Type, bad.Status, bad.Reason, bad.Message))
		case accepted:
			return yes(appsv1.ReasonPublished, "")
		}
	}
	return v
}

func sameGateway(app *appsv1.WebApp, a, b appsv1.GatewayRef) bool {
	return a.Name == b.Name && a.SectionName == b.SectionName && cmp.Or(a.Namespace, app.Namespace) == cmp.Or(b.Namespace, app.Namespace)
}

// routeConditions reports whether a route of that generation is accepted, and the condition that says that it is not or that a
// reference is not resolved. Conditions of an earlier generation are ignored.
func routeConditions(conds []metav1.Condition, generation int64) (accepted bool, bad *metav1.Condition) {
	for i := range conds {
		c := &conds[i]
		if c.ObservedGeneration != 0 && c.ObservedGeneration < generation {
			continue
		}
		switch {
		case c.Type == "Accepted" && c.Status == metav1.ConditionTrue:
			accepted = true
		case (c.Type == "Accepted" || c.Type == "ResolvedRefs") && c.Status == metav1.ConditionFalse:
			return false, c
		}
	}
	return accepted, nil
}
