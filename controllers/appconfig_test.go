package controllers_test

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
)

var _ = Describe("An AppConfig", func() {
	var namespace string
	BeforeEach(func(ctx context.Context) { namespace = newConfigNamespace(ctx) })

	It("renders its configuration into a ConfigMap, with one write for each child and one for the status", func(ctx context.Context) {
		requests := countRequests(ctx, namespace)
		cfg := newConfig(namespace, "shop")
		createConfigReady(ctx, cfg)
		Expect(dataOf(ctx, namespace, "shop-config")).To(Equal(map[string]string{"LOG_LEVEL": "debug", "URL": "http://shop.dev"}))
		Expect(cfg.Status.ConfigMapName).To(Equal("shop-config"))
		Expect(cfg.Status.SecretName).To(BeEmpty())
		Expect(cfg.Status.Revision).To(Equal(int64(1)))
		Expect(cfg.Status.LastGoodRevision).To(Equal(int64(1)))
		Expect(cfg.Status.Keys).To(Equal([]string{"LOG_LEVEL", "URL"}))
		Expect(cfg.Status.Phase).To(Equal(configv1.PhaseRunning))
		settle(ctx)
		kept := configMaps(ctx, namespace)
		Expect(kept).To(ConsistOf("shop-config", "shop-config-"+cfg.Status.Hash[:10]))
		Expect(*mustRead(ctx, mapNamed(namespace, "shop-config-"+cfg.Status.Hash[:10])).Immutable).To(BeTrue())
		summary := requests.summary(ctx)
		Expect(summary.Writes()).To(Equal(len(kept)+1), summary.String())
		Expect(summary.LiveReads()).To(BeZero(), summary.String())
	})

	It("serves each environment from one manifest", func(ctx context.Context) {
		cfg := newConfig(namespace, "shop", func(s *configv1.AppConfigSpec) {
			s.Environments = &configv1.AppConfigEnvironments{Prod: &configv1.AppConfigOverrides{
				Values: map[string]string{"level": "warn"},
				Config: map[string]string{"URL": "https://shop.example.com", "REPLICAS": "3"},
				Files:  map[string]string{"app.yaml": "level: {{ .Values.level }}\n"},
			}}
		})
		createConfigReady(ctx, cfg)
		Expect(dataOf(ctx, namespace, "shop-config")).To(Equal(map[string]string{"LOG_LEVEL": "debug", "URL": "http://shop.dev"}))
		changeConfig(ctx, cfg, func(s *configv1.AppConfigSpec) { s.Environment = configv1.EnvironmentProd })
		Eventually(dataOf).WithContext(ctx).WithArguments(namespace, "shop-config").Should(Equal(map[string]string{
			"LOG_LEVEL": "warn", "URL": "https://shop.example.com", "REPLICAS": "3", "app.yaml": "level: warn\n",
		}))
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("True Ready"))
		Expect(cfg.Status.Revision).To(Equal(int64(2)))
	})

	It("publishes nothing new when a template or the schema fails", func(ctx context.Context) {
		cfg := newConfig(namespace, "shop")
		createConfigReady(ctx, cfg)
		want := dataOf(ctx, namespace, "shop-config")
		changeConfig(ctx, cfg, func(s *configv1.AppConfigSpec) { s.Config["LOG_LEVEL"] = "{{ .Values.missing }}" })
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("False TemplateError"))
		Expect(configMessage(cfg, "Rendered")).To(And(ContainSubstring("LOG_LEVEL"), ContainSubstring("missing")))
		Expect(cfg.Status.Revision).To(Equal(int64(1)))
		Consistently(dataOf).WithContext(ctx).WithArguments(namespace, "shop-config").Should(Equal(want))

		By("repairing drift meanwhile")
		patch(ctx, mapNamed(namespace, "shop-config"), `{"data":{"LOG_LEVEL":"wrong"}}`)
		Eventually(dataOf).WithContext(ctx).WithArguments(namespace, "shop-config").Should(Equal(want))

		By("asking for what the schema does not allow")
		changeConfig(ctx, cfg, func(s *configv1.AppConfigSpec) {
			s.Config["LOG_LEVEL"] = "loud"
			s.Schema = &configv1.AppConfigSchema{Config: &configv1.JSONSchema{}}
			s.Schema.Config.Raw = []byte(`{"type":"object","properties":{"LOG_LEVEL":{"enum":["debug","info"]}}}`)
		})
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("False SchemaViolation"))
		Expect(configMessage(cfg, "Rendered")).To(ContainSubstring("LOG_LEVEL"))
		Consistently(dataOf).WithContext(ctx).WithArguments(namespace, "shop-config").Should(Equal(want))

		By("asking for what it allows")
		changeConfig(ctx, cfg, func(s *configv1.AppConfigSpec) { s.Config["LOG_LEVEL"] = "info" })
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("True Ready"))
		Expect(dataOf(ctx, namespace, "shop-config")["LOG_LEVEL"]).To(Equal("info"))
	})

	It("leaves a foreign ConfigMap of its name alone, and continues when it is deleted", func(ctx context.Context) {
		foreign := mapNamed(namespace, "shop-config")
		foreign.Data = map[string]string{"theirs": "x"}
		Expect(user.Create(ctx, foreign)).To(Succeed())
		cfg := newConfig(namespace, "shop")
		Expect(user.Create(ctx, cfg)).To(Succeed())
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("False NameConflict"))
		Consistently(dataOf).WithContext(ctx).WithArguments(namespace, "shop-config").Should(Equal(foreign.Data))
		Expect(configMaps(ctx, namespace)).To(BeEmpty())
		Expect(user.Delete(ctx, foreign)).To(Succeed())
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("True Ready"))
	})

	It("lets the first of two with the same target continue", func(ctx context.Context) {
		first, second := newConfig(namespace, "shop"), newConfig(namespace, "other", func(s *configv1.AppConfigSpec) {
			s.Application, s.Values["level"] = "shop", "error"
		})
		createConfigReady(ctx, first)
		want := dataOf(ctx, namespace, "shop-config")
		Expect(user.Create(ctx, second)).To(Succeed())
		Eventually(configReady).WithContext(ctx).WithArguments(second).Should(Equal("False NameConflict"))
		Expect(configMessage(second, "Ready")).To(ContainSubstring(`AppConfig "shop" publishes "shop-config" already`))
		Expect(second.Status.ConfigMapName).To(BeEmpty())
		Consistently(dataOf).WithContext(ctx).WithArguments(namespace, "shop-config").Should(Equal(want))
		Expect(configReady(ctx, first)).To(Equal("True Ready"))

		By("deleting the first, and what it owned, as the garbage collector does")
		Expect(user.Delete(ctx, first)).To(Succeed())
		Eventually(read).WithContext(ctx).WithArguments(first).Should(Satisfy(apierrors.IsNotFound))
		for _, name := range configMaps(ctx, namespace) {
			Expect(user.Delete(ctx, mapNamed(namespace, name))).To(Succeed())
		}
		Eventually(configReady).WithContext(ctx).WithArguments(second).Should(Equal("True Ready"))
		Expect(dataOf(ctx, namespace, "shop-config")["LOG_LEVEL"]).To(Equal("error"))
	})

	It("says what it would publish, and publishes nothing, in a preview", func(ctx context.Context) {
		cfg := newConfig(namespace, "shop")
		createConfigReady(ctx, cfg)
		want := dataOf(ctx, namespace, "shop-config")
		changeConfig(ctx, cfg, func(s *configv1.AppConfigSpec) {
			s.Preview, s.Values["level"], s.Config["NEW"] = true, "info", "x"
			delete(s.Config, "URL")
		})
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("True Preview"))
		Expect(cfg.Status.Preview.Added).To(Equal([]string{"NEW"}))
		Expect(cfg.Status.Preview.Changed).To(Equal([]string{"LOG_LEVEL"}))
		Expect(cfg.Status.Preview.Removed).To(Equal([]string{"URL"}))
		Consistently(dataOf).WithContext(ctx).WithArguments(namespace, "shop-config").Should(Equal(want))
		changeConfig(ctx, cfg, func(s *configv1.AppConfigSpec) { s.Preview = false })
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("True Ready"))
		Expect(cfg.Status.Preview).To(BeNil())
		Expect(slices.Contains(cfg.Status.Keys, "NEW")).To(BeTrue())
	})
})
