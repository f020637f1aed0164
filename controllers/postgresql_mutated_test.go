package controllers_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

var _ = Describe("What others write into the children of a PostgreSQL", func() {
	It("causes no write, and replaces no instance", func(ctx context.Context) {
		namespace, fake := newDatabases(ctx)
		pg := newPostgreSQL(namespace, "mutated", instances(2))
		createDatabase(ctx, pg)
		settle(ctx)
		everywhere := countRequests(ctx, "")
		By("adding labels, a sidecar, a volume, defaulted fields and the status of a load balancer")
		patch(ctx, setOf(pg), `[
			{"op":"add","path":"/spec/template/metadata/labels/mesh.example.com~1rev","value":"1"},
			{"op":"add","path":"/spec/template/spec/containers/-","value":{"name":"mesh","image":"example.com/mesh"}},
			{"op":"add","path":"/spec/template/spec/volumes/-","value":{"name":"mesh","emptyDir":{}}},
			{"op":"add","path":"/spec/minReadySeconds","value":3}]`)
		service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pg.Name}}
		patch(ctx, service, `{"metadata":{"annotations":{"cloud.example.com/zone":"a"}},"spec":{"sessionAffinity":"ClientIP","externalTrafficPolicy":null}}`)
		Expect(user.Status().Patch(ctx, service, client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":[
			{"type":"Programmed","status":"True","reason":"Done","message":"","lastTransitionTime":"2026-01-01T00:00:00Z"}]}}`)))).To(Succeed())
		touchAll(ctx, namespace, "x")
		settle(ctx)
		everywhere.expectIdle(ctx)
		fake.Update(func(d *databases) { Expect(d.Replaced).To(BeEmpty()) })

		By("changing one child, which costs that person's write and the operator's")
		requests := countRequests(ctx, namespace)
		patch(ctx, service, `{"spec":{"selector":{"fettle.dev/role":"replica"}}}`)
		Eventually(field(service, func(s *corev1.Service) string { return s.Spec.Selector["fettle.dev/role"] })).WithContext(ctx).Should(Equal("primary"))
		settle(ctx)
		Expect(requests.summary(ctx).Writes()).To(Equal(1), requests.summary(ctx).String())

		By("changing the spec in a way that changes one child, which costs that and the status")
		requests = countRequests(ctx, namespace)
		changeDatabase(ctx, pg, func(pg *databasev1alpha1.PostgreSQL) { pg.Spec.TLS.DNSNames = []string{"db.example.com"} })
		Eventually(pgReady).WithContext(ctx).WithArguments(pg).Should(Equal("True Ready"))
		settle(ctx)
		Expect(requests.summary(ctx).Writes()).To(Equal(2), requests.summary(ctx).String())
	})
})
