package controllers_test

import (
	"context"
	"errors"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

// newNode is a node of one spec, on which the fake runs pods.
func newNode(ctx context.Context, name string) *corev1.Node {
	GinkgoHelper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	Expect(user.Create(ctx, node)).To(Succeed())
	DeferCleanup(func(ctx context.Context) { Expect(client.IgnoreNotFound(user.Delete(ctx, node))).To(Succeed()) })
	return node
}

// cordon has a node take no pods, or take them again.
func cordon(ctx context.Context, node *corev1.Node, closed bool) {
	GinkgoHelper()
	before := node.DeepCopy()
	node.Spec.Unschedulable = closed
	Expect(user.Patch(ctx, node, client.MergeFrom(before))).To(Succeed())
}

// taint has a node take no pods by a taint alone, or take them again.
func taint(ctx context.Context, node *corev1.Node, closed bool) {
	GinkgoHelper()
	const key = "karpenter.sh/disrupted"
	before := node.DeepCopy()
	node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
	if closed {
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectNoSchedule})
	}
	Expect(user.Patch(ctx, node, client.MergeFrom(before))).To(Succeed())
}

// evicted evicts the pod as soon as its budget allows it, and says which role it had then.
func evicted(ctx context.Context, fake *databases, namespace, name string) (role string) {
	GinkgoHelper()
	Eventually(func(ctx context.Context) error {
		pod := &corev1.Pod{}
		if err := user.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, pod); err != nil {
			return err
		}
		if pod.Spec.NodeName == "" {
			return errors.New("it has no node yet")
		}
		role = pod.Labels[databasev1alpha1.LabelRole]
		return fake.Evict(ctx, pod)
	}, "60s").WithContext(ctx).Should(Succeed(), "the drain waits for %s", name)
	return role
}

// away is how many instances the PodDisruptionBudget lets be away at a time.
func away(pg *databasev1alpha1.PostgreSQL) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: pg.Namespace, Name: pg.Name}}
		if err := read(ctx, budget); err != nil {
			return 0, err
		}
		return budget.Spec.MaxUnavailable.IntValue(), nil
	}
}

var _ = Describe("A drain of a node that has the volumes of a PostgreSQL", func() {
	DescribeTable("waits for none that can't come back, after the primary was moved away", func(ctx context.Context, closing func(context.Context, *corev1.Node, bool)) {
		namespace, fake := newDatabases(ctx)
		node, other := newNode(ctx, namespace+"-a"), newNode(ctx, namespace+"-b")
		fake.Update(func(d *databases) {
			d.VolumeNodes["local-0"], d.VolumeNodes["local-1"], d.VolumeNodes["local-2"] = node.Name, node.Name, other.Name
		})
		pg := newPostgreSQL(namespace, "local", instances(3))
		createDatabase(ctx, pg)
		Expect(pg.Status.Primary).To(Equal("local-0"))
		Expect(away(pg)(ctx)).To(Equal(1))
		requests := countRequests(ctx, namespace)

		By("draining the node of two, the replica first")
		closing(ctx, node, true)
		Expect(evicted(ctx, fake, namespace, "local-1")).To(Equal(databasev1alpha1.LabelRoleReplica))
		Expect(evicted(ctx, fake, namespace, "local-0")).To(Equal(databasev1alpha1.LabelRoleReplica), "it was evicted as the primary")
		Eventually(field(pg, func(pg *databasev1alpha1.PostgreSQL) string { return pg.Status.Primary })).WithContext(ctx).Should(Equal("local-2"))
		Eventually(pgSays(pg, databasev1alpha1.PostgreSQLInstancesReady)).WithContext(ctx).
			Should(MatchRegexp("^False Unschedulable: pod local-[01] cannot be scheduled: no node that takes pods can use its volume. It starts when .* kubectl uncordon"))
		Eventually(away(pg), "60s").WithContext(ctx).Should(Equal(1), "nobody is to leave any more")

		By("draining the other node too")
		closing(ctx, other, true)
		evicted(ctx, fake, namespace, "local-2")
		Eventually(pgSays(pg, databasev1alpha1.PostgreSQLPrimaryReady)).WithContext(ctx).
			Should(HavePrefix("False NoPrimary: no primary, because no instance has a node: pod local-0 cannot be scheduled"))
		requests.expectNothingDeleted(ctx)

		By("opening both again")
		closing(ctx, node, false)
		closing(ctx, other, false)
		fake.Update(func(*databases) {})
		Eventually(pgReady, "60s").WithContext(ctx).WithArguments(pg).Should(Equal("True Ready"))
		Eventually(away(pg), "60s").WithContext(ctx).Should(Equal(1))
		requests.expectNothingDeleted(ctx)
	},
		Entry("as kubectl drain closes it", cordon),
		Entry("as autoscalers close it", taint),
	)

	It("counts an instance that waits for its node while no other is to leave one", func(ctx context.Context) {
		namespace, fake := newDatabases(ctx)
		node, other := newNode(ctx, namespace+"-a"), newNode(ctx, namespace+"-b")
		fake.Update(func(d *databases) { d.VolumeNodes["apart-0"], d.VolumeNodes["apart-1"] = node.Name, other.Name })
		pg := newPostgreSQL(namespace, "apart", instances(2))
		createDatabase(ctx, pg)
		cordon(ctx, other, true)
		evicted(ctx, fake, namespace, "apart-1")
		Eventually(pgSays(pg, databasev1alpha1.PostgreSQLInstancesReady)).WithContext(ctx).Should(HavePrefix("False Unschedulable: pod apart-1"))
		Consistently(away(pg)).WithContext(ctx).Should(Equal(1))
		pod := &corev1.Pod{}
		Expect(user.Get(ctx, client.ObjectKey{Namespace: namespace, Name: "apart-0"}, pod)).To(Succeed())
		Expect(fake.Evict(ctx, pod)).To(Satisfy(apierrors.IsTooManyRequests), "the only one that serves")
	})
})
