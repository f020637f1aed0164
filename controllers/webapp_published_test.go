package controllers_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
)

// say patches the status of an object, as its controller would.
func say(ctx context.Context, obj client.Object, status string) {
	GinkgoHelper()
	Expect(user.Status().Patch(ctx, obj, client.RawPatch("application/merge-patch+json", []byte(`{"status":`+status+`}`)))).To(Succeed())
}

// serveIngress gives the app's Ingress an address, as an ingress controller would.
func serveIngress(ctx context.Context, app *appsv1.WebApp) {
	GinkgoHelper()
	ingress := child(app, &networkingv1.Ingress{})
	Eventually(func() error { return read(ctx, ingress) }).WithContext(ctx).Should(Succeed())
	say(ctx, ingress, `{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}`)
}

// serveRoute has the Gateway accept the route.
func serveRoute(ctx context.Context, route *unstructured.Unstructured, gateway string) {
	GinkgoHelper()
	say(ctx, route, `{"parents":[{"parentRef":{"name":"`+gateway+`"},"controllerName":"example.com/gateway","conditions":[{"type":"Accepted","status":"True","reason":"Accepted"}]}]}`)
}

// certify makes the certificate for the app's Ingress, as cert-manager would.
func certify(ctx context.Context, app *appsv1.WebApp) {
	GinkgoHelper()
	certificate := unstructuredChild(app, "cert-manager.io/v1", "Certificate")
	certificate.SetName(app.Name + "-tls")
	certificate.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Ready", "status": "True", "reason": "Ready"}}}
	Expect(user.Create(ctx, certificate)).To(Succeed())
}

