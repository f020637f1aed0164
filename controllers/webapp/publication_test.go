package webapp

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
)

// observedAs reads what an API server would return as the type that has as much of it as is needed.
func observedAs[T any](t *testing.T, doc string) *T {
	t.Helper()
	u, out := &unstructured.Unstructured{}, new(T)
	if err := yaml.Unmarshal([]byte(doc), &u.Object); err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	if err := decode(u, out); err != nil {
		t.Fatal(err)
	}
	return out
}

// withIngress asks for an Ingress, of which the address is given.
func withIngress(ask appsv1.WebAppIngress, address string) func(*fixture) {
	return func(s *fixture) {
		ask.Host, ask.Path = "shop.example.com", "/"
		s.app.Spec.Ingress, s.seen.publication.ingress = &ask, &networkingv1.Ingress{}
		if address != "" {
			s.seen.publication.ingress.Status.LoadBalancer.Ingress = []networkingv1.IngressLoadBalancerIngress{{IP: address}}
		}
	}
}

// withRoute asks for a route by two Gateways, and has its status; none if parents is empty.
func withRoute(t *testing.T, parents string) func(*fixture) {
	return func(s *fixture) {
		s.app.Spec.Gateway = &appsv1.WebAppGateway{
			ParentRefs: []appsv1.GatewayRef{{Name: "public", Namespace: "infra"}, {Name: "inner"}}, Hostnames: []string{"shop.example.com"}, Path: "/",
		}
		if parents != "" {
			s.seen.publication.route = observedAs[route](t, "{metadata: {generation: 2, creationTimestamp: 2026-01-01T00:00:00Z}, status: {parents: ["+parents+"]}}")
		}
	}
}

// parent is the answer of a Gateway to a route of generation 2.
func parent(ref, conditions string) string {
	return "{parentRef: {group: gateway.networking.k8s.io, kind: Gateway, " + ref + "}, controllerName: a, conditions: [" + conditions + "]},"
}

const (
	accepted    = "{type: Accepted, status: 'True', reason: Accepted, observedGeneration: 2}, {type: ResolvedRefs, status: 'True', reason: ResolvedRefs}"
	acceptedOld = "{type: Accepted, status: 'True', reason: Accepted, observedGeneration: 1}"
	rejected    = "{type: Accepted, status: 'False', reason: NotAllowedByListeners, message: no listener}"
	unresolved  = "{type: Accepted, status: 'True', reason: Accepted}, {type: ResolvedRefs, status: 'False', reason: BackendNotFound, message: no Service}"
	inner       = "name: inner, namespace: shop"
	public      = "name: public, namespace: infra"
)

