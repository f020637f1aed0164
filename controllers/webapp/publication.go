package webapp

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	k8slabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/optionalapi"
)

func service(app *appsv1.WebApp) *corev1ac.ServiceApplyConfiguration {
	spec := corev1ac.ServiceSpec().
		WithType(app.Spec.Service.Type).
		WithSelector(selector(app)).
		WithPorts(corev1ac.ServicePort().
			WithName(mainPort).WithProtocol("TCP").WithPort(servicePort(app)).WithTargetPort(intstr.FromString(mainPort)))
	for _, p := range app.Spec.Service.ExtraPorts {
		spec.WithPorts(corev1ac.ServicePort().
			WithName(p.Name).WithProtocol("TCP").WithPort(p.Port).WithTargetPort(intstr.FromString(targetPort(app, p))))
	}
	return corev1ac.Service(app.Name, app.Namespace).
		WithLabels(labels(app)).
		WithAnnotations(app.Spec.Service.Annotations).
		WithSpec(spec)
}

func servicePort(app *appsv1.WebApp) int32 {
	if p := app.Spec.Service.Port; p != 0 {
		return p
	}
	return app.Spec.Port
}

// targetPort is the name of the container port of an extra port of the Service.
func targetPort(app *appsv1.WebApp, p appsv1.WebAppPort) string {
	number := cmp.Or(p.TargetPort, p.Port)
	ports := containerPorts(app)
	return ports[slices.IndexFunc(ports, func(q namedPort) bool { return q.number == number })].name
}

// publication is the observed state of the Service, the Ingress and the HTTPRoute.
type publication struct {
	// service and ingress are nil if there is none, or if another owner has it.
	service *corev1.Service
	ingress *networkingv1.Ingress
	// classMissing is true if the object of spec.ingress.className does not exist.
	classMissing bool
	// missingSecret is the first Secret with a certificate that does not exist; "" if all do.
	missingSecret string
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

// gateway is the part of a Gateway that determines the URL of a route.
type gateway struct {
	Metadata metav1.ObjectMeta `json:"metadata"`
	Spec     struct {
		Listeners []listener `json:"listeners"`
	} `json:"spec"`
	Status struct {
		Addresses []struct {
			Value string `json:"value"`
		} `json:"addresses"`
	} `json:"status"`
}

type listener struct {
	Name          string `json:"name"`
	Hostname      string `json:"hostname"`
	Port          int32  `json:"port"`
	Protocol      string `json:"protocol"`
	AllowedRoutes struct {
		Namespaces struct {
			From     string                `json:"from"`
			Selector *metav1.LabelSelector `json:"selector"`
		} `json:"namespaces"`
	} `json:"allowedRoutes"`
}

// observePublication reads the objects of spec.ingress and spec.gateway from the cache.
func (r *Reconciler) observePublication(ctx context.Context, app *appsv1.WebApp, missing map[string]bool) (publication, error) {
	var p publication
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name}}
	found, current, err := r.Applier.Get(ctx, service)
	if err != nil {
		return p, fmt.Errorf("get Service: %w", err)
	}
	if serviceExists(app, service, found, current) {
		p.service = service
	}
	if app.Spec.Ingress != nil {
		if err := r.observeIngress(ctx, app, missing, &p); err != nil {
			return p, err
		}
	}
	if app.Spec.Gateway != nil && !missing[optionalapi.HTTPRoute.Kind] {
		if err := r.observeRoute(ctx, app, missing, &p); err != nil {
			return p, err
		}
	}
	return p, nil
}

// serviceExists reports whether the Service exists and belongs to app. A Service that was just written counts although the cache
// does not show it yet. A status without it would cost another write.
func serviceExists(app *appsv1.WebApp, service *corev1.Service, found, current bool) bool {
	return !current || found && metav1.IsControlledBy(service, app)
}

func (r *Reconciler) observeIngress(ctx context.Context, app *appsv1.WebApp, missing map[string]bool, p *publication) error {
	ingress := &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name}}
	found, _, err := r.Applier.Get(ctx, ingress)
	if err != nil {
		return fmt.Errorf("get Ingress: %w", err)
	}
	if found && metav1.IsControlledBy(ingress, app) {
		p.ingress = ingress
	}
	want := app.Spec.Ingress
	if want.ClassName != "" {
		class := &metav1.PartialObjectMetadata{}
		class.SetGroupVersionKind(networkingv1.SchemeGroupVersion.WithKind("IngressClass"))
		err := r.Client.Get(ctx, client.ObjectKey{Name: want.ClassName}, class)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("get IngressClass %q: %w", want.ClassName, err)
		}
		p.classMissing = err != nil
	}
	if want.CertIssuer == nil && r.config.watchSecrets { // their contents are of no interest, and else they would have to be read with them
		if p.missingSecret, err = r.missingTLSSecret(ctx, app); err != nil {
			return err
		}
	}
	if want.CertIssuer != nil && !missing[optionalapi.Certificate.Kind] {
		return r.observeCertificate(ctx, app, p)
	}
	return nil
}

