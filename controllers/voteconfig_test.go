package controllers_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	votingv1alpha1 "github.com/fettle-dev/fettle/api/voting/v1alpha1"
)

var _ = Describe("A VoteConfig", func() {
	var namespace string
	BeforeEach(func(ctx context.Context) { namespace = newVoteNamespace(ctx) })

	It("publishes its options, with one write for the ConfigMap and one for the status", func(ctx context.Context) {
		requests := countRequests(ctx, namespace)
		vc := newVote(namespace, "vote", "Cats", "Dogs")
		vc.Spec.Options[0].Color = "#FF6B6B"
		createVoteReady(ctx, vc)
		Expect(vc.Finalizers).To(BeEmpty())
		Expect(vc.Status.OptionsSummary).To(Equal("Cats,Dogs"))
		Expect(vc.Status.OptionCount).To(Equal(int32(2)))
		Expect(vc.Status.ConfigMapName).To(Equal("vote-config"))
		Expect(vc.Status.ConfigMapRef.Name).To(Equal("vote-config"))
		Expect(vc.Status.LastUpdated.Time).To(BeTemporally("~", time.Now(), time.Minute))
		Expect(vc.Status.Phase).To(Equal(votingv1alpha1.PhaseRunning))
		data := dataOf(ctx, namespace, "vote-config")
		Expect(data).To(HaveKeyWithValue("options.txt", "a:Cats:#FF6B6B\nb:Dogs:\n"))
		Expect(data).To(HaveKeyWithValue("OPTION_A", "Cats"))
		Expect(data).To(HaveKeyWithValue("TITLE", "Vote Now!"))
		settle(ctx)
		summary := requests.summary(ctx)
		Expect(summary.Writes()).To(Equal(2), summary.String())
		Expect(summary.LiveReads()).To(BeZero(), summary.String())
		Expect(voteEvents(ctx, vc)).To(ConsistOf("Normal Ready"))
	})

	It("does not share a ConfigMap with another VoteConfig or an AppConfig", func(ctx context.Context) {
		first, second, third := newVote(namespace, "first", "Cats", "Dogs"), newVote(namespace, "second", "Go", "Rust"), newVote(namespace, "third", "A", "B")
		first.Spec.Target.ConfigMapName, second.Spec.Target.ConfigMapName, third.Spec.Target.ConfigMapName = "shared", "shared", "shop-config"
		createVoteReady(ctx, first)
		createConfigReady(ctx, newConfig(namespace, "shop"))
		for _, vc := range []*votingv1alpha1.VoteConfig{second, third} {
			Expect(user.Create(ctx, vc)).To(Succeed())
			Eventually(voteReady).WithContext(ctx).WithArguments(vc).Should(Equal("False NameConflict"))
		}
		Expect(voteMessage(second)).To(ContainSubstring("controlled by VoteConfig first"))
		Expect(voteMessage(third)).To(ContainSubstring("controlled by AppConfig shop"))
		changeVote(ctx, first, func(s *votingv1alpha1.VoteConfigSpec) { s.Options[0].Label = "Apes" })
		Eventually(dataOf).WithContext(ctx).WithArguments(namespace, "shared").Should(HaveKeyWithValue("OPTION_A", "Apes"))

		By("deleting the first")
		Expect(user.Delete(ctx, first)).To(Succeed())
		Eventually(func() bool { return apierrors.IsNotFound(read(ctx, first)) }).Should(BeTrue())
		Expect(user.Delete(ctx, mapNamed(namespace, "shared"))).To(Succeed()) // what the garbage collector does
		Eventually(voteReady).WithContext(ctx).WithArguments(second).Should(Equal("True Ready"))
	})

	It("removes its annotations from workloads when it is deleted, but not those of pods", func(ctx context.Context) {
		d := consumer(namespace, "app", "vote-config")
		createRunning(ctx, d)
		vc := newVote(namespace, "vote", "Cats", "Dogs")
		createVoteReady(ctx, vc)
		changeVote(ctx, vc, func(s *votingv1alpha1.VoteConfigSpec) { s.Options[0].Label = "Apes" })
		Eventually(field(d, restarts("vote"))).WithContext(ctx).ShouldNot(BeEmpty())
		Eventually(voteReady).WithContext(ctx).WithArguments(vc).Should(Equal("True Ready"))
		template := mustRead(ctx, d).Spec.Template
		Expect(noteOf("vote")(d)).NotTo(BeEmpty())
		Expect(user.Delete(ctx, vc)).To(Succeed())
		Eventually(func() bool { return apierrors.IsNotFound(read(ctx, vc)) }).Should(BeTrue())
		Eventually(field(d, noteOf("vote"))).WithContext(ctx).Should(BeEmpty())
		Expect(d.Spec.Template).To(Equal(template), "a deletion restarts nothing")
		Expect(mustRead(ctx, mapNamed(namespace, "vote-config")).OwnerReferences).To(HaveLen(1)) // the garbage collector's
	})

	It("is deleted although the API server rejects the removal of its annotations", func(ctx context.Context) {
		d := consumer(namespace, "app", "vote-config")
		createRunning(ctx, d)
		vc := newVote(namespace, "vote", "Cats", "Dogs")
		createVoteReady(ctx, vc)
		Eventually(field(d, noteOf("vote"))).WithContext(ctx).ShouldNot(BeEmpty())
		freezeDeployments(ctx, namespace)
		Expect(user.Delete(ctx, vc)).To(Succeed())
		Eventually(func() bool { return apierrors.IsNotFound(read(ctx, vc)) }).Should(BeTrue())
		Expect(noteOf("vote")(mustRead(ctx, d))).NotTo(BeEmpty())
	})

	It("is deleted without the operator, which removes its annotations when it runs again", func(ctx context.Context) {
		d := consumer(namespace, "app", "vote-config")
		createRunning(ctx, d)
		vc := newVote(namespace, "vote", "Cats", "Dogs")
		createVoteReady(ctx, vc)
		Eventually(field(d, noteOf("vote"))).WithContext(ctx).ShouldNot(BeEmpty())
		runningOperator.stop()
		deleted := user.Delete(ctx, vc)
		err := read(ctx, vc)
		runningOperator.start()
		Expect(deleted).To(Succeed())
		Expect(err).To(Satisfy(apierrors.IsNotFound))
		Eventually(field(d, noteOf("vote"))).WithContext(ctx).Should(BeEmpty())
	})

	It("blocks nothing in a namespace that is being deleted", func(ctx context.Context) {
		vc := newVote(namespace, "vote", "Cats", "Dogs")
		createVoteReady(ctx, vc)
		Expect(user.Delete(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}})).To(Succeed())
		Expect(user.Delete(ctx, vc)).To(Succeed()) // what the namespace controller does
		Eventually(func() bool { return apierrors.IsNotFound(read(ctx, vc)) }).Should(BeTrue())
	})
})