func TestPublished(t *testing.T) {
	certified := appsv1.WebAppIngress{CertIssuer: &appsv1.CertIssuer{Name: "ca"}}
	secretMissing := func(s *fixture) {
		withIngress(appsv1.WebAppIngress{TLSSecretName: "tls"}, "192.0.2.1")(s)
		s.seen.publication.missingSecret = "tls"
	}
	certificateIs := func(conditions string) func(*fixture) {
		return func(s *fixture) {
			withIngress(certified, "192.0.2.1")(s)
			s.seen.publication.certificate = observedAs[certificate](t, "{status: {conditions: ["+conditions+"]}}")
		}
	}
	const routed, ready = "http://shop.example.com/", "True Ready"
	for _, c := range []struct {
		name   string
		change func(*fixture)
		// published and ready are statuses and reasons, text is in the message of Published.
		published, ready string
		phase            appsv1.WebAppPhase
		url, text        string
	}{
		{"address", withIngress(appsv1.WebAppIngress{}, "192.0.2.1"), "True Published", ready, appsv1.PhaseRunning, routed, ""},
		{"no address", withIngress(appsv1.WebAppIngress{}, ""), "Unknown AddressPending", ready, appsv1.PhaseRunning, "", "set spec.ingress.className"},
		{"no address, of a class", func(s *fixture) {
			withIngress(appsv1.WebAppIngress{}, "")(s)
			s.seen.publication.ingress.Spec.IngressClassName = new("nginx")
		}, "Unknown AddressPending", ready, appsv1.PhaseRunning, "", `class "nginx"`},
		{"not seen yet", func(s *fixture) {
			withIngress(appsv1.WebAppIngress{}, "")(s)
			s.seen.publication.ingress = nil
		}, "Unknown AddressPending", ready, appsv1.PhaseRunning, "", ""},
		{"rejected", func(s *fixture) {
			withIngress(appsv1.WebAppIngress{}, "")(s)
			s.seen.publication.ingress, s.seen.applyErr = nil, errors.New("host is taken")
		}, "Unknown Reconciling", "False WriteFailed", appsv1.PhaseDegraded, "", ""},
		{"another child is rejected", func(s *fixture) {
			withIngress(appsv1.WebAppIngress{}, "192.0.2.1")(s)
			s.seen.applyErr = errors.New("etcd is full")
		}, "True Published", "False WriteFailed", appsv1.PhaseDegraded, routed, ""},
		{"no class", func(s *fixture) {
			withIngress(appsv1.WebAppIngress{ClassName: "nginx"}, "")(s)
			s.seen.publication.classMissing = true
		}, "False IngressClassMissing", "False IngressClassMissing", appsv1.PhaseDegraded, "", `IngressClass "nginx" does not exist`},
		{"no class, but an address", func(s *fixture) {
			withIngress(appsv1.WebAppIngress{ClassName: "contour"}, "192.0.2.1")(s)
			s.seen.publication.classMissing = true
		}, "True Published", ready, appsv1.PhaseRunning, routed, ""},
		{"no Secret", secretMissing, "False TLSSecretMissing", "False TLSSecretMissing", appsv1.PhaseDegraded, "", `Secret "tls" does not exist in namespace "shop"`},
		{"no Certificate", withIngress(certified, "192.0.2.1"), "False CertificatePending", "False CertificatePending", appsv1.PhaseDeploying, "", `Certificate "web-tls"`},
		{"issuing", certificateIs("{type: Ready, status: 'False', message: none}, {type: Issuing, status: 'True', message: first issuance}"),
			"False CertificatePending", "False CertificatePending", appsv1.PhaseDeploying, "", "first issuance"},
		{"not issued", certificateIs("{type: Ready, status: 'False', message: no Secret.}, {type: Issuing, status: 'False', message: order is invalid}"),
			"False CertificateFailed", "False CertificateFailed", appsv1.PhaseDegraded, "", "no Secret. order is invalid"},
		{"issued, being renewed", certificateIs("{type: Ready, status: 'True'}, {type: Issuing, status: 'True'}"),
			"True Published", ready, appsv1.PhaseRunning, "https://shop.example.com/", ""},

		{"not answered", withRoute(t, ""), "False RoutePending", "False RoutePending", appsv1.PhaseDeploying, "", `Gateway "public" in namespace "infra"`},
		{"answered by one", withRoute(t, parent(public, accepted)), "False RoutePending", "False RoutePending", appsv1.PhaseDeploying, "", `Gateway "inner" in namespace "shop"`},
		{"accepted by both", withRoute(t, parent(public, accepted)+parent("name: inner", accepted)), "True Published", ready, appsv1.PhaseRunning, "", ""},
		{"accepted before", withRoute(t, parent(public, acceptedOld)+parent(inner, accepted)), "False RoutePending", "False RoutePending", appsv1.PhaseDeploying, "", ""},
		{"rejected by one", withRoute(t, parent(public, accepted)+parent(inner, rejected)), "False RouteNotAccepted", "False RouteNotAccepted", appsv1.PhaseDegraded, "",
			`Gateway "inner" in namespace "shop": Accepted is False (NotAllowedByListeners): no listener`},
		{"no backend", withRoute(t, parent(public, unresolved)+parent(inner, accepted)), "False RouteNotAccepted", "False RouteNotAccepted", appsv1.PhaseDegraded, "", "no Service"},
		{"another listener", withRoute(t, parent(public+", sectionName: web", accepted)+parent(inner, accepted)), "False RoutePending", "False RoutePending", appsv1.PhaseDeploying, "", ""},
		{"a route beside an Ingress without an address", func(s *fixture) {
			withIngress(appsv1.WebAppIngress{}, "")(s)
			withRoute(t, parent(public, rejected))(s)
		}, "False RouteNotAccepted", "False RouteNotAccepted", appsv1.PhaseDegraded, "", ""},
		{"pods come first", func(s *fixture) {
			secretMissing(s)
			exceeded(s.seen.deployment)
		}, "False TLSSecretMissing", "False ProgressDeadlineExceeded", appsv1.PhaseFailed, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			status := newFixture(c.change).status()
			is := func(conditionType string) (string, string) {
				cond := meta.FindStatusCondition(status.Conditions, conditionType)
				return string(cond.Status) + " " + cond.Reason, cond.Message
			}
			got, text := is(appsv1.WebAppPublished)
			ready, _ := is("Ready")
			if got != c.published || ready != c.ready || status.Phase != c.phase || !strings.Contains(text, c.text) {
				t.Errorf("Published %s (%s), Ready %s, phase %s; want %s (%s), %s, %s", got, text, ready, status.Phase, c.published, c.text, c.ready, c.phase)
			}
			if status.URL != c.url {
				t.Errorf("URL %q, want %q", status.URL, c.url)
			}
		})
	}
}