// missingTLSSecret is the first Secret with a certificate that does not exist; "" if all do.
func (r *Reconciler) missingTLSSecret(ctx context.Context, app *appsv1.WebApp) (string, error) {
	for _, name := range tlsSecrets(app) {
		version, _, err := r.config.find(ctx, kindSecret, client.ObjectKey{Namespace: app.Namespace, Name: name})
		if err != nil || version == "" {
			return name, err
		}
	}
	return "", nil
}

func (r *Reconciler) observeCertificate(ctx context.Context, app *appsv1.WebApp, p *publication) error {
	u := optionalapi.Certificate.Object(app)
	u.SetName(tlsSecret(app)) // as cert-manager's ingress-shim names it
	if err := r.apis.Objects.Get(ctx, client.ObjectKeyFromObject(u), u, client.UnsafeDisableDeepCopy); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("get Certificate %q: %w", u.GetName(), err)
	}
	p.certificate = &certificate{}
	return decode(u, p.certificate)
}

// decode converts u into a type with the needed part of its kind.
func decode(u *unstructured.Unstructured, out any) error {
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, out); err != nil {
		return fmt.Errorf("read %s %q: %w", u.GetKind(), u.GetName(), err)
	}
	return nil
}

func (r *Reconciler) observeRoute(ctx context.Context, app *appsv1.WebApp, missing map[string]bool, p *publication) error {
	u := optionalapi.HTTPRoute.Object(app)
	found, current, err := r.Applier.Get(ctx, u)
	if err != nil {
		return fmt.Errorf("get HTTPRoute: %w", err)
	}
	if found && current && metav1.IsControlledBy(u, app) {
		p.route = &route{}
		if err := decode(u, p.route); err != nil {
			return err
		}
	}
	if missing[optionalapi.Gateway.Kind] {
		return nil
	}
	// Listed, since a cache that is restricted to namespaces returns an error for a name in another namespace.
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(optionalapi.Gateway.GroupVersionKind)
	if err := r.apis.Objects.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
		return fmt.Errorf("list Gateways: %w", err)
	}
	for i := range list.Items {
		if !namesGateway(app, &list.Items[i]) {
			continue
		}
		var g gateway
		if err := decode(&list.Items[i], &g); err != nil {
			return err
		}
		p.gateways = append(p.gateways, g)
	}
	return nil
}

// namesGateway reports whether app's route names the Gateway.
func namesGateway(app *appsv1.WebApp, g client.Object) bool {
	for _, ref := range app.Spec.Gateway.ParentRefs {
		if sameGateway(app, appsv1.GatewayRef{Name: ref.Name, Namespace: ref.Namespace}, appsv1.GatewayRef{Name: g.GetName(), Namespace: g.GetNamespace()}) {
			return true
		}
	}
	return false
}

// published returns the state of the Ingress and the HTTPRoute: the first that is False, otherwise the first that is Unknown.
func published(app *appsv1.WebApp, in inputs, seen observed) conditions.State {
	var found []conditions.State
	if app.Spec.Gateway != nil {
		found = append(found, routePublished(app, in, seen))
	}
	if app.Spec.Ingress != nil {
		found = append(found, ingressPublished(app, in, seen))
	}
	for _, status := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown} {
		if i := slices.IndexFunc(found, func(v conditions.State) bool { return v.Status == status }); i >= 0 {
			return found[i]
		}
	}
	return conditions.True(appsv1.ReasonPublished, "published by all of spec.ingress and spec.gateway")
}

