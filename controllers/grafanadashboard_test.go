package controllers_test

import (
	"context"
	"encoding/json"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var _ = Describe("The operator", func() {
	It("keeps dashboards for Grafana in its namespace, unless a flag disables them", func(ctx context.Context) {
		dashboards := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: "fettle-dashboards"}}
		content := field(dashboards, func(m *corev1.ConfigMap) string { return m.Data["fettle-postgresql.json"] })
		Eventually(content).WithContext(ctx).Should(ContainSubstring(`"title": "Fettle / PostgreSQL"`))
		Expect(dashboards.Labels).To(HaveKeyWithValue("grafana_dashboard", "1"))
		Expect(json.Valid([]byte(dashboards.Data["fettle-postgresql.json"]))).To(BeTrue())

		By("reverting changes, and keeping additions")
		patch(ctx, dashboards, `{"data":{"fettle-postgresql.json":"{}"},"metadata":{"annotations":{"grafana_folder":"Databases"}}}`)
		Eventually(content).WithContext(ctx).Should(ContainSubstring(`"title": "Fettle / PostgreSQL"`))
		Expect(dashboards.Annotations).To(HaveKeyWithValue("grafana_folder", "Databases"))

		By("making no requests while nothing changes, also after a restart")
		settle(ctx)
		requests := countRequests(ctx, operatorNamespace)
		runningOperator.restart()
		settle(ctx)
		requests.expectIdle(ctx)

		By("re-creating them, owned by the Deployment")
		owner := &k8sappsv1.Deployment{
			ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: "fettle-controller-manager"},
			Spec: k8sappsv1.DeploymentSpec{
				Replicas: new(int32(0)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "fettle"}},
				Template: corev1.PodTemplateSpec{
					ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "fettle"}},
					Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "manager", Image: "fettle"}}},
				},
			},
		}
		Expect(user.Create(ctx, owner)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(user.Delete(ctx, owner)).To(Succeed()) })
		Expect(user.Delete(ctx, dashboards)).To(Succeed())
		Eventually(field(dashboards, func(m *corev1.ConfigMap) []metav1.OwnerReference { return m.OwnerReferences })).
			WithContext(ctx).Should(ConsistOf(HaveField("UID", owner.UID)))

		By("deleting them when they are not wanted")
		runningOperator.stop()
		runningOperator.plain = true
		runningOperator.start()
		DeferCleanup(func() {
			runningOperator.stop()
			runningOperator.plain = false
			runningOperator.start()
		})
		Eventually(func() error { return read(ctx, dashboards) }).Should(Satisfy(apierrors.IsNotFound))

		By("not touching a ConfigMap of another owner")
		foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: "fettle-dashboards"}}
		Expect(user.Create(ctx, foreign)).To(Succeed())
		DeferCleanup(func(ctx context.Context) { Expect(user.Delete(ctx, foreign)).To(Succeed()) })
		runningOperator.stop()
		runningOperator.plain = false
		runningOperator.start()
		settle(ctx)
		Expect(read(ctx, foreign)).To(Succeed())
		Expect(foreign.Labels).To(BeEmpty())
		Expect(foreign.Data).To(BeEmpty())
	})
})
