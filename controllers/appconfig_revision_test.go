package controllers_test

import (
	"context"
	"fmt"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	k8sappsv1 "k8s.io/api/apps/v1"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	"github.com/fettle-dev/fettle/internal/testenv"
)

func level(value string) func(*configv1.AppConfigSpec) {
	return func(s *configv1.AppConfigSpec) { s.Values["level"] = value }
}

var _ = Describe("The revisions of an AppConfig", func() {
	var namespace string
	BeforeEach(func(ctx context.Context) { namespace = newConfigNamespace(ctx) })
	published := func(ctx context.Context) string { return dataOf(ctx, namespace, "shop-config")["LOG_LEVEL"] }
	publish := func(ctx context.Context, cfg *configv1.AppConfig, value string) {
		GinkgoHelper()
		changeConfig(ctx, cfg, level(value))
		Eventually(published).WithContext(ctx).Should(Equal(value))
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("True Ready"))
	}

	It("are kept up to historyLimit, and published again by a rollback", func(ctx context.Context) {
		cfg := newConfig(namespace, "shop", func(s *configv1.AppConfigSpec) { s.Target.HistoryLimit = new(int32(2)) })
		createConfigReady(ctx, cfg)
		for i := range 4 {
			publish(ctx, cfg, fmt.Sprintf("level-%d", i+2))
		}
		Expect(cfg.Status.Revision).To(Equal(int64(5)))
		Eventually(configMaps).WithContext(ctx).WithArguments(namespace).Should(HaveLen(4)) // the target, the current copy, two earlier ones

		By("rolling back to the one before, though the present one is good")
		changeConfig(ctx, cfg, func(s *configv1.AppConfigSpec) { s.Rollback = &configv1.AppConfigRollback{} })
		Eventually(published).WithContext(ctx).Should(Equal("level-4"))
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("True Ready"))
		Expect(configCondition(ctx, cfg, "Published")).To(Equal("True RolledBack"))
		Expect(cfg.Status.Revision).To(Equal(int64(4)))
		Eventually(func() int64 { _ = read(ctx, cfg); return cfg.Status.LastGoodRevision }).Should(Equal(int64(4)))
		Consistently(published).WithContext(ctx).Should(Equal("level-4"))

		By("rolling back to one that is named")
		changeConfig(ctx, cfg, func(s *configv1.AppConfigSpec) { s.Rollback.ToRevision = 3 })
		Eventually(published).WithContext(ctx).Should(Equal("level-3"))

		By("repairing drift while rolled back")
		patch(ctx, mapNamed(namespace, "shop-config"), `{"data":{"LOG_LEVEL":"wrong"}}`)
		Eventually(published).WithContext(ctx).Should(Equal("level-3"))

		By("naming one that is not kept")
		changeConfig(ctx, cfg, func(s *configv1.AppConfigSpec) { s.Rollback.ToRevision = 1 })
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("False RevisionMissing"))
		Expect(configMessage(cfg, "Ready")).To(ContainSubstring("revision 1 is not kept"))
		Consistently(published).WithContext(ctx).Should(Equal("level-3"))

		By("going on")
		changeConfig(ctx, cfg, func(s *configv1.AppConfigSpec) { s.Rollback = nil })
		Eventually(published).WithContext(ctx).Should(Equal("level-5"))
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("True Ready"))
		Expect(cfg.Status.Revision).To(Equal(int64(5)))

		By("asking for earlier contents again")
		publish(ctx, cfg, "level-4")
		Expect(cfg.Status.Revision).To(Equal(int64(6)))
	})

	It("go back by themselves when a rollout fails, until something else is rendered", func(ctx context.Context) {
		cfg := newConfig(namespace, "shop", func(s *configv1.AppConfigSpec) { s.Rollout.AutoRollback = true })
		createConfigReady(ctx, cfg)
		d := consumer(namespace, "web", "shop-config")
		createRunning(ctx, d)
		publish(ctx, cfg, "good")
		settle(ctx)
		generation := mustRead(ctx, d).Generation
		fakeKubelet.Set(namespace, "web", testenv.Rollout{Waiting: "CrashLoopBackOff", DeadlineExceeded: true})
		changeConfig(ctx, cfg, level("bad"))
		Eventually(func() string { _ = read(ctx, cfg); return cfg.Status.FailedHash }).WithContext(ctx).ShouldNot(BeEmpty())
		fakeKubelet.Set(namespace, "web", testenv.Rollout{})
		Eventually(published).WithContext(ctx).Should(Equal("good"))
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("False RolledBack"))
		Expect(configCondition(ctx, cfg, "RolledOut")).To(Equal("False RolledBack"))
		Expect(cfg.Status.Revision).To(Equal(int64(2)))
		settle(ctx)
		Expect(published(ctx)).To(Equal("good"))
		Expect(mustRead(ctx, d).Generation).To(Equal(generation + 2)) // to the bad one and back

		By("restarting the operator")
		everywhere := countRequests(ctx, "")
		runningOperator.restart()
		settle(ctx)
		everywhere.expectIdle(ctx)

		By("rendering something else")
		publish(ctx, cfg, "better")
		Expect(cfg.Status.FailedHash).To(BeEmpty())
	})

	It("have names of their own in mode Versioned, and go when nothing uses them", func(ctx context.Context) {
		cfg := newConfig(namespace, "shop", func(s *configv1.AppConfigSpec) {
			s.Target.Mode, s.Target.HistoryLimit = configv1.TargetVersioned, new(int32(1))
		})
		createConfigReady(ctx, cfg)
		Expect(cfg.Status.ConfigMapName).To(Equal("shop-config-" + cfg.Status.Hash[:10]))
		Expect(configMaps(ctx, namespace)).To(ConsistOf(cfg.Status.ConfigMapName))
		d := consumer(namespace, "web", "shop-config")
		Expect(user.Create(ctx, d)).To(Succeed())
		used := field(d, func(d *k8sappsv1.Deployment) string {
			return d.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name
		})
		Eventually(used).WithContext(ctx).Should(Equal(cfg.Status.ConfigMapName))
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("True Ready"))
		for i := range 4 {
			revision := cfg.Status.Revision
			changeConfig(ctx, cfg, level(fmt.Sprintf("level-%d", i)))
			Eventually(func() int64 { _ = read(ctx, cfg); return cfg.Status.Revision }).Should(Equal(revision + 1))
			Eventually(used).WithContext(ctx).Should(Equal(cfg.Status.ConfigMapName))
			Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("True Ready"))
		}
		Eventually(configMaps).WithContext(ctx).WithArguments(namespace).Should(And(HaveLen(2), ContainElement(cfg.Status.ConfigMapName)))
		for _, name := range configMaps(ctx, namespace) {
			Expect(strings.HasPrefix(name, "shop-config-")).To(BeTrue())
		}

		By("rolling back")
		before := cfg.Status.ConfigMapName
		changeConfig(ctx, cfg, func(s *configv1.AppConfigSpec) { s.Rollback = &configv1.AppConfigRollback{} })
		Eventually(used).WithContext(ctx).ShouldNot(Equal(before))
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("True Ready"))
		Expect(mustRead(ctx, d).Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name).To(Equal(cfg.Status.ConfigMapName))
		Expect(configMaps(ctx, namespace)).To(ContainElement(before))
		changeConfig(ctx, cfg, func(s *configv1.AppConfigSpec) { s.Rollback = nil })
		Eventually(used).WithContext(ctx).Should(Equal(before))

		By("doing nothing, also after a restart")
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("True Ready"))
		settle(ctx)
		everywhere := countRequests(ctx, "")
		everywhere.expectIdle(ctx)
		runningOperator.restart()
		settle(ctx)
		everywhere.expectIdle(ctx)
	})
})
