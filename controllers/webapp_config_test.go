package controllers_test

import (
	"context"
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
)

const canary = "canary-0af3c1"

func using(refs ...appsv1.ConfigRef) func(*appsv1.WebAppSpec) {
	return func(s *appsv1.WebAppSpec) { s.ConfigRefs = refs }
}

func configMap(namespace string, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "settings"}, Data: map[string]string{"key": value}}
}

func secret(namespace string, value string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "settings"}, StringData: map[string]string{"key": value}}
}

var _ = Describe("The configuration of a WebApp", func() {
	var namespace string
	BeforeEach(func(ctx context.Context) { namespace = newNamespace(ctx) })

	It("is waited for", func(ctx context.Context) {
		app := newApp(namespace, "web", using(appsv1.ConfigRef{Kind: "ConfigMap", Name: "settings"}))
		Expect(user.Create(ctx, app)).To(Succeed())
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("False ConfigMissing"))
		Expect(message(app, "Ready")).To(ContainSubstring(`ConfigMap "settings" does not exist in namespace "` + namespace + `": create it`))
		Expect(app.Status.Phase).To(Equal(appsv1.PhasePending))
		Expect(read(ctx, child(app, &corev1.Service{}))).To(Succeed())
		Expect(read(ctx, deploymentOf(app))).To(Satisfy(apierrors.IsNotFound))
		Expect(user.Create(ctx, configMap(namespace, "a"))).To(Succeed())
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))

		By("deleting it again")
		noted(ctx, app, "configmap.fettle.dev/settings") // a new annotation counts as a generation of a Deployment
		generation := generationOf(mustRead(ctx, deploymentOf(app)))
		Expect(user.Delete(ctx, configMap(namespace, ""))).To(Succeed())
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("False ConfigMissing"))
		Consistently(field(deploymentOf(app), generationOf)).WithContext(ctx).Should(Equal(generation))

		By("scaling meanwhile, and changing the image")
		image := imageOf(mustRead(ctx, deploymentOf(app)))
		change(ctx, app, func(s *appsv1.WebAppSpec) { s.Replicas, s.Image = new(int32(5)), "nginx:1.26" })
		Eventually(field(deploymentOf(app), replicasOf)).WithContext(ctx).Should(Equal(int32(5)))
		Expect(imageOf(mustRead(ctx, deploymentOf(app)))).To(Equal(image))
		change(ctx, app, func(s *appsv1.WebAppSpec) { s.Replicas = new(int32(2)) })
		Eventually(field(deploymentOf(app), replicasOf)).WithContext(ctx).Should(Equal(int32(2)))

		By("making it optional")
		change(ctx, app, func(s *appsv1.WebAppSpec) { s.ConfigRefs[0].Optional = true })
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
		Expect(imageOf(mustRead(ctx, deploymentOf(app)))).To(Equal("nginx:1.26"))
		change(ctx, app, func(s *appsv1.WebAppSpec) { s.Replicas = new(int32(4)) })
		Eventually(field(deploymentOf(app), replicasOf)).WithContext(ctx).Should(Equal(int32(4)))
	})

	DescribeTable("rolls the pods once when its contents change",
		func(ctx context.Context, kind string, object func(namespace, value string) client.Object) {
			obj := object(namespace, canary)
			Expect(user.Create(ctx, obj)).To(Succeed())
			app := newApp(namespace, "web", using(appsv1.ConfigRef{Kind: kind, Name: "settings"}))
			createReady(ctx, app)
			settle(ctx)
			d := mustRead(ctx, deploymentOf(app))
			generation, restart := d.Generation, strings.ToLower(kind)+".fettle.dev/settings"
			Expect(d.Annotations).To(HaveKey(restart))
			Expect(d.Spec.Template.Annotations).NotTo(HaveKey(restart))

			By("changing its labels only")
			requests := countRequests(ctx, namespace)
			patch(ctx, obj, `{"metadata":{"labels":{"team":"a"}}}`)
			Consistently(ctx.Err, still).Should(Succeed())
			Expect(requests.summary(ctx).Writes()).To(BeZero(), requests.summary(ctx).String())

			By("changing its contents")
			requests = countRequests(ctx, namespace)
			changed := object(namespace, canary+"-changed")
			Expect(user.Update(ctx, changed)).To(Succeed())
			Eventually(func() map[string]string { return mustRead(ctx, d).Spec.Template.Annotations }).Should(HaveKey(restart))
			Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
			settle(ctx)
			Expect(mustRead(ctx, d).Generation).To(Equal(generation + 1))
			summary := requests.summary(ctx)
			Expect(to(summary, "deployments.apps", "").Writes()).To(Equal(1), summary.String())
			Expect(seriesOf(namespace)).To(ContainElement("fettle_config_changes_total"))

			By("looking for its contents")
			for _, o := range append(childKinds()[:3], app) {
				text, err := json.Marshal(mustRead(ctx, child(app, o)))
				Expect(err).NotTo(HaveOccurred())
				Expect(string(text)).NotTo(ContainSubstring(canary))
			}

			By("restarting the operator")
			requests = countRequests(ctx, namespace)
			runningOperator.restart()
			requests.expectIdle(ctx)
		},
		Entry("ConfigMap", "ConfigMap", func(n, v string) client.Object { return configMap(n, v) }),
		Entry("Secret", "Secret", func(n, v string) client.Object { return secret(n, v) }),
	)
})

func mustRead[O client.Object](ctx context.Context, obj O) O {
	GinkgoHelper()
	Expect(read(ctx, obj)).To(Succeed())
	return obj
}
