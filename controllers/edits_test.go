package controllers_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	k8sappsv1 "k8s.io/api/apps/v1"

	"github.com/fettle-dev/fettle/internal/rollout"
)

var _ = Describe("A change of a published ConfigMap by another client", func() {
	// expectRepaired changes a key of a ConfigMap that was published long ago, and wants it back without a restart.
	expectRepaired := func(ctx context.Context, d *k8sappsv1.Deployment, configMap, key, note string) {
		GinkgoHelper()
		Eventually(noteOn(d, note)).WithContext(ctx).ShouldNot(BeEmpty())
		published := mapNamed(d.Namespace, configMap)
		patch(ctx, published, `{"metadata":{"annotations":{%q:%q}}}`, rollout.PublishedAnnotation, time.Now().Add(-time.Hour).UTC().Format(time.RFC3339))
		settle(ctx)
		Expect(read(ctx, d)).To(Succeed())
		was := d.Annotations[note]
		Expect(read(ctx, published)).To(Succeed())
		want := published.Data
		patch(ctx, published, `{"data":{%q:"foreign"}}`, key)
		Eventually(dataOf).WithContext(ctx).WithArguments(d.Namespace, configMap).Should(Equal(want))
		settle(ctx)
		Expect(read(ctx, d)).To(Succeed())
		Expect(d.Annotations).To(HaveKeyWithValue(note, was))
		Expect(d.Spec.Template.Annotations).NotTo(HaveKey(note))
	}

	It("is reverted without a restart of the pods: of an AppConfig", func(ctx context.Context) {
		namespace := newConfigNamespace(ctx)
		createConfigReady(ctx, newConfig(namespace, "shop"))
		d := consumer(namespace, "web", "shop-config")
		createRunning(ctx, d)
		expectRepaired(ctx, d, "shop-config", "LOG_LEVEL", "config.fettle.dev/shop")
	})

	It("is reverted without a restart of the pods: of a VoteConfig", func(ctx context.Context) {
		namespace := newVoteNamespace(ctx)
		createVoteReady(ctx, newVote(namespace, "vote", "Cats", "Dogs"))
		d := consumer(namespace, "app", "vote-config")
		createRunning(ctx, d)
		expectRepaired(ctx, d, "vote-config", "option_a", "voting.fettle.dev/vote")
	})
})
