package controllers_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
)

// optionalCRDs are as much of the Gateway API, the Prometheus Operator and cert-manager as a WebApp uses.
var optionalCRDs = envtest.CRDInstallOptions{Paths: []string{"testdata/crds"}, ErrorIfPathMissing: true, MaxTime: 4 * time.Minute}

func unstructuredChild(app *appsv1.WebApp, apiVersion, kind string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(apiVersion)
	u.SetKind(kind)
	return child(app, u)
}

// uninstall removes the APIs and waits until they are gone.
func uninstall(ctx context.Context) {
	GinkgoHelper()
	Expect(envtest.UninstallCRDs(env.Admin, optionalCRDs)).To(Succeed())
	for _, name := range []string{"httproutes.gateway.networking.k8s.io", "gateways.gateway.networking.k8s.io", "servicemonitors.monitoring.coreos.com", "certificates.cert-manager.io"} {
		crd := &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: name}}
		Eventually(func() error { return read(ctx, crd) }).WithTimeout(4*soon).Should(Satisfy(apierrors.IsNotFound), name) // its objects go first
	}
}

var _ = Describe("A WebApp that asks for APIs that the cluster lacks", func() {
	It("reports it, and recovers when they are installed, removed and installed again", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		app := newApp(namespace, "web", func(s *appsv1.WebAppSpec) {
			s.Gateway = &appsv1.WebAppGateway{ParentRefs: []appsv1.GatewayRef{{Name: "main"}}, Hostnames: []string{"shop.example.com"}}
			s.Monitoring = &appsv1.WebAppMonitoring{}
			s.Ingress = &appsv1.WebAppIngress{Host: "shop.example.com", CertIssuer: &appsv1.CertIssuer{Name: "ca"}}
		})
		route := unstructuredChild(app, "gateway.networking.k8s.io/v1", "HTTPRoute")
		monitor := unstructuredChild(app, "monitoring.coreos.com/v1", "ServiceMonitor")
		Expect(user.Create(ctx, app)).To(Succeed())
		for round := range 2 {
			Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("False APIMissing"))
			Eventually(condition).WithContext(ctx).WithArguments(app, appsv1.WebAppAvailable).Should(Equal("True Available"))
			Expect(message(app, appsv1.WebAppPublished)).To(ContainSubstring("spec.gateway: the cluster has no HTTPRoute API"))
			Expect(message(app, appsv1.WebAppMonitored)).To(ContainSubstring("spec.monitoring: the cluster has no ServiceMonitor API"))

			By("installing the APIs")
			_, err := envtest.InstallCRDs(env.Admin, optionalCRDs)
			Expect(err).NotTo(HaveOccurred())
			Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("False RoutePending"))
			Eventually(func() error { return read(ctx, route) }).Should(Succeed())
			Eventually(func() error { return read(ctx, monitor) }).Should(Succeed())
			serveRoute(ctx, route, "main")
			Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("False CertificatePending"))
			certify(ctx, app)
			Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
			Expect(route.GetLabels()).To(HaveKeyWithValue("fettle.dev/owner-name", "web"))

			By("repairing drift in them")
			patch(ctx, monitor, `{"spec":{"endpoints":[]}}`)
			Eventually(func() int {
				Expect(read(ctx, monitor)).To(Succeed())
				endpoints, _, _ := unstructured.NestedSlice(monitor.Object, "spec", "endpoints")
				return len(endpoints)
			}).Should(Equal(1))
			if round == 0 {
				settle(ctx)
				requests := countRequests(ctx, namespace)
				touch(ctx, app, "1")
				requests.expectIdle(ctx)
			}

			By("removing the APIs")
			uninstall(ctx)
			Eventually(func() error { return user.Get(ctx, client.ObjectKeyFromObject(route), route.DeepCopy()) }).
				Should(Or(Satisfy(apierrors.IsNotFound), Satisfy(meta.IsNoMatchError)))
			Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("False APIMissing"))
		}
		settle(ctx)
		lines := runningOperator.lines.lines()
		settle(ctx)
		Expect(runningOperator.lines.lines()-lines).To(BeNumerically("<=", 2), "the operator logs without end")
		Expect(condition(ctx, app, appsv1.WebAppApplied)).To(Equal("True Applied"))
	})

	It("removes their children when the spec no longer asks for them", func(ctx context.Context) {
		_, err := envtest.InstallCRDs(env.Admin, optionalCRDs)
		Expect(err).NotTo(HaveOccurred())
		DeferCleanup(uninstall)
		app := newApp(newNamespace(ctx), "web", func(s *appsv1.WebAppSpec) {
			s.Monitoring = &appsv1.WebAppMonitoring{Labels: map[string]string{"release": "prometheus"}}
		})
		createReady(ctx, app)
		monitor := unstructuredChild(app, "monitoring.coreos.com/v1", "ServiceMonitor")
		Expect(read(ctx, monitor)).To(Succeed())
		Expect(monitor.GetLabels()).To(HaveKeyWithValue("release", "prometheus"))
		change(ctx, app, func(s *appsv1.WebAppSpec) { s.Monitoring = nil })
		Eventually(func() error { return read(ctx, monitor) }).Should(Satisfy(apierrors.IsNotFound))
		Eventually(condition).WithContext(ctx).WithArguments(app, appsv1.WebAppMonitored).Should(Equal("none"))
	})
})
