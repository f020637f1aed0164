package controllers_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	k8sappsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

// databaseChildren are the kinds of what the operator makes for a PostgreSQL, but for its Lease, which counts as no write.
func databaseChildren() []client.ObjectList {
	return []client.ObjectList{
		&corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &corev1.SecretList{}, &corev1.ServiceList{},
		&policyv1.PodDisruptionBudgetList{}, &networkingv1.NetworkPolicyList{}, &k8sappsv1.StatefulSetList{},
	}
}

// touchAll has somebody else label and annotate all that belongs to the PostgreSQLs of a namespace.
func touchAll(ctx context.Context, namespace string) {
	GinkgoHelper()
	lists := append(databaseChildren(), &coordinationv1.LeaseList{}, &corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &databasev1alpha1.PostgreSQLList{})
	for _, list := range lists {
		Expect(user.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		Expect(meta.EachListItem(list, func(o runtime.Object) error {
			return user.Patch(ctx, o.(client.Object), client.RawPatch(types.MergePatchType,
				[]byte(`{"metadata":{"labels":{"example.com/team":"x"},"annotations":{"example.com/note":"y"}}}`)))
		})).To(Succeed())
	}
}

var _ = Describe("20 PostgreSQLs that are Ready", func() {
	It("cost nothing while idle, when touched, and after a restart", func(ctx context.Context) {
		namespace, _ := newDatabases(ctx)
		requests := countRequests(ctx, namespace)
		var all []*databasev1alpha1.PostgreSQL
		for i := range 20 {
			pg := newPostgreSQL(namespace, fmt.Sprintf("db-%d", i), instances(3))
			if i%4 == 3 {
				pg.Spec.Roles = []databasev1alpha1.PostgreSQLRole{{Name: "reader"}}
			}
			Expect(user.Create(ctx, pg)).To(Succeed())
			all = append(all, pg)
		}
		for _, pg := range all {
			Eventually(pgReady, "60s").WithContext(ctx).WithArguments(pg).Should(Equal("True Ready"))
		}
		settle(ctx)
		Expect(warnings(ctx, namespace, "PostgreSQL")).To(BeEmpty())
		created, children := requests.summary(ctx), 0
		for _, list := range databaseChildren() {
			Expect(user.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
			children += meta.LenList(list)
		}
		Expect(children).To(BeNumerically(">", 20*12))
		// Each child is written once. The status is written when it is Ready, and once before where that takes more than moments.
		status := to(created, "postgresqls.database.fettle.dev", "status").Writes()
		Expect(created.Writes()-status).To(Equal(children), created.String())
		Expect(float64(created.Writes())).To(BeNumerically("<=", 1.1*float64(children+len(all))), created.String())
		AddReportEntry("writes of creation / (children + 1)", float64(created.Writes())/float64(children+len(all)))
		// Whether there is a Secret is asked of the API server before one with a key or a password is made.
		Expect(to(created, "secrets", "").LiveReads()).To(BeNumerically("<=", 2*len(all)+len(all)/4), created.String())

		By("doing nothing")
		everywhere := countRequests(ctx, "")
		settle(ctx)
		everywhere.expectIdle(ctx)

		By("touching each, and all that belongs to it")
		everywhere = countRequests(ctx, "")
		touchAll(ctx, namespace)
		settle(ctx)
		everywhere.expectIdle(ctx)

		By("restarting the operator")
		everywhere = countRequests(ctx, "")
		runningOperator.restart()
		settle(ctx)
		everywhere.expectIdle(ctx)
	})
})

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
		touchAll(ctx, namespace)
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
