package controllers_test

import (
	"context"
	"encoding/json"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
)

// valuesFrom takes values from the ConfigMap and the Secret "settings", the latter under db_key.
func valuesFrom(s *configv1.AppConfigSpec) {
	s.ValuesFrom = []configv1.AppConfigValuesSource{
		{ConfigMapRef: &configv1.AppConfigObjectRef{Name: "settings"}},
		{SecretRef: &configv1.AppConfigObjectRef{Name: "settings"}, Prefix: "db_"},
	}
	s.Config = map[string]string{"HOST": "{{ .Values.key }}", "URL": "postgres://app:{{ .Values.db_key }}@{{ .Values.key }}"}
}

var _ = Describe("The values of an AppConfig", func() {
	var namespace string
	BeforeEach(func(ctx context.Context) { namespace = newConfigNamespace(ctx) })

	It("are waited for, and those of a Secret stay in a Secret", func(ctx context.Context) {
		requests := countRequests(ctx, namespace)
		cfg := newConfig(namespace, "shop", valuesFrom)
		Expect(user.Create(ctx, cfg)).To(Succeed())
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("False ValuesMissing"))
		Expect(configMessage(cfg, "Ready")).To(ContainSubstring(`ConfigMap "settings" does not exist in namespace "` + namespace + `": create it`))
		Expect(cfg.Status.Phase).To(Equal(configv1.PhasePending))
		Expect(user.Create(ctx, configMap(namespace, "db.example.com"))).To(Succeed())
		Eventually(func() string { _ = read(ctx, cfg); return configMessage(cfg, "Ready") }).Should(ContainSubstring(`Secret "settings"`))
		Expect(configMaps(ctx, namespace)).To(BeEmpty())
		Expect(user.Create(ctx, secret(namespace, canary))).To(Succeed())
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("True Ready"))
		Expect(dataOf(ctx, namespace, "shop-config")).To(Equal(map[string]string{"HOST": "db.example.com"}))
		Expect(secretDataOf(ctx, namespace, "shop-config")).To(Equal(map[string]string{"URL": "postgres://app:" + canary + "@db.example.com"}))
		Expect(cfg.Status.SecretName).To(Equal("shop-config"))
		Expect(cfg.Status.Keys).To(Equal([]string{"HOST", "URL"}))

		By("looking for the value everywhere else")
		expectNoSecret(ctx, namespace, cfg)

		By("doing nothing")
		settle(ctx)
		Expect(requests.summary(ctx).Writes()).To(Equal(4+3), requests.summary(ctx).String()) // three statuses: waiting twice, and Ready
		everywhere := countRequests(ctx, "")
		everywhere.expectIdle(ctx)

		By("restarting the operator")
		everywhere = countRequests(ctx, "")
		runningOperator.restart()
		settle(ctx)
		everywhere.expectIdle(ctx)
	})

	It("are read again when they change, and cost nothing when only labels do", func(ctx context.Context) {
		Expect(user.Create(ctx, configMap(namespace, "a"))).To(Succeed())
		Expect(user.Create(ctx, secret(namespace, canary))).To(Succeed())
		cfg := newConfig(namespace, "shop", valuesFrom)
		createConfigReady(ctx, cfg)
		settle(ctx)
		hash := cfg.Status.Hash

		requests := countRequests(ctx, namespace)
		patch(ctx, configMap(namespace, ""), `{"metadata":{"labels":{"team":"a"}}}`)
		patch(ctx, secret(namespace, ""), `{"metadata":{"labels":{"team":"a"}}}`)
		settle(ctx)
		Expect(requests.summary(ctx).Writes()).To(BeZero(), requests.summary(ctx).String())

		patch(ctx, secret(namespace, ""), `{"stringData":{"key":"%s-2"}}`, canary)
		Eventually(secretDataOf).WithContext(ctx).WithArguments(namespace, "shop-config").
			Should(HaveKeyWithValue("URL", "postgres://app:"+canary+"-2@a"))
		// A change of the Secret is none of the AppConfig's generation: only the hash says that the status has seen it.
		Eventually(func(ctx context.Context) string { return configReady(ctx, cfg) + " " + cfg.Status.Hash }).WithContext(ctx).Should(And(HavePrefix("True Ready "), Not(HaveSuffix(hash))))
		Expect(cfg.Status.Revision).To(Equal(int64(2)))

		By("taking nothing from the Secret any more")
		changeConfig(ctx, cfg, func(s *configv1.AppConfigSpec) { s.Config["URL"] = "none" })
		Eventually(secretDataOf).WithContext(ctx).WithArguments(namespace, "shop-config").Should(BeNil())
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("True Ready"))
		Expect(cfg.Status.SecretName).To(BeEmpty())

		By("deleting the Secret")
		Expect(user.Delete(ctx, secret(namespace, ""))).To(Succeed())
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("False ValuesMissing"))
		Expect(dataOf(ctx, namespace, "shop-config")).To(HaveKeyWithValue("URL", "none"))
		changeConfig(ctx, cfg, func(s *configv1.AppConfigSpec) { s.ValuesFrom[1].SecretRef.Optional = true })
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("True Ready"))
	})

	It("do not overwrite a foreign Secret, nor are they published in part", func(ctx context.Context) {
		Expect(user.Create(ctx, configMap(namespace, "a"))).To(Succeed())
		Expect(user.Create(ctx, secret(namespace, canary))).To(Succeed())
		cfg := newConfig(namespace, "shop")
		createConfigReady(ctx, cfg)
		want := dataOf(ctx, namespace, "shop-config")
		foreign := secretNamed(namespace, "shop-config")
		foreign.StringData = map[string]string{"theirs": "x"}
		Expect(user.Create(ctx, foreign)).To(Succeed())
		changeConfig(ctx, cfg, valuesFrom)
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("False NameConflict"))
		Expect(configMessage(cfg, "Ready")).To(ContainSubstring(`Secret "shop-config" exists`))
		Consistently(dataOf).WithContext(ctx).WithArguments(namespace, "shop-config").Should(Equal(want))
		Expect(secretDataOf(ctx, namespace, "shop-config")).To(Equal(map[string]string{"theirs": "x"}))
		Expect(user.Delete(ctx, secretNamed(namespace, "shop-config"))).To(Succeed())
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("True Ready"))
		Expect(secretDataOf(ctx, namespace, "shop-config")).To(HaveKey("URL"))
	})

	It("are read from Secrets that are not watched", func(ctx context.Context) {
		runningOperator.stop()
		runningOperator.unwatched = true
		runningOperator.start()
		DeferCleanup(func() {
			runningOperator.stop()
			runningOperator.unwatched = false
			runningOperator.start()
		})
		Expect(user.Create(ctx, configMap(namespace, "a"))).To(Succeed())
		Expect(user.Create(ctx, secret(namespace, canary))).To(Succeed())
		cfg := newConfig(namespace, "shop", valuesFrom)
		createConfigReady(ctx, cfg)
		Expect(secretDataOf(ctx, namespace, "shop-config")).To(Equal(map[string]string{"URL": "postgres://app:" + canary + "@a"}))
		settle(ctx)
		requests := countRequests(ctx, namespace)
		patch(ctx, cfg, `{"metadata":{"annotations":{"fettle.dev/reconcile-at":"1"}}}`)
		settle(ctx)
		Expect(requests.summary(ctx).Writes()).To(BeZero(), requests.summary(ctx).String())
		changeConfig(ctx, cfg, func(s *configv1.AppConfigSpec) { s.Config["URL"] = "none" })
		Eventually(secretDataOf).WithContext(ctx).WithArguments(namespace, "shop-config").Should(BeNil())
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("True Ready"))
	})

	It("are not shown when a template or a schema fails", func(ctx context.Context) {
		Expect(user.Create(ctx, configMap(namespace, "a"))).To(Succeed())
		Expect(user.Create(ctx, secret(namespace, canary))).To(Succeed())
		cfg := newConfig(namespace, "shop", valuesFrom, func(s *configv1.AppConfigSpec) {
			s.Schema = &configv1.AppConfigSchema{Config: &configv1.JSONSchema{}}
			s.Schema.Config.Raw = []byte(`{"type":"object","properties":{"URL":{"enum":["none"]}}}`)
		})
		Expect(user.Create(ctx, cfg)).To(Succeed())
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("False SchemaViolation"))
		changeConfig(ctx, cfg, func(s *configv1.AppConfigSpec) {
			s.Files = map[string]string{"app.json": `{"password": {{ .Values.db_key }}`}
		})
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("False Malformed"))
		expectNoSecret(ctx, namespace, cfg)
	})

	It("warn when one looks like a secret and is in the ConfigMap", func(ctx context.Context) {
		cfg := newConfig(namespace, "shop", func(s *configv1.AppConfigSpec) { s.Config["DB_PASSWORD"] = "hunter2" })
		createConfigReady(ctx, cfg)
		Expect(cfg.Status.Warnings).To(ConsistOf(ContainSubstring(`key "DB_PASSWORD" looks like a secret`)))
		Eventually(func() []string { return configEvents(ctx, cfg) }).Should(ConsistOf("Warning LooksLikeSecret", "Normal Ready"))
	})
})

