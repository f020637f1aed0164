package controllers_test

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	k8sappsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/testenv"
)

// configNoteOf is the annotation on a workload that says what it runs of an AppConfig.
func configNoteOf(obj client.Object, config string) string {
	return obj.GetAnnotations()["config.fettle.dev/"+config]
}

// hashIn is what restarted the pods of a Deployment last; "" if nothing has.
func hashIn(config string) func(*k8sappsv1.Deployment) string {
	return func(d *k8sappsv1.Deployment) string { return d.Spec.Template.Annotations["config.fettle.dev/"+config] }
}

// rolledOut says the status and reason of RolledOut.
func rolledOut(ctx context.Context, cfg *configv1.AppConfig) string {
	return configCondition(ctx, cfg, "RolledOut")
}

func dependentsOf(n int) func(context.Context, *configv1.AppConfig) (bool, error) {
	return func(ctx context.Context, cfg *configv1.AppConfig) (bool, error) {
		err := read(ctx, cfg)
		return len(cfg.Status.Dependents) == n && rolledOut(ctx, cfg) == "True RolledOut", err
	}
}

// mostAtOnce follows all Deployments of a namespace until the function is called, which says how many were in a rollout at once,
// and how many rollouts began.
func mostAtOnce(ctx context.Context, namespace string) func() (most, begun int) {
	GinkgoHelper()
	ctx, cancel := context.WithCancel(ctx)
	watcher, err := user.Watch(ctx, &k8sappsv1.DeploymentList{}, client.InNamespace(namespace))
	Expect(err).NotTo(HaveOccurred())
	most, begun, generation, rolling, done := 0, 0, map[string]int64{}, map[string]bool{}, make(chan struct{})
	go func() {
		defer close(done)
		for event := range watcher.ResultChan() {
			d, ok := event.Object.(*k8sappsv1.Deployment)
			if !ok || event.Type == watch.Deleted {
				continue
			}
			if before, known := generation[d.Name]; known && d.Generation > before {
				begun++
			}
			generation[d.Name] = d.Generation
			rolling[d.Name] = d.Status.ObservedGeneration < d.Generation
			now := 0
			for _, yes := range rolling {
				if yes {
					now++
				}
			}
			most = max(most, now)
		}
	}()
	return func() (int, int) {
		cancel()
		watcher.Stop()
		<-done
		return most, begun
	}
}

