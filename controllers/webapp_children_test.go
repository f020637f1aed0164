package controllers_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
)

var _ = Describe("The children of a WebApp", func() {
	var namespace string
	BeforeEach(func(ctx context.Context) { namespace = newNamespace(ctx) })

	It("are deleted when the spec no longer asks for them", func(ctx context.Context) {
		app := newApp(namespace, "web", everything)
		createReady(ctx, app)
		change(ctx, app, func(s *appsv1.WebAppSpec) {
			s.Ingress, s.NetworkPolicy, s.Autoscaling, s.Replicas = nil, nil, nil, new(int32(1))
		})
		for _, kind := range childKinds()[2:] {
			obj := child(app, kind)
			Eventually(func() error { return read(ctx, obj) }).Should(Satisfy(apierrors.IsNotFound), "%T", obj)
		}
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
		Expect(condition(ctx, app, appsv1.WebAppPublished)).To(Equal("none"))
	})

	DescribeTable("are not taken over from other owners",
		func(ctx context.Context, foreign client.Object) {
			obj := foreign.DeepCopyObject().(client.Object)
			obj.SetNamespace(namespace)
			obj.SetName("web")
			Expect(user.Create(ctx, obj)).To(Succeed())
			app := newApp(namespace, "web")
			Expect(user.Create(ctx, app)).To(Succeed())
			Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("False NameConflict"))
			Expect(message(app, "Ready")).To(ContainSubstring(`"web" exists and is not controlled by this WebApp: rename the WebApp or remove`))
			Expect(app.Status.Phase).To(Equal(appsv1.PhaseDegraded))
			generation, before := obj.GetGeneration(), obj.GetUID()
			requests := countRequests(ctx, namespace)
			Consistently(func() error { return read(ctx, obj) }, "4s").Should(Succeed())
			summary := requests.summary(ctx)
			Expect(summary.Writes()-rejectedWrites(summary)).To(BeZero(), summary.String())
			Expect([]any{obj.GetUID(), obj.GetGeneration(), obj.GetOwnerReferences(), obj.GetLabels()["app.kubernetes.io/managed-by"]}).
				To(Equal([]any{before, generation, []metav1.OwnerReference(nil), ""}))
			Expect(user.Delete(ctx, obj)).To(Succeed())
			Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
			Eventually(eventReasons).WithContext(ctx).WithArguments(app).Should(ConsistOf("Warning NameConflict", "Normal Ready"))
		},
		Entry("Service", &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}}),
	)

	It("keep what other clients add, without a write or a rollout", func(ctx context.Context) {
		app := newApp(namespace, "web", func(s *appsv1.WebAppSpec) { s.Service.Type = corev1.ServiceTypeLoadBalancer })
		createReady(ctx, app)
		settle(ctx)
		requests := countRequests(ctx, namespace)
		d := deploymentOf(app)
		sidecar := []byte(`{"metadata":{"labels":{"team":"a"},"annotations":{"note":"b"}},"spec":{"template":{
			"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}},
			"spec":{"containers":[{"name":"sidecar","image":"mesh:1"}]}}}}`)
		Expect(user.Patch(ctx, d, client.RawPatch(types.StrategicMergePatchType, sidecar))).To(Succeed())
		service := child(app, &corev1.Service{})
		patch(ctx, service, `{"metadata":{"annotations":{"cloud.example.com/id":"7"}}}`)
		service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "192.0.2.1"}}
		Expect(user.Status().Update(ctx, service)).To(Succeed())
		generation := d.Generation
		settle(ctx)
		summary := requests.summary(ctx)
		// The sidecar makes the Deployment roll out, which the status may tell.
		Expect(summary.Writes()-to(summary, "webapps.apps.fettle.dev", "status").Writes()).To(BeZero(), summary.String())
		requests = countRequests(ctx, namespace)
		patch(ctx, d, `{"metadata":{"labels":{"team":"c"}}}`)
		patch(ctx, service, `{"metadata":{"labels":{"team":"c"}}}`)
		requests.expectIdle(ctx)
		Expect(read(ctx, d)).To(Succeed())
		Expect(d.Generation).To(Equal(generation))
		Expect(d.Spec.Template.Spec.Containers).To(HaveLen(2))
		Expect(ready(ctx, app)).To(Equal("True Ready"))
	})
})