// TestServiceExists: the first status tells the URL of a Service that the cache does not show yet, and never that of another one's Service.
func TestServiceExists(t *testing.T) {
	app := &appsv1.WebApp{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "1"}}
	own, foreign := &corev1.Service{}, &corev1.Service{}
	own.OwnerReferences = []metav1.OwnerReference{{UID: app.UID, Controller: new(true)}}
	for name, c := range map[string]struct {
		service        *corev1.Service
		found, current bool
		want           bool
	}{
		"just written":      {&corev1.Service{}, false, false, true},
		"there":             {own, true, true, true},
		"another one's":     {foreign, true, true, false},
		"not written":       {&corev1.Service{}, false, true, false},
		"written once more": {own, true, false, true},
	} {
		if got := serviceExists(app, c.service, c.found, c.current); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

func TestURLOfServiceAndIngress(t *testing.T) {
	balanced := func(s *fixture) { s.app.Spec.Service.Type = corev1.ServiceTypeLoadBalancer }
	at := func(port int32, balancer corev1.LoadBalancerIngress) func(*fixture) {
		return func(s *fixture) {
			balanced(s)
			s.app.Spec.Port = port
			s.seen.publication.service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{}, balancer}
		}
	}
	ask := func(ingress appsv1.WebAppIngress, host, path string) func(*fixture) {
		return func(s *fixture) {
			withIngress(ingress, "192.0.2.1")(s)
			s.app.Spec.Ingress.Host, s.app.Spec.Ingress.Path = host, path
		}
	}
	for _, c := range []struct {
		name, want string
		change     func(*fixture)
	}{
		{"Service", "http://web.shop.svc", nil},
		{"Service, port", "http://web.shop.svc:8080", func(s *fixture) { s.app.Spec.Port = 8080 }},
		{"no Service", "", func(s *fixture) { s.seen.publication.service = nil }},
		{"NodePort", "http://web.shop.svc", func(s *fixture) { s.app.Spec.Service.Type = corev1.ServiceTypeNodePort }},
		{"LoadBalancer without an address", "", balanced},
		{"LoadBalancer, IP", "http://192.0.2.1:8080", at(8080, corev1.LoadBalancerIngress{IP: "192.0.2.1"})},
		{"LoadBalancer, IPv6", "http://[2001:db8::1]", at(80, corev1.LoadBalancerIngress{IP: "2001:db8::1"})},
		{"LoadBalancer, name", "http://lb.example.com", at(80, corev1.LoadBalancerIngress{IP: "192.0.2.1", Hostname: "lb.example.com"})},
		{"Ingress", "http://a.example.com/x", ask(appsv1.WebAppIngress{}, "a.example.com", "/x")},
		{"Ingress, TLS", "https://a.example.com/", ask(appsv1.WebAppIngress{TLSSecretName: "t"}, "a.example.com", "/")},
		{"Ingress, wildcard and another host", "https://b.example.com/y", ask(appsv1.WebAppIngress{ExtraHosts: []appsv1.WebAppHost{
			{Host: "*.example.org"}, {Host: "b.example.com", TLSSecretName: "t", Paths: []appsv1.WebAppPath{{Path: "/y"}, {Path: "/z"}}}, {Host: "c.example.com"},
		}}, "*.example.com", "/")},
		{"Ingress, wildcard", "", ask(appsv1.WebAppIngress{}, "*.example.com", "/")},
	} {
		s := newFixture(c.change)
		if got := s.status().URL; got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func TestURLOfGateway(t *testing.T) {
	const (
		plain  = "{name: web, port: 80, protocol: HTTP}"
		secure = "{name: tls, port: 443, protocol: HTTPS, allowedRoutes: {namespaces: {from: Same}}}"
	)
	for _, c := range []struct {
		name, want string
		listeners  string
		change     func(*appsv1.WebAppGateway)
	}{
		{"HTTP", "http://shop.example.com/x", plain, nil},
		{"HTTPS is preferred", "https://shop.example.com/x", plain + "," + secure, nil},
		{"the chosen listener", "http://shop.example.com/x", plain + "," + secure, func(g *appsv1.WebAppGateway) { g.ParentRefs[0].SectionName = "web" }},
		{"port", "https://shop.example.com:8443/x", "{name: tls, port: 8443, protocol: HTTPS}", nil},
		{"of other namespaces", "http://shop.example.com/x", plain + ",{port: 443, protocol: HTTPS, allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {tier: web}}}}}", nil},
		{"of selected namespaces", "https://shop.example.com/x", plain + ",{port: 443, protocol: HTTPS, allowedRoutes: {namespaces: {from: Selector, selector: {matchLabels: {team: a}}}}}", nil},
		{"of another host", "", "{port: 80, protocol: HTTP, hostname: other.example.com}", nil},
		{"below a wildcard", "http://shop.example.com/x", "{port: 80, protocol: HTTP, hostname: '*.example.com'}", nil},
		{"wildcards are no URL", "", plain, func(g *appsv1.WebAppGateway) { g.Hostnames = []string{"*.example.com"} }},
		{"the second name", "http://b.example.com/x", plain, func(g *appsv1.WebAppGateway) { g.Hostnames = []string{"*.example.com", "b.example.com"} }},
		{"a wildcard at a named listener", "http://c.example.com/x", "{port: 80, protocol: HTTP, hostname: c.example.com}",
			func(g *appsv1.WebAppGateway) { g.Hostnames = []string{"*.example.com"} }},
		{"the listener's name", "http://c.example.com/x", "{port: 80, protocol: HTTP, hostname: c.example.com}", func(g *appsv1.WebAppGateway) { g.Hostnames = nil }},
		{"the Gateway's address", "http://192.0.2.1/x", plain, func(g *appsv1.WebAppGateway) { g.Hostnames = nil }},
		{"another protocol", "", "{port: 5432, protocol: TCP}", nil},
	} {
		s := newFixture(withRoute(t, parent("name: public", accepted)))
		s.in.namespaceLabels = map[string]string{"team": "a"}
		g := s.app.Spec.Gateway
		g.ParentRefs, g.Path = []appsv1.GatewayRef{{Name: "public"}}, "/x"
		if c.change != nil {
			c.change(g)
		}
		s.seen.publication.route.Status.Parents[0].ParentRef = g.ParentRefs[0]
		s.seen.publication.gateways = []gateway{*observedAs[gateway](t,
			"{metadata: {name: public, namespace: shop}, spec: {listeners: ["+c.listeners+"]}, status: {addresses: [{type: IPAddress, value: 192.0.2.1}]}}")}
		if got := s.status().URL; got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
	s := newFixture(withRoute(t, parent(public, accepted)))
	s.app.Spec.Gateway.ParentRefs = s.app.Spec.Gateway.ParentRefs[:1]
	s.seen.publication.gateways = []gateway{*observedAs[gateway](t, "{metadata: {name: public, namespace: infra}, spec: {listeners: ["+plain+"]}}")}
	if got := s.status().URL; got != "" {
		t.Errorf("URL is %q, although the listener serves only routes of its own namespace", got)
	}
}