// ingressPublished checks the references of the Ingress before its address, since an address stays while the certificate is missing.
// It checks the class after the address: some controllers accept a class without an IngressClass.
func ingressPublished(app *appsv1.WebApp, in inputs, seen observed) conditions.State {
	want, is := app.Spec.Ingress, seen.publication
	switch {
	case want.CertIssuer != nil && in.apis.Missing[optionalapi.Certificate.Kind]:
		return conditions.False(appsv1.ReasonAPIMissing, "spec.ingress.certIssuer: the cluster has no cert-manager (cert-manager.io/v1): install it, or set tlsSecretName")
	case is.ingress == nil && seen.applyErr != nil:
		return conditions.Unknown(fettlev1.ReasonReconciling, "the Ingress does not exist")
	case is.missingSecret != "":
		return conditions.False(appsv1.ReasonTLSSecretMissing, fmt.Sprintf(
			"spec.ingress.tlsSecretName: Secret %q does not exist in namespace %q: create it (kubectl create secret tls), or set certIssuer",
			is.missingSecret, app.Namespace))
	case want.CertIssuer != nil && !certificateReady(is.certificate):
		return certificateProblem(app, is.certificate)
	case is.ingress != nil && addressOf(is.ingress) != "":
		return conditions.True(appsv1.ReasonPublished, "")
	case is.classMissing:
		return conditions.False(appsv1.ReasonIngressClassMissing, fmt.Sprintf(
			"spec.ingress.className: IngressClass %q does not exist: use one of kubectl get ingressclass, or install its ingress controller", want.ClassName))
	}
	return conditions.Unknown(appsv1.ReasonAddressPending, fmt.Sprintf("no ingress controller has set the address of Ingress %q%s. "+
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
func certificateProblem(app *appsv1.WebApp, c *certificate) conditions.State {
	name := tlsSecret(app)
	if c == nil {
		return conditions.False(appsv1.ReasonCertificatePending, fmt.Sprintf("cert-manager has not created Certificate %q yet: check that its ingress-shim runs", name))
	}
	ready := meta.FindStatusCondition(c.Status.Conditions, "Ready")
	issuing := cmp.Or(meta.FindStatusCondition(c.Status.Conditions, "Issuing"), &metav1.Condition{})
	if ready == nil || issuing.Status == metav1.ConditionTrue {
		return conditions.False(appsv1.ReasonCertificatePending, fmt.Sprintf("Certificate %q is being issued: %s; check kubectl describe certificate %s", name, issuing.Message, name))
	}
	return conditions.False(appsv1.ReasonCertificateFailed, fmt.Sprintf("Certificate %q: %s %s; check kubectl describe certificate %s", name, ready.Message, issuing.Message, name))
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

func routePublished(app *appsv1.WebApp, in inputs, seen observed) conditions.State {
	switch {
	case in.apis.Missing[optionalapi.HTTPRoute.Kind]:
		return conditions.False(appsv1.ReasonAPIMissing, "spec.gateway: the cluster has no HTTPRoute API (gateway.networking.k8s.io/v1): install the Gateway API, or use spec.ingress")
	case seen.publication.route == nil && seen.applyErr != nil:
		return conditions.Unknown(fettlev1.ReasonReconciling, "the HTTPRoute does not exist")
	}
	for _, ref := range app.Spec.Gateway.ParentRefs {
		if v := acceptedBy(app, seen.publication.route, ref); v.Status != metav1.ConditionTrue {
			return v
		}
	}
	return conditions.True(appsv1.ReasonPublished, "")
}

// acceptedBy is the answer of a Gateway's controllers to the route. One controller that accepts it is enough.
func acceptedBy(app *appsv1.WebApp, r *route, ref appsv1.GatewayRef) conditions.State {
	gateway := fmt.Sprintf("Gateway %q in namespace %q", ref.Name, cmp.Or(ref.Namespace, app.Namespace))
	pending := conditions.False(appsv1.ReasonRoutePending, fmt.Sprintf("%s has not accepted the HTTPRoute yet: check that the Gateway exists and that the controller of its class runs", gateway))
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
			v = conditions.False(appsv1.ReasonRouteNotAccepted, fmt.Sprintf("%s: %s is %s (%s): %s", gateway, bad.Type, bad.Status, bad.Reason, bad.Message))
		case accepted:
			return conditions.True(appsv1.ReasonPublished, "")
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

const schemeHTTP, schemeHTTPS = "http", "https"

// url is the address of the application; "" if it is unknown.
func url(app *appsv1.WebApp, in inputs, seen observed) string {
	if app.Spec.Ingress == nil && app.Spec.Gateway == nil {
		return serviceURL(app, seen.publication.service)
	}
	if published(app, in, seen).Status != metav1.ConditionTrue {
		return ""
	}
	if at := ingressURL(app); at != "" || app.Spec.Gateway == nil {
		return at
	}
	for _, scheme := range []string{schemeHTTPS, schemeHTTP} {
		if at := gatewayURL(app, in, seen.publication.gateways, scheme); at != "" {
			return at + app.Spec.Gateway.Path
		}
	}
	return ""
}

// ingressURL is the URL of the first host without a wildcard; "" if there is none.
func ingressURL(app *appsv1.WebApp) string {
	if app.Spec.Ingress == nil {
		return ""
	}
	for _, h := range ingressHosts(app) {
		if wildcard(h.Host) {
			continue
		}
		scheme := schemeHTTP
		if h.TLSSecretName != "" {
			scheme = schemeHTTPS
		}
		return address(scheme, h.Host, 0) + h.Paths[0].Path
	}
	return ""
}

// serviceURL is the URL of the load balancer if the spec asks for one, otherwise the URL inside the cluster.
func serviceURL(app *appsv1.WebApp, s *corev1.Service) string {
	switch {
	case s == nil:
		return ""
	case app.Spec.Service.Type != corev1.ServiceTypeLoadBalancer:
		return address(schemeHTTP, fmt.Sprintf("%s.%s.svc", app.Name, app.Namespace), servicePort(app))
	}
	for _, a := range s.Status.LoadBalancer.Ingress {
		if host := cmp.Or(a.Hostname, a.IP); host != "" {
			return address(schemeHTTP, host, servicePort(app))
		}
	}
	return ""
}

// gatewayURL is the URL of the first listener of the scheme that serves the route by a specific name or address.
func gatewayURL(app *appsv1.WebApp, in inputs, gateways []gateway, scheme string) string {
	for _, ref := range app.Spec.Gateway.ParentRefs {
		for _, g := range gateways {
			if g.Metadata.Name != ref.Name || g.Metadata.Namespace != cmp.Or(ref.Namespace, app.Namespace) {
				continue
			}
			for _, l := range g.Spec.Listeners {
				if (ref.SectionName != "" && ref.SectionName != l.Name) || !strings.EqualFold(l.Protocol, scheme) || !admits(g, l, app, in.namespaceLabels) {
					continue
				}
				if host := hostOf(app.Spec.Gateway.Hostnames, g, l); host != "" {
					return address(scheme, host, l.Port)
				}
			}
		}
	}
	return ""
}

// admits reports whether a listener serves routes of app's namespace.
func admits(g gateway, l listener, app *appsv1.WebApp, namespace map[string]string) bool {
	switch from := l.AllowedRoutes.Namespaces; from.From {
	case "All":
		return true
	case "Selector":
		selector, err := metav1.LabelSelectorAsSelector(from.Selector)
		return err == nil && selector.Matches(k8slabels.Set(namespace))
	default:
		return g.Metadata.Namespace == app.Namespace
	}
}

// hostOf is a name that both the route and the listener serve. Without names it is the Gateway's address.
func hostOf(hostnames []string, g gateway, l listener) string {
	for _, h := range hostnames {
		if name := shared(h, l.Hostname); name != "" {
			return name
		}
	}
	switch {
	case len(hostnames) > 0 || wildcard(l.Hostname):
		return ""
	case l.Hostname != "":
		return l.Hostname
	case len(g.Status.Addresses) > 0:
		return g.Status.Addresses[0].Value
	}
	return ""
}

// shared is the name that both the route and the listener accept; "" if there is none, or not a single one. A listener without a
// name accepts any.
func shared(ofRoute, ofListener string) string {
	switch {
	case !wildcard(ofRoute) && (ofListener == "" || covers(ofListener, ofRoute)):
		return ofRoute
	case ofListener != "" && !wildcard(ofListener) && covers(ofRoute, ofListener):
		return ofListener
	}
	return ""
}

func wildcard(host string) bool { return strings.HasPrefix(host, "*") }

// covers reports whether host equals pattern, or is below it if pattern is a wildcard.
func covers(pattern, host string) bool {
	if suffix, ok := strings.CutPrefix(pattern, "*"); ok {
		return strings.HasSuffix(host, suffix) && host != suffix
	}
	return pattern == host
}

// address is a URL without a path, and without the port if it is 0 or the default of the scheme.
func address(scheme, host string, port int32) string {
	if port != 0 && port != map[string]int32{schemeHTTP: 80, schemeHTTPS: 443}[scheme] {
		return scheme + "://" + net.JoinHostPort(host, strconv.Itoa(int(port)))
	}
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return scheme + "://" + host
}
