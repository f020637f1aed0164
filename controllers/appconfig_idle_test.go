package controllers_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
)

var _ = Describe("20 AppConfigs that are Ready", func() {
	It("cost nothing while idle, when touched, and after a restart", func(ctx context.Context) {
		namespace := newConfigNamespace(ctx)
		Expect(user.Create(ctx, configMap(namespace, "a"))).To(Succeed())
		Expect(user.Create(ctx, secret(namespace, "b"))).To(Succeed())
		requests := countRequests(ctx, namespace)
		var cfgs []*configv1.AppConfig
		children := 0
		for i := range 20 {
			cfg := newConfig(namespace, fmt.Sprintf("app-%d", i))
			switch i % 4 {
			case 0:
				children += 2
			case 1:
				valuesFrom(&cfg.Spec)
				children += 4
			case 2:
				cfg.Spec.Target.Mode = configv1.TargetVersioned
				children++
			case 3:
				cfg.Spec.Target.HistoryLimit = new(int32(0))
				children++
			}
			Expect(user.Create(ctx, cfg)).To(Succeed())
			cfgs = append(cfgs, cfg)
		}
		for _, cfg := range cfgs {
			Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("True Ready"))
		}
		settle(ctx)
		created := requests.summary(ctx)
		Expect(created.Writes()).To(Equal(children+len(cfgs)), created.String())

		By("giving each a workload")
		for i, cfg := range cfgs {
			createRunning(ctx, consumer(namespace, fmt.Sprintf("web-%d", i), cfg.Status.ConfigMapName))
		}
		for _, cfg := range cfgs {
			Eventually(func() int { _ = read(ctx, cfg); return len(cfg.Status.Dependents) }).WithContext(ctx).Should(Equal(1))
			Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("True Ready"))
		}
		settle(ctx)

		touchAll := func(value string) {
			for _, cfg := range cfgs {
				patch(ctx, cfg, `{"metadata":{"annotations":{"fettle.dev/reconcile-at":%q}}}`, value)
			}
		}
		everywhere := countRequests(ctx, "")
		By("doing nothing")
		settle(ctx)
		everywhere.expectIdle(ctx)
		By("touching each")
		touchAll("1")
		settle(ctx)
		everywhere.expectIdle(ctx)
		By("restarting the operator")
		everywhere = countRequests(ctx, "")
		runningOperator.restart()
		settle(ctx)
		everywhere.expectIdle(ctx)
		By("touching each again")
		touchAll("2")
		settle(ctx)
		everywhere.expectIdle(ctx)

		By("mutating the published objects and their users, as other clients do")
		for i, cfg := range cfgs {
			patch(ctx, mapNamed(namespace, cfg.Status.ConfigMapName), `{"metadata":{"labels":{"foreign":"x"},"annotations":{"foreign":"y"}}}`)
			patch(ctx, consumer(namespace, fmt.Sprintf("web-%d", i), ""), `{"metadata":{"labels":{"foreign":"x"},"annotations":{"foreign":"y"}}}`)
		}
		settle(ctx)
		everywhere.expectIdle(ctx)
	})
})