var _ = Describe("A WebApp that is published", func() {
	It("reports what its Ingress lacks, and its URL afterwards", func(ctx context.Context) {
		app := newApp(newNamespace(ctx), "web", func(s *appsv1.WebAppSpec) {
			s.Ingress = &appsv1.WebAppIngress{Host: "shop.example.com", TLSSecretName: "shop-tls", ExtraHosts: []appsv1.WebAppHost{
				{Host: "www.example.com"}, {Host: "shop.example.org", TLSSecretName: "org-tls"},
			}}
		})
		app.Spec.Ingress.ClassName = app.Namespace
		Expect(user.Create(ctx, app)).To(Succeed())
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("False TLSSecretMissing"))
		Expect(app.Status.URL).To(BeEmpty())

		var certificate *corev1.Secret
		for _, name := range []string{"shop-tls", "org-tls"} {
			Eventually(func() string { _ = ready(ctx, app); return message(app, "Ready") }).Should(ContainSubstring("Secret %q does not exist", name))
			certificate = &corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: name}, Type: corev1.SecretTypeTLS,
				Data: map[string][]byte{corev1.TLSCertKey: nil, corev1.TLSPrivateKeyKey: nil},
			}
			Expect(user.Create(ctx, certificate)).To(Succeed())
		}
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("False IngressClassMissing"))
		Expect(app.Status.URL).To(BeEmpty())

		class := &networkingv1.IngressClass{
			ObjectMeta: metav1.ObjectMeta{Name: app.Namespace}, Spec: networkingv1.IngressClassSpec{Controller: "example.com/ingress"},
		}
		Expect(user.Create(ctx, class)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(user.Delete(ctx, class)).To(Succeed()) })
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
		Expect(condition(ctx, app, appsv1.WebAppPublished)).To(Equal("Unknown AddressPending"))
		Expect(app.Status.URL).To(BeEmpty())

		serveIngress(ctx, app)
		Eventually(condition).WithContext(ctx).WithArguments(app, appsv1.WebAppPublished).Should(Equal("True Published"))
		Expect(app.Status.URL).To(Equal("https://shop.example.com/"))
		settle(ctx)
		requests := countRequests(ctx, app.Namespace)
		touch(ctx, app, "1")
		patch(ctx, certificate, `{"metadata":{"labels":{"a":"b"}}}`)
		requests.expectIdle(ctx)

		Expect(user.Delete(ctx, certificate)).To(Succeed())
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("False TLSSecretMissing"))
	})

	It("has the address of its load balancer", func(ctx context.Context) {
		app := newApp(newNamespace(ctx), "web", func(s *appsv1.WebAppSpec) { s.Service.Type = corev1.ServiceTypeLoadBalancer })
		createReady(ctx, app)
		Expect(app.Status.URL).To(BeEmpty())
		say(ctx, child(app, &corev1.Service{}), `{"loadBalancer":{"ingress":[{"ip":"192.0.2.1"}]}}`)
		url := func(ctx context.Context) string { _ = ready(ctx, app); return app.Status.URL }
		Eventually(url).WithContext(ctx).Should(Equal("http://192.0.2.1"))
		settle(ctx)
		requests := countRequests(ctx, app.Namespace)
		touch(ctx, app, "1")
		requests.expectIdle(ctx)
	})

	It("follows its route, Gateway and certificate", func(ctx context.Context) {
		_, err := envtest.InstallCRDs(env.Admin, optionalCRDs)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(uninstall)
		namespace := newNamespace(ctx)
		app := newApp(namespace, "web", func(s *appsv1.WebAppSpec) {
			s.Gateway = &appsv1.WebAppGateway{ParentRefs: []appsv1.GatewayRef{{Name: "main"}}, Hostnames: []string{"shop.example.com"}}
		})
		gateway := unstructuredChild(app, "gateway.networking.k8s.io/v1", "Gateway")
		gateway.SetName("main")
		gateway.Object["spec"] = map[string]any{"listeners": []any{map[string]any{"name": "web", "port": int64(80), "protocol": "HTTP"}}}
		Expect(user.Create(ctx, gateway)).To(Succeed())
		Expect(user.Create(ctx, app)).To(Succeed())
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("False RoutePending"))
		route := unstructuredChild(app, "gateway.networking.k8s.io/v1", "HTTPRoute")
		Eventually(func() error { return read(ctx, route) }).Should(Succeed())
		say(ctx, route, `{"parents":[{"parentRef":{"name":"main"},"conditions":[{"type":"Accepted","status":"False","reason":"NotAllowedByListeners","message":"no"}]}]}`)
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("False RouteNotAccepted"))
		Expect(app.Status.URL).To(BeEmpty())
		serveRoute(ctx, route, "main")
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
		url := func(ctx context.Context) string { _ = ready(ctx, app); return app.Status.URL }
		Expect(url(ctx)).To(Equal("http://shop.example.com/"))

		By("serving it with TLS")
		patch(ctx, gateway, `{"spec":{"listeners":[{"name":"tls","port":443,"protocol":"HTTPS"}]}}`)
		Eventually(url).WithContext(ctx).Should(Equal("https://shop.example.com/"))
		settle(ctx)
		requests := countRequests(ctx, namespace)
		say(ctx, gateway, `{"listeners":[{"name":"tls","attachedRoutes":7}]}`)
		requests.expectIdle(ctx)

		By("asking for a certificate")
		change(ctx, app, func(s *appsv1.WebAppSpec) {
			s.Gateway, s.Ingress = nil, &appsv1.WebAppIngress{Host: "shop.example.com", CertIssuer: &appsv1.CertIssuer{Name: "ca"}}
		})
		serveIngress(ctx, app)
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("False CertificatePending"))
		certify(ctx, app)
		Eventually(condition).WithContext(ctx).WithArguments(app, appsv1.WebAppPublished).Should(Equal("True Published"))
		Expect(url(ctx)).To(Equal("https://shop.example.com/"))
		Eventually(eventReasons).WithContext(ctx).WithArguments(app).Should(ContainElement("Warning RouteNotAccepted"))
		Expect(eventReasons(ctx, app)).NotTo(ContainElement(HaveSuffix("Pending")))
	})
})
