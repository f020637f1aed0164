package controllers_test

import (
	"context"
	"slices"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	k8sappsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
)

var _ = Describe("Versions of an AppConfig", func() {
	// fluxcd/flux2#3378: the ConfigMap of a rollout that has not ended is deleted, and pods can't start any more.
	It("stay while a ReplicaSet with pods, or a ControllerRevision, refers to them", func(ctx context.Context) {
		namespace := newConfigNamespace(ctx)
		cfg := newConfig(namespace, "shop", func(s *configv1.AppConfigSpec) {
			s.Target.Mode, s.Target.HistoryLimit = configv1.TargetVersioned, new(int32(0))
		})
		publish := func(level string) string {
			changeConfig(ctx, cfg, func(s *configv1.AppConfigSpec) { s.Values["level"] = level })
			Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("True Ready"))
			Expect(dataOf(ctx, namespace, cfg.Status.ConfigMapName)["LOG_LEVEL"]).To(Equal(level))
			return cfg.Status.ConfigMapName
		}
		createConfigReady(ctx, cfg)
		first := cfg.Status.ConfigMapName
		spec := consumer(namespace, "old", first).Spec
		Expect(user.Create(ctx, &k8sappsv1.ReplicaSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "old"},
			Spec:       k8sappsv1.ReplicaSetSpec{Replicas: new(int32(1)), Selector: spec.Selector, Template: spec.Template},
		})).To(Succeed())
		second := publish("info")
		Expect(user.Create(ctx, &k8sappsv1.ControllerRevision{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "old"}, Revision: 1,
			Data: runtime.RawExtension{Raw: []byte(`{"spec":{"template":{"spec":{"volumes":[{"configMap":{"name":"` + second + `"}}]}}}}`)},
		})).To(Succeed())
		third := publish("warn")
		fourth := publish("error")
		Eventually(func() []string { return configMaps(ctx, namespace) }).WithContext(ctx).ShouldNot(ContainElement(third))
		names := configMaps(ctx, namespace)
		slices.Sort(names)
		Expect(names).To(ConsistOf(first, second, fourth))
	})
})
