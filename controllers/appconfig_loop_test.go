package controllers_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
)

// growing takes values from a ConfigMap, and publishes what it finds there and one letter more.
func growing(from string) func(*configv1.AppConfigSpec) {
	return func(s *configv1.AppConfigSpec) {
		s.Values, s.Config = nil, map[string]string{"N": `{{ .Values.N | default "" }}x`}
		s.ValuesFrom = []configv1.AppConfigValuesSource{{ConfigMapRef: &configv1.AppConfigObjectRef{Name: from, Optional: true}}}
	}
}

var _ = Describe("AppConfigs that take values from each other", func() {
	var namespace string
	BeforeEach(func(ctx context.Context) { namespace = newConfigNamespace(ctx) })

	It("publish in a chain, and the last one of a cycle is rejected until the cycle is opened", func(ctx context.Context) {
		first, second, third := newConfig(namespace, "a", growing("c-config")), newConfig(namespace, "b", growing("a-config")), newConfig(namespace, "c", growing("b-config"))
		createConfigReady(ctx, first)
		createConfigReady(ctx, second)
		Expect(dataOf(ctx, namespace, "b-config")["N"]).To(Equal("xx"))

		By("closing the circle")
		requests := countRequests(ctx, namespace)
		Expect(user.Create(ctx, third)).To(Succeed())
		Eventually(configReady).WithContext(ctx).WithArguments(third).Should(Equal("False CircularValues"))
		Expect(configMessage(third, "Ready")).To(ContainSubstring("(c takes from b takes from a takes from c)"))
		settle(ctx)
		Expect([]string{configReady(ctx, first), configReady(ctx, second)}).To(HaveEach("True Ready"))
		Expect(requests.summary(ctx).Writes()).To(Equal(1), requests.summary(ctx).String()) // the status
		everywhere := countRequests(ctx, "")
		everywhere.expectIdle(ctx)

		By("opening it elsewhere, which changes no ConfigMap that the last one reads")
		changeConfig(ctx, first, func(s *configv1.AppConfigSpec) { s.ValuesFrom = nil })
		Eventually(configReady).WithContext(ctx).WithArguments(third).Should(Equal("True Ready"))
		Expect(dataOf(ctx, namespace, "c-config")["N"]).To(Equal("xxx"))
	})

	It("do no harm where the circle leads through another controller", func(ctx context.Context) {
		cfg := newConfig(namespace, "shop", growing("settings"))
		start, requests := time.Now(), countRequests(ctx, namespace)
		Expect(user.Create(ctx, cfg)).To(Succeed())
		Expect(user.Create(ctx, mapNamed(namespace, "settings"))).To(Succeed())
		echo := func() string { // what the other controller does
			data := dataOf(ctx, namespace, "shop-config")["N"]
			patch(ctx, mapNamed(namespace, "settings"), `{"data":{"N":%q}}`, data)
			return configReady(ctx, cfg)
		}
		Eventually(echo).Should(Equal("False Throttled"))
		Expect(configMessage(cfg, "Ready")).To(ContainSubstring("find who keeps changing the objects of spec.valuesFrom"))
		Consistently(echo, "8s").Should(Equal("False Throttled"))
		published := int(time.Since(start)/(5*time.Second)) + 1 + 10
		summary := requests.summary(ctx)
		Expect(len(dataOf(ctx, namespace, "shop-config")["N"])).To(BeNumerically("<=", published))
		Expect(summary.Writes()).To(BeNumerically("<=", 4*published+5), summary.String()) // the ConfigMap, its copy, the end of an old copy, a status

		By("ending it")
		Eventually(func() string { return configReady(ctx, cfg) }).Should(Equal("True Ready"))
	})
})