var _ = Describe("A WebApp with an autoscaler", func() {
	It("keeps its number of pods, leaves it to the autoscaler, and manages it again", func(ctx context.Context) {
		namespace := newNamespace(ctx)
		app := newApp(namespace, "web")
		createReady(ctx, app)
		d := deploymentOf(app)
		replicas := field(d, replicasOf)

		By("switching the autoscaler on")
		change(ctx, app, autoscaled)
		Eventually(func() error { return read(ctx, child(app, &autoscalingv2.HorizontalPodAutoscaler{})) }).Should(Succeed())
		Consistently(replicas).WithContext(ctx).Should(Equal(int32(3)))
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
		settle(ctx)

		By("scaling as the autoscaler does")
		requests := countRequests(ctx, namespace)
		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 7}}
		Expect(user.SubResource("scale").Update(ctx, d, client.WithSubResourceBody(scale))).To(Succeed())
		touch(ctx, app, "1")
		Consistently(replicas).WithContext(ctx).Should(Equal(int32(7)))
		Consistently(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
		change(ctx, app, func(s *appsv1.WebAppSpec) { s.Replicas = new(int32(1)) })
		Consistently(replicas).WithContext(ctx).Should(Equal(int32(7)))
		Expect(to(requests.summary(ctx), "deployments.apps", "").Writes()).To(BeZero(), requests.summary(ctx).String())

		By("changing the template meanwhile")
		change(ctx, app, func(s *appsv1.WebAppSpec) { s.Image = "nginx:1.26" })
		Eventually(field(d, imageOf)).WithContext(ctx).Should(Equal("nginx:1.26"))
		Expect(replicasOf(d)).To(Equal(int32(7)))

		By("switching it off")
		change(ctx, app, func(s *appsv1.WebAppSpec) { s.Autoscaling, s.Replicas = nil, new(int32(4)) })
		Eventually(replicas).WithContext(ctx).Should(Equal(int32(4)))
		Eventually(func() error { return read(ctx, child(app, &autoscalingv2.HorizontalPodAutoscaler{})) }).Should(Satisfy(apierrors.IsNotFound))
	})
})

var _ = Describe("A HorizontalPodAutoscaler of another owner", func() {
	autoscaler := func(app *appsv1.WebApp, apiVersion, kind string) *autoscalingv2.HorizontalPodAutoscaler {
		return &autoscalingv2.HorizontalPodAutoscaler{
			ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: "keda-hpa-" + app.Name},
			Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
				MaxReplicas:    10,
				ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: apiVersion, Kind: kind, Name: app.Name},
			},
		}
	}
	scaleTo := func(ctx context.Context, obj client.Object, n int32) { // as the autoscaler does
		GinkgoHelper()
		scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: n}}
		Expect(user.SubResource("scale").Update(ctx, obj, client.WithSubResourceBody(scale))).To(Succeed())
	}

	It("scales the Deployment, is named in a condition, and returns the number of pods when it is deleted", func(ctx context.Context) {
		app := newApp(newNamespace(ctx), "web")
		createReady(ctx, app)
		d := deploymentOf(app)
		replicas := field(d, replicasOf)

		By("beginning to scale")
		foreign := autoscaler(app, "apps/v1", "Deployment")
		Expect(user.Create(ctx, foreign)).To(Succeed())
		Eventually(condition).WithContext(ctx).WithArguments(app, appsv1.WebAppApplied).Should(Equal("True ForeignAutoscaler"))
		Expect(message(app, appsv1.WebAppApplied)).To(ContainSubstring(`"keda-hpa-web" sets the replicas of Deployment "web"`))
		Consistently(replicas).WithContext(ctx).Should(Equal(int32(3)))
		settle(ctx)
		requests := countRequests(ctx, app.Namespace)
		foreign.Status.CurrentReplicas = 3 // its own status causes no reconcile
		Expect(user.Status().Update(ctx, foreign)).To(Succeed())
		requests.expectIdle(ctx)

		By("scaling")
		for _, n := range []int32{7, 5, 9} {
			scaleTo(ctx, d, n)
			Consistently(replicas, "1s").WithContext(ctx).Should(Equal(n))
		}
		change(ctx, app, func(s *appsv1.WebAppSpec) { s.Replicas, s.Image = new(int32(1)), "nginx:1.26" })
		Eventually(field(d, imageOf)).WithContext(ctx).Should(Equal("nginx:1.26"))
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
		Expect(replicasOf(mustRead(ctx, d))).To(Equal(int32(9)))
		Expect(to(requests.summary(ctx), "deployments.apps", "").Writes()).To(Equal(1), requests.summary(ctx).String())

		By("going")
		Expect(user.Delete(ctx, foreign)).To(Succeed())
		Eventually(replicas).WithContext(ctx).Should(Equal(int32(1)))
		Eventually(condition).WithContext(ctx).WithArguments(app, appsv1.WebAppApplied).Should(Equal("True Applied"))
	})

	It("scales the WebApp by its scale subresource", func(ctx context.Context) {
		app := newApp(newNamespace(ctx), "web")
		createReady(ctx, app)
		Expect(user.Create(ctx, autoscaler(app, appsv1.GroupVersion.String(), "WebApp"))).To(Succeed())
		scaleTo(ctx, app, 7)
		Eventually(field(deploymentOf(app), replicasOf)).WithContext(ctx).Should(Equal(int32(7)))
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
		Expect(condition(ctx, app, appsv1.WebAppApplied)).To(Equal("True Applied"))
		Expect(*app.Spec.Replicas).To(Equal(int32(7)))
	})
})
