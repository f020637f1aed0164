package controllers_test

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	k8sappsv1 "k8s.io/api/apps/v1"

	votingv1alpha1 "github.com/fettle-dev/fettle/api/voting/v1alpha1"
)

var _ = Describe("A change of a VoteConfig", func() {
	var namespace string
	BeforeEach(func(ctx context.Context) { namespace = newVoteNamespace(ctx) })

	It("restarts what uses a key that changed, once, and nothing else", func(ctx context.Context) {
		vc := newVote(namespace, "vote", "Cats", "Dogs")
		createVoteReady(ctx, vc)
		all, one, other := consumer(namespace, "all", "vote-config"), reader(namespace, "one", "vote-config", "OPTION_A"), reader(namespace, "other", "vote-config", "OPTION_B")
		named, foreign := consumer(namespace, "named", "elsewhere"), consumer(namespace, "foreign", "elsewhere")
		everybody := []*k8sappsv1.Deployment{all, one, other, named, foreign}
		for _, d := range everybody {
			createRunning(ctx, d)
		}
		changeVote(ctx, vc, func(s *votingv1alpha1.VoteConfigSpec) { s.Target.Deployments = []string{"named"} })
		Eventually(voteReady).WithContext(ctx).WithArguments(vc).Should(Equal("True Ready"))
		settle(ctx)
		for _, d := range everybody {
			Expect(restarts("vote")(mustRead(ctx, d))).To(BeEmpty(), d.Name)
		}
		Expect(mustRead(ctx, vc).Status.Dependents).To(HaveLen(4))

		requests := countRequests(ctx, namespace)
		changeVote(ctx, vc, func(s *votingv1alpha1.VoteConfigSpec) { s.Options[0].Label = "Apes" })
		for _, d := range []*k8sappsv1.Deployment{all, one, named} {
			Eventually(field(d, restarts("vote"))).WithContext(ctx).ShouldNot(BeEmpty(), d.Name)
		}
		Eventually(voteReady).WithContext(ctx).WithArguments(vc).Should(Equal("True Ready"))
		settle(ctx)
		Expect(restarts("vote")(mustRead(ctx, other))).To(BeEmpty())
		Expect(restarts("vote")(mustRead(ctx, foreign))).To(BeEmpty())
		summary := requests.summary(ctx)
		// The new data change what "other" uses nothing of; three are restarted, each in one write.
		Expect(to(summary, "deployments.apps", "").Writes()).To(Equal(3), summary.String())
		Expect(to(summary, "configmaps", "").Writes()).To(Equal(1), summary.String())
		Expect(voteEvents(ctx, vc)).To(ContainElement("Normal Restarted"))
		Expect(len(voteEvents(ctx, vc))).To(BeNumerically("<=", 3))

		By("restarting the operator")
		requests = countRequests(ctx, namespace)
		runningOperator.restart()
		settle(ctx)
		requests.expectIdle(ctx)
	})

	DescribeTable("restarts by mode", func(ctx context.Context, mode votingv1alpha1.RestartMode, env, mounted, named bool) {
		vc := newVote(namespace, "vote", "Cats", "Dogs")
		vc.Spec.Target.Mode, vc.Spec.Target.Deployments = mode, []string{"named"}
		createVoteReady(ctx, vc)
		restarted := map[*k8sappsv1.Deployment]bool{
			consumer(namespace, "env", "vote-config"): env, mounter(namespace, "mounted", "vote-config"): mounted, mounter(namespace, "named", "vote-config"): named,
		}
		for d := range restarted {
			createRunning(ctx, d)
		}
		settle(ctx)
		changeVote(ctx, vc, func(s *votingv1alpha1.VoteConfigSpec) { s.Options[0].Label = "Apes" })
		Eventually(dataOf).WithContext(ctx).WithArguments(namespace, "vote-config").Should(HaveKeyWithValue("OPTION_A", "Apes"))
		for d, want := range restarted {
			if want {
				Eventually(field(d, restarts("vote"))).WithContext(ctx).ShouldNot(BeEmpty(), d.Name)
			}
		}
		Eventually(voteReady).WithContext(ctx).WithArguments(vc).Should(Equal("True Ready"))
		settle(ctx)
		for d, want := range restarted {
			if restart := restarts("vote")(mustRead(ctx, d)); want {
				Expect(restart).NotTo(BeEmpty(), d.Name)
			} else {
				Expect(restart).To(BeEmpty(), d.Name)
			}
			if mode == votingv1alpha1.RestartNone {
				Expect(noteOf("vote")(d)).To(BeEmpty(), "mode None writes to no workload")
			}
		}
	},
		Entry("Mount", votingv1alpha1.RestartMount, true, false, true),
		Entry("None", votingv1alpha1.RestartNone, false, false, false),
	)

	It("warns of options that the stock image does not show", func(ctx context.Context) {
		d := consumer(namespace, "app", "vote-config")
		d.Spec.Template.Spec.Containers[0].Image = "dockersamples/examplevotingapp_vote:latest"
		createRunning(ctx, d)
		vc := newVote(namespace, "vote", "Cats", "Dogs")
		createVoteReady(ctx, vc)
		changeVote(ctx, vc, func(s *votingv1alpha1.VoteConfigSpec) {
			s.Options = append(s.Options, votingv1alpha1.VoteOption{ID: "c", Label: "Birds"})
		})
		Eventually(voteReady).WithContext(ctx).WithArguments(vc).Should(Equal("True OptionsNotShown"))
		Expect(voteMessage(vc)).To(ContainSubstring(`Deployment "app" runs dockersamples/examplevotingapp_vote:latest, which shows only the options a and b, not c`))
		Eventually(voteEvents).WithContext(ctx).WithArguments(vc).Should(ContainElement("Warning OptionsNotShown"))
		changeVote(ctx, vc, func(s *votingv1alpha1.VoteConfigSpec) { s.Options = s.Options[:2] })
		Eventually(voteReady).WithContext(ctx).WithArguments(vc).Should(Equal("True Ready"))
	})
})