// expectNoSecret asserts that the canary is in no ConfigMap, event or status now. The end of the suite looks everywhere.
func expectNoSecret(ctx context.Context, namespace string, cfg *configv1.AppConfig) {
	GinkgoHelper()
	for _, list := range []client.ObjectList{&corev1.ConfigMapList{}, &eventsv1.EventList{}} {
		Expect(user.List(ctx, list, client.InNamespace(namespace))).To(Succeed())
		text, err := json.Marshal(list)
		Expect(err).NotTo(HaveOccurred())
		Expect(string(text)).NotTo(ContainSubstring(canary))
	}
	text, err := json.Marshal(mustRead(ctx, cfg))
	Expect(err).NotTo(HaveOccurred())
	Expect(string(text)).NotTo(ContainSubstring(canary))
}

// configEvents are the type and reason of each event about cfg.
func configEvents(ctx context.Context, cfg *configv1.AppConfig) []string {
	GinkgoHelper()
	list := &eventsv1.EventList{}
	Expect(user.List(ctx, list, client.InNamespace(cfg.Namespace))).To(Succeed())
	var reasons []string
	for i := range list.Items {
		if e := &list.Items[i]; e.Regarding.Name == cfg.Name && e.Regarding.Kind == "AppConfig" {
			Expect(strings.TrimSpace(e.Note)).NotTo(BeEmpty())
			reasons = append(reasons, e.Type+" "+e.Reason)
		}
	}
	return reasons
}
