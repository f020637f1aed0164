package webapp

import (
	"testing"

	corev1 "k8s.io/api/core/v1"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
)

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
		t.Errorf("%q by a listener that serves routes of its own namespace alone", got)
	}
}
