package controllers_test

import (
	"context"
	"sync"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	configv1 "github.com/fettle-dev/fettle/api/config/v1"
)

// taking has a WebApp take all keys of a ConfigMap.
func taking(name string) func(*appsv1.WebAppSpec) {
	return func(s *appsv1.WebAppSpec) {
		s.EnvFrom = []corev1.EnvFromSource{{ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}}}}
	}
}

func envFromOf(d *k8sappsv1.Deployment) string {
	if len(d.Spec.Template.Spec.Containers) == 0 {
		return "" // not there yet
	}
	return d.Spec.Template.Spec.Containers[0].EnvFrom[0].ConfigMapRef.Name
}

// rollsOf counts, from now on, how often a pod template of the namespace's only Deployment has changed.
func rollsOf(ctx context.Context, namespace string) func() int {
	GinkgoHelper()
	watcher, err := user.Watch(ctx, &k8sappsv1.DeploymentList{}, client.InNamespace(namespace))
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(watcher.Stop)
	var mu sync.Mutex
	rolls, last := -1, ""
	go func() {
		for event := range watcher.ResultChan() {
			d, ok := event.Object.(*k8sappsv1.Deployment)
			if !ok {
				continue
			}
			mu.Lock()
			if now := d.Spec.Template.String(); now != last {
				rolls, last = rolls+1, now
			}
			mu.Unlock()
		}
	}()
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return rolls
	}
}

var _ = Describe("A WebApp that uses an AppConfig", func() {
	var namespace string
	BeforeEach(func(ctx context.Context) { namespace = newNamespace(ctx) })
	BeforeEach(func() {
		DeferCleanup(func(ctx context.Context) {
			for _, cfg := range []string{"shop"} {
				_ = user.Delete(ctx, newConfig(namespace, cfg))
			}
		})
	})

	It("waits until something is published", func(ctx context.Context) {
		app := newApp(namespace, "web", using(appsv1.ConfigRef{Kind: "AppConfig", Name: "shop"}))
		Expect(user.Create(ctx, app)).To(Succeed())
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("False ConfigMissing"))
		Expect(message(app, "Ready")).To(ContainSubstring(`AppConfig "shop" does not exist`))
		cfg := newConfig(namespace, "shop", func(s *configv1.AppConfigSpec) { s.Config["BAD"] = "{{ .Values.missing }}" })
		Expect(user.Create(ctx, cfg)).To(Succeed())
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("False TemplateError"))
		Expect(read(ctx, deploymentOf(app))).To(Satisfy(apierrors.IsNotFound))
		changeConfig(ctx, cfg, func(s *configv1.AppConfigSpec) { s.Config["BAD"] = "good" })
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
		Expect(mustRead(ctx, deploymentOf(app)).Annotations).To(HaveKeyWithValue("config.fettle.dev/uses", "shop"))
	})

	DescribeTable("is restarted once for each change, by the rollout of the AppConfig",
		func(ctx context.Context, change ...func(*appsv1.WebAppSpec)) {
			cfg := newConfig(namespace, "shop")
			createConfigReady(ctx, cfg)
			app := newApp(namespace, "web", change...)
			createReady(ctx, app)
			Eventually(func() int { _ = read(ctx, cfg); return len(cfg.Status.Dependents) }).Should(Equal(1))
			Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("True Ready"))
			settle(ctx)
			d := mustRead(ctx, deploymentOf(app))
			generation := d.Generation
			Expect(d.Annotations).To(HaveKeyWithValue("config.fettle.dev/uses", "shop"))
			Expect(d.Annotations).NotTo(HaveKey("configmap.fettle.dev/shop-config"))
			for i, value := range []string{"info", "warn"} {
				changeConfig(ctx, cfg, level(value))
				Eventually(field(d, generationOf)).WithContext(ctx).Should(Equal(generation + int64(i) + 1))
				Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("True Ready"))
				Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
				settle(ctx)
				Expect(mustRead(ctx, d).Generation).To(Equal(generation + int64(i) + 1))
			}
			Expect(cfg.Status.Dependents[0].State).To(Equal(configv1.DependentUpToDate))

			By("restarting the operator")
			everywhere := countRequests(ctx, "")
			runningOperator.restart()
			settle(ctx)
			everywhere.expectIdle(ctx)
		},
		Entry("named as an AppConfig", using(appsv1.ConfigRef{Kind: "AppConfig", Name: "shop"})),
		Entry("named as the ConfigMap that it publishes", using(appsv1.ConfigRef{Kind: "ConfigMap", Name: "shop-config"})),
		Entry("taken from by the pods, and named as the ConfigMap", using(appsv1.ConfigRef{Kind: "ConfigMap", Name: "shop-config"}), taking("shop-config")),
	)

	It("is moved from version to version, and never back", func(ctx context.Context) {
		cfg := newConfig(namespace, "shop", func(s *configv1.AppConfigSpec) { s.Target.Mode = configv1.TargetVersioned })
		createConfigReady(ctx, cfg)
		app := newApp(namespace, "web", taking("shop-config"), using(appsv1.ConfigRef{Kind: "AppConfig", Name: "shop"}))
		Expect(user.Create(ctx, app)).To(Succeed())
		Eventually(field(deploymentOf(app), envFromOf)).WithContext(ctx).Should(Equal(cfg.Status.ConfigMapName))
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
		settle(ctx)
		rolls := rollsOf(ctx, namespace)
		before := cfg.Status.ConfigMapName
		changeConfig(ctx, cfg, level("info"))
		Eventually(func() string { _ = read(ctx, cfg); return cfg.Status.ConfigMapName }).ShouldNot(Equal(before))
		Eventually(field(deploymentOf(app), envFromOf)).WithContext(ctx).Should(Equal(cfg.Status.ConfigMapName))
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("True Ready"))
		settle(ctx)
		Expect(rolls()).To(Equal(1))

		By("changing the WebApp")
		change(ctx, app, func(s *appsv1.WebAppSpec) { s.Image = "nginx:1.26" })
		Eventually(field(deploymentOf(app), imageOf)).WithContext(ctx).Should(Equal("nginx:1.26"))
		settle(ctx)
		Expect(envFromOf(mustRead(ctx, deploymentOf(app)))).To(Equal(cfg.Status.ConfigMapName))
		Expect(rolls()).To(Equal(2))

		By("doing nothing, also after a restart")
		everywhere := countRequests(ctx, "")
		runningOperator.restart()
		settle(ctx)
		everywhere.expectIdle(ctx)
	})
})