var _ = Describe("A change of an AppConfig", func() {
	var namespace string
	BeforeEach(func(ctx context.Context) { namespace = newConfigNamespace(ctx) })

	It("rolls 50 Deployments one at a time, each once, whatever becomes of the operator", func(ctx context.Context) {
		const many = 50
		cfg := newConfig(namespace, "shop")
		createConfigReady(ctx, cfg)
		for i := range many {
			d := consumer(namespace, fmt.Sprintf("web-%02d", i), "shop-config")
			fakeKubelet.Set(namespace, d.Name, testenv.Rollout{Delay: 20 * time.Millisecond})
			createRunning(ctx, d)
		}
		Eventually(dependentsOf(many)).WithContext(ctx).WithArguments(cfg).WithTimeout(time.Minute).Should(BeTrue())
		settle(ctx)
		requests, stop := countRequests(ctx, namespace), mostAtOnce(ctx, namespace)
		changeConfig(ctx, cfg, func(s *configv1.AppConfigSpec) { s.Values["level"] = "info" })
		tenth := consumer(namespace, "web-10", "shop-config")
		Eventually(field(tenth, hashIn("shop"))).WithContext(ctx).WithTimeout(time.Minute).ShouldNot(BeEmpty())
		runningOperator.restart()
		Eventually(dependentsOf(many)).WithContext(ctx).WithArguments(cfg).WithTimeout(2 * time.Minute).Should(BeTrue())
		settle(ctx)
		most, begun := stop()
		Expect(most).To(Equal(1))
		Expect(begun).To(Equal(many))
		summary := requests.summary(ctx)
		// The restart cuts off at most one request. The operator sends it again if the API server did not process it, or with a former version.
		deployments := to(summary, "deployments.apps", "")
		Expect(deployments.Writes()-rejectedWrites(deployments)).To(BeElementOf(many, many+1), summary.String())

		By("restarting the operator")
		requests = countRequests(ctx, namespace)
		runningOperator.restart()
		settle(ctx)
		requests.expectIdle(ctx)
	}, SpecTimeout(5*time.Minute))

	It("rolls only what uses a key that changed, also when it changed while the operator was down", func(ctx context.Context) {
		cfg := newConfig(namespace, "shop")
		createConfigReady(ctx, cfg)
		level, url := reader(namespace, "level", "shop-config", "LOG_LEVEL"), reader(namespace, "url", "shop-config", "URL")
		createRunning(ctx, level)
		createRunning(ctx, url)
		Eventually(dependentsOf(2)).WithContext(ctx).WithArguments(cfg).Should(BeTrue())
		settle(ctx)
		requests := countRequests(ctx, namespace)
		runningOperator.stop()
		changeConfig(ctx, cfg, func(s *configv1.AppConfigSpec) { s.Values["level"] = "info" })
		runningOperator.start()
		Eventually(field(level, hashIn("shop"))).WithContext(ctx).ShouldNot(BeEmpty())
		Eventually(dependentsOf(2)).WithContext(ctx).WithArguments(cfg).Should(BeTrue())
		settle(ctx)
		Expect(hashIn("shop")(mustRead(ctx, url))).To(BeEmpty())
		summary := requests.summary(ctx)
		Expect(to(summary, "deployments.apps", "").Writes()).To(Equal(1), summary.String())
	})

	DescribeTable("of its inherited metadata reaches what is published, and restarts nothing", func(ctx context.Context, mode configv1.TargetMode) {
		secret := secretNamed(namespace, "db")
		secret.StringData = map[string]string{"password": "hidden"}
		Expect(user.Create(ctx, secret)).To(Succeed())
		cfg := newConfig(namespace, "shop", func(s *configv1.AppConfigSpec) {
			s.Target.Mode, s.Target.Labels = mode, map[string]string{"team": "config"}
			s.ValuesFrom = []configv1.AppConfigValuesSource{{SecretRef: &configv1.AppConfigObjectRef{Name: "db"}}}
			s.Config["PASSWORD"] = "{{ .Values.password }}"
		})
		createConfigReady(ctx, cfg)
		d := consumer(namespace, "web", "shop-config")
		createRunning(ctx, d)
		Eventually(dependentsOf(1)).WithContext(ctx).WithArguments(cfg).Should(BeTrue())
		settle(ctx)
		generation := mustRead(ctx, d).Generation

		changeConfig(ctx, cfg, func(s *configv1.AppConfigSpec) {
			s.InheritedMetadata = &fettlev1.InheritedMetadata{
				Labels: map[string]string{"app.kubernetes.io/part-of": "store", "team": "store"}, Annotations: map[string]string{"example.com/cost-center": "7"},
			}
		})
		Eventually(dependentsOf(1)).WithContext(ctx).WithArguments(cfg).Should(BeTrue())
		settle(ctx)
		names := configMaps(ctx, namespace)
		Expect(names).To(ContainElement(cfg.Status.ConfigMapName))
		for _, name := range names {
			for _, obj := range []client.Object{mapNamed(namespace, name), secretNamed(namespace, name)} {
				Expect(read(ctx, obj)).To(Succeed())
				Expect(obj.GetLabels()).To(And(HaveKeyWithValue("app.kubernetes.io/part-of", "store"), HaveKeyWithValue("team", "config")), "%T %s", obj, name)
				Expect(obj.GetAnnotations()).To(HaveKeyWithValue("example.com/cost-center", "7"), "%T %s", obj, name)
			}
		}
		Expect(mustRead(ctx, d).Generation).To(Equal(generation))
		Expect(cfg.Status.Revision).To(Equal(int64(1)))

		By("removing it")
		changeConfig(ctx, cfg, func(s *configv1.AppConfigSpec) { s.InheritedMetadata = nil })
		Eventually(configReady).WithContext(ctx).WithArguments(cfg).Should(Equal("True Ready"))
		settle(ctx)
		for _, name := range names {
			Expect(mustRead(ctx, mapNamed(namespace, name)).Labels).NotTo(HaveKey("app.kubernetes.io/part-of"), name)
		}
		Expect(mustRead(ctx, d).Generation).To(Equal(generation))
	},
		Entry("in mode InPlace", configv1.TargetInPlace),
		Entry("in mode Versioned", configv1.TargetVersioned),
	)

	It("stops at a workload that does not start, says which, and begins with it when the configuration changes again", func(ctx context.Context) {
		cfg := newConfig(namespace, "shop")
		createConfigReady(ctx, cfg)
		first, second := consumer(namespace, "a-web", "shop-config"), consumer(namespace, "b-web", "shop-config")
		createRunning(ctx, first)
		createRunning(ctx, second)
		Eventually(dependentsOf(2)).WithContext(ctx).WithArguments(cfg).Should(BeTrue())
		settle(ctx)
		fakeKubelet.Set(namespace, "a-web", testenv.Rollout{Waiting: "CrashLoopBackOff", Message: "back-off", DeadlineExceeded: true})
		changeConfig(ctx, cfg, func(s *configv1.AppConfigSpec) { s.Values["level"] = "broken" })
		Eventually(rolledOut).WithContext(ctx).WithArguments(cfg).Should(Equal("False RolloutFailed"))
		Expect(configMessage(cfg, "RolledOut")).To(ContainSubstring("Deployment a-web: The replica set has timed out progressing"))
		Consistently(field(second, hashIn("shop"))).WithContext(ctx).Should(BeEmpty())
		fakeKubelet.Set(namespace, "a-web", testenv.Rollout{})
		changeConfig(ctx, cfg, func(s *configv1.AppConfigSpec) { s.Values["level"] = "info" })
		Eventually(field(second, hashIn("shop"))).WithContext(ctx).ShouldNot(BeEmpty())
		Eventually(dependentsOf(2)).WithContext(ctx).WithArguments(cfg).Should(BeTrue())
		Expect(configReady(ctx, cfg)).To(Equal("True Ready"))
	})

	It("is not rolled out twice when another client removes the annotations", func(ctx context.Context) {
		cfg := newConfig(namespace, "shop")
		createConfigReady(ctx, cfg)
		d := consumer(namespace, "web", "shop-config")
		createRunning(ctx, d)
		Eventually(dependentsOf(1)).WithContext(ctx).WithArguments(cfg).Should(BeTrue())
		changeConfig(ctx, cfg, func(s *configv1.AppConfigSpec) { s.Values["level"] = "info" })
		Eventually(field(d, hashIn("shop"))).WithContext(ctx).ShouldNot(BeEmpty())
		Eventually(dependentsOf(1)).WithContext(ctx).WithArguments(cfg).Should(BeTrue())
		settle(ctx)
		patch(ctx, d, `{"metadata":{"annotations":{"config.fettle.dev/shop":null}},"spec":{"template":{"metadata":{"annotations":{"config.fettle.dev/shop":null}}}}}`)
		Consistently(field(d, hashIn("shop"))).WithContext(ctx).WithTimeout(2 * still).Should(BeEmpty())
		Eventually(field(d, func(d *k8sappsv1.Deployment) string { return configNoteOf(d, "shop") })).WithContext(ctx).ShouldNot(BeEmpty())
		Eventually(dependentsOf(1)).WithContext(ctx).WithArguments(cfg).Should(BeTrue())
	})

	It("restarts what uses two AppConfigs once, when both change", func(ctx context.Context) {
		wait := func(s *configv1.AppConfigSpec) { s.Rollout.Debounce = &metav1.Duration{Duration: 6 * time.Second} }
		one, two := newConfig(namespace, "one", wait), newConfig(namespace, "two", wait)
		createConfigReady(ctx, one)
		createConfigReady(ctx, two)
		d := consumer(namespace, "web", "one-config")
		d.Spec.Template.Spec.Containers[0].EnvFrom = append(d.Spec.Template.Spec.Containers[0].EnvFrom,
			consumer(namespace, "", "two-config").Spec.Template.Spec.Containers[0].EnvFrom...)
		createRunning(ctx, d)
		for _, cfg := range []*configv1.AppConfig{one, two} {
			Eventually(dependentsOf(1)).WithContext(ctx).WithArguments(cfg).Should(BeTrue())
		}
		settle(ctx)
		for _, cfg := range []*configv1.AppConfig{one, two} {
			changeConfig(ctx, cfg, func(s *configv1.AppConfigSpec) { s.Values["level"] = "info" })
		}
		Eventually(field(d, func(d *k8sappsv1.Deployment) string { return hashIn("one")(d) + hashIn("two")(d) })).
			WithContext(ctx).WithTimeout(time.Minute).ShouldNot(BeEmpty())
		for _, cfg := range []*configv1.AppConfig{one, two} {
			Eventually(dependentsOf(1)).WithContext(ctx).WithArguments(cfg).WithTimeout(time.Minute).Should(BeTrue())
		}
		settle(ctx)
		Expect(mustRead(ctx, d).Spec.Template.Annotations).To(HaveLen(1))
	}, SpecTimeout(3*time.Minute))

	It("reaches StatefulSets and DaemonSets too", func(ctx context.Context) {
		cfg := newConfig(namespace, "shop")
		createConfigReady(ctx, cfg)
		template := consumer(namespace, "db", "shop-config").Spec
		meta := metav1.ObjectMeta{Namespace: namespace, Name: "db"}
		set := &k8sappsv1.StatefulSet{ObjectMeta: meta, Spec: k8sappsv1.StatefulSetSpec{Selector: template.Selector, Template: template.Template}}
		agents := &k8sappsv1.DaemonSet{ObjectMeta: meta, Spec: k8sappsv1.DaemonSetSpec{Selector: template.Selector, Template: template.Template}}
		Expect(user.Create(ctx, set)).To(Succeed())
		Expect(user.Create(ctx, agents)).To(Succeed())
		DeferCleanup(func(ctx context.Context) {
			Expect(user.Delete(ctx, set)).To(Succeed())
			Expect(user.Delete(ctx, agents)).To(Succeed())
		})
		Eventually(dependentsOf(2)).WithContext(ctx).WithArguments(cfg).Should(BeTrue())
		changeConfig(ctx, cfg, func(s *configv1.AppConfigSpec) { s.Values["level"] = "info" })
		hash := "config.fettle.dev/shop"
		Eventually(field(agents, func(d *k8sappsv1.DaemonSet) string { return d.Spec.Template.Annotations[hash] })).WithContext(ctx).ShouldNot(BeEmpty())
		Eventually(field(set, func(s *k8sappsv1.StatefulSet) string { return s.Spec.Template.Annotations[hash] })).WithContext(ctx).ShouldNot(BeEmpty())

		By("finding the StatefulSet rolled out")
		set.Status = k8sappsv1.StatefulSetStatus{
			ObservedGeneration: set.Generation, Replicas: 1, UpdatedReplicas: 1, ReadyReplicas: 1, CurrentRevision: "2", UpdateRevision: "2",
		}
		Expect(user.Status().Update(ctx, set)).To(Succeed())
		agents.Status.ObservedGeneration = agents.Generation
		Expect(user.Status().Update(ctx, agents)).To(Succeed())
		Eventually(dependentsOf(2)).WithContext(ctx).WithArguments(cfg).Should(BeTrue())
	})

	It("restarts no pod when the AppConfig is deleted, and removes its record", func(ctx context.Context) {
		cfg := newConfig(namespace, "shop")
		createConfigReady(ctx, cfg)
		d := consumer(namespace, "web", "shop-config")
		createRunning(ctx, d)
		Eventually(dependentsOf(1)).WithContext(ctx).WithArguments(cfg).Should(BeTrue())
		record := func(d *k8sappsv1.Deployment) bool { return json.Valid([]byte(configNoteOf(d, "shop"))) }
		Eventually(field(d, record)).WithContext(ctx).Should(BeTrue())
		Expect(user.Delete(ctx, cfg)).To(Succeed())
		Eventually(field(d, func(d *k8sappsv1.Deployment) string { return configNoteOf(d, "shop") })).WithContext(ctx).Should(BeEmpty())
		Expect(d.Spec.Template.Annotations).To(BeEmpty())
	})
})
