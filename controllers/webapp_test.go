package controllers_test

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	k8sappsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/testenv"
)

// everything asks for every child whose API is part of Kubernetes.
func everything(s *appsv1.WebAppSpec) {
	s.Ingress = &appsv1.WebAppIngress{Host: "shop.example.com"}
	s.NetworkPolicy = &appsv1.WebAppNetworkPolicy{}
	autoscaled(s)
}

func autoscaled(s *appsv1.WebAppSpec) {
	s.Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}
	s.Autoscaling = &appsv1.WebAppAutoscaling{MinReplicas: 2, MaxReplicas: 10, TargetCPUUtilizationPercentage: new(int32(80))}
}

// childKinds are the children of a WebApp that asks for everything.
func childKinds() []client.Object {
	return []client.Object{
		&k8sappsv1.Deployment{}, &corev1.Service{}, &policyv1.PodDisruptionBudget{}, &networkingv1.Ingress{},
		&networkingv1.NetworkPolicy{}, &autoscalingv2.HorizontalPodAutoscaler{},
	}
}

var _ = Describe("The life of a WebApp", func() {
	var namespace string
	BeforeEach(func(ctx context.Context) { namespace = newNamespace(ctx) })

	It("is created with a write for each child and one for the status", func(ctx context.Context) {
		requests := countRequests(ctx, namespace)
		app := newApp(namespace, "demo-app")
		createReady(ctx, app)
		settle(ctx)
		summary := requests.summary(ctx)
		Expect(summary.Writes()).To(Equal(3+1), summary.String()) // Deployment, Service, PodDisruptionBudget
		Expect(summary.LiveReads()).To(BeZero(), summary.String())

		Expect(app.Status.Phase).To(Equal(appsv1.PhaseRunning))
		Expect(app.Status.AvailableReplicas).To(Equal(int32(3)))
		Expect(app.Status.Image).To(Equal("nginx:1.25"))
		Expect(app.Status.LastGoodImage).To(Equal("nginx:1.25"))
		Expect(app.Status.URL).To(Equal("http://demo-app." + namespace + ".svc"))
		for _, kind := range []client.Object{&k8sappsv1.Deployment{}, &corev1.Service{}, &policyv1.PodDisruptionBudget{}} {
			obj := child(app, kind)
			Expect(read(ctx, obj)).To(Succeed())
			Expect(metav1.IsControlledBy(obj, app)).To(BeTrue())
			Expect(obj.GetLabels()).To(HaveKeyWithValue("app.kubernetes.io/managed-by", "fettle"))
		}
	})

	It("is created with everything for a write each", func(ctx context.Context) {
		requests := countRequests(ctx, namespace)
		app := newApp(namespace, "all", everything)
		createReady(ctx, app)
		settle(ctx)
		summary := requests.summary(ctx)
		Expect(summary.Writes()).To(Equal(len(childKinds())+1), summary.String())
		Expect(condition(ctx, app, appsv1.WebAppPublished)).To(Equal("Unknown AddressPending"))
	})

	It("is scaled by its spec and by its scale subresource", func(ctx context.Context) {
		app := newApp(namespace, "web")
		createReady(ctx, app)
		requests := countRequests(ctx, namespace)
		change(ctx, app, func(s *appsv1.WebAppSpec) { s.Replicas = new(int32(5)) })
		Eventually(field(deploymentOf(app), replicasOf)).WithContext(ctx).Should(Equal(int32(5)))
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
		settle(ctx)
		Expect(requests.summary(ctx).Writes()).To(Equal(2), requests.summary(ctx).String())

		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 0}}
		Expect(user.SubResource("scale").Update(ctx, app, client.WithSubResourceBody(scale))).To(Succeed())
		Eventually(field(deploymentOf(app), replicasOf)).WithContext(ctx).Should(BeZero())
		Eventually(condition).WithContext(ctx).WithArguments(app, appsv1.WebAppAvailable).Should(Equal("True ScaledToZero"))
		Expect(user.SubResource("scale").Get(ctx, app, scale)).To(Succeed())
		Expect(scale.Status.Selector).To(ContainSubstring("fettle.dev/owner-name=web"))
		Eventually(func() error { return read(ctx, child(app, &policyv1.PodDisruptionBudget{})) }).Should(Satisfy(apierrors.IsNotFound))
	})

	It("is never Ready for a new generation before its pods are", func(ctx context.Context) {
		app := newApp(namespace, "web")
		createReady(ctx, app)
		fakeKubelet.Set(namespace, "web", testenv.Rollout{Delay: still + still/2})
		change(ctx, app, func(s *appsv1.WebAppSpec) { s.Image = "nginx:1.26" })
		Eventually(field(deploymentOf(app), imageOf)).WithContext(ctx).Should(Equal("nginx:1.26"))
		Consistently(ready).WithContext(ctx).WithArguments(app).ShouldNot(HavePrefix("True"))
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
		Expect(app.Status.LastGoodImage).To(Equal("nginx:1.26"))
	})

	It("says that it is rolling out when that takes longer", func(ctx context.Context) {
		fakeKubelet.Set(namespace, "slow", testenv.Rollout{Delay: 5 * still})
		app := newApp(namespace, "slow")
		Expect(user.Create(ctx, app)).To(Succeed())
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("False RollingOut"))
		Expect(app.Status.Phase).To(Equal(appsv1.PhaseDeploying))
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
	})

	It("is left alone while it is paused", func(ctx context.Context) {
		app := newApp(namespace, "web")
		createReady(ctx, app)
		change(ctx, app, func(s *appsv1.WebAppSpec) { s.Paused, s.Image = true, "nginx:1.26" })
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Paused"))
		Expect(app.Status.Phase).To(Equal(appsv1.PhasePaused))
		service := child(app, &corev1.Service{})
		Expect(user.Delete(ctx, service)).To(Succeed())
		Consistently(field(deploymentOf(app), imageOf)).WithContext(ctx).Should(Equal("nginx:1.25"))
		Expect(read(ctx, service)).To(Satisfy(apierrors.IsNotFound))
		change(ctx, app, func(s *appsv1.WebAppSpec) { s.Paused = false })
		Eventually(func() error { return read(ctx, service) }).Should(Succeed())
		Eventually(field(deploymentOf(app), imageOf)).WithContext(ctx).Should(Equal("nginx:1.26"))
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
	})

	It("ends without a write, and says so while a finalizer holds it", func(ctx context.Context) {
		app := newApp(namespace, "web")
		app.Finalizers = []string{"example.com/hold"}
		createReady(ctx, app)
		Expect(user.Delete(ctx, app)).To(Succeed())
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("False Terminating"))
		Expect(app.Status.Phase).To(Equal(appsv1.PhaseTerminating))
		service := child(app, &corev1.Service{})
		Expect(user.Delete(ctx, service)).To(Succeed()) // as the garbage collector would
		Consistently(func() error { return read(ctx, service) }).Should(Satisfy(apierrors.IsNotFound))
		requests := countRequests(ctx, namespace)
		patch(ctx, app, `{"metadata":{"finalizers":null}}`)
		requests.expectIdle(ctx)
	})

	It("writes a removed status again", func(ctx context.Context) {
		app := newApp(namespace, "web")
		createReady(ctx, app)
		want := app.Status.DeepCopy()
		Expect(user.Status().Patch(ctx, app, client.RawPatch("application/merge-patch+json", []byte(`{"status":null}`)))).To(Succeed())
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
		for _, conds := range [][]metav1.Condition{want.Conditions, app.Status.Conditions} {
			for i := range conds {
				conds[i].LastTransitionTime = metav1.Time{}
			}
		}
		Expect(app.Status).To(Equal(*want))
	})

	It("emits few events", func(ctx context.Context) {
		app := newApp(namespace, "web")
		createReady(ctx, app)
		change(ctx, app, func(s *appsv1.WebAppSpec) { s.Image = "nginx:1.26" })
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
		change(ctx, app, func(s *appsv1.WebAppSpec) { s.Replicas = new(int32(2)) })
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
		settle(ctx)
		Expect(eventReasons(ctx, app)).To(And(ContainElement("Normal Ready"), HaveLen(1)))
	})
})

var _ = Describe("The metrics of WebApps", func() {
	It("go with the last WebApp of a namespace", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		app := newApp(namespace, "web")
		createReady(ctx, app)
		Eventually(func() []string { return seriesOf(namespace) }).Should(ConsistOf(
			"webapp_reconcile_total", "webapp_reconcile_duration_seconds", "webapp_creation_duration_seconds", "fettle_resource_ready"))
		Expect(user.Delete(ctx, app)).To(Succeed())
		Eventually(func() []string { return seriesOf(namespace) }).Should(BeEmpty())
	})
})

// seriesOf are the names of the operator's metrics that speak of the namespace.
func seriesOf(namespace string) []string {
	GinkgoHelper()
	families, err := runningOperator.registry.Gather()
	Expect(err).NotTo(HaveOccurred())
	var names []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetName() == "namespace" && l.GetValue() == namespace && !slices.Contains(names, f.GetName()) {
					names = append(names, f.GetName())
				}
			}
		}
	}
	return names
}
