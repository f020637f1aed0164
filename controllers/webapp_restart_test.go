package controllers_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	votingv1alpha1 "github.com/fettle-dev/fettle/api/voting/v1alpha1"
	"github.com/fettle-dev/fettle/internal/digest"
	"github.com/fettle-dev/fettle/internal/testenv"
)

const secretRestart = "secret.fettle.dev/settings"

func secretRef() appsv1.ConfigRef { return appsv1.ConfigRef{Kind: "Secret", Name: "settings"} }

// noted waits until it is known what the pods of app run.
func noted(ctx context.Context, app *appsv1.WebApp, annotation string) {
	GinkgoHelper()
	Eventually(func() map[string]string { return mustRead(ctx, deploymentOf(app)).Annotations }).Should(HaveKey(annotation))
}

var _ = Describe("The restarts of a WebApp", func() {
	var namespace string
	BeforeEach(func(ctx context.Context) { namespace = newNamespace(ctx) })

	It("coalesce changes", func(ctx context.Context) {
		Expect(user.Create(ctx, configMap(namespace, "0"))).To(Succeed())
		app := newApp(namespace, "web", using(appsv1.ConfigRef{Kind: "ConfigMap", Name: "settings"}))
		createReady(ctx, app)
		noted(ctx, app, "configmap.fettle.dev/settings")
		rolls := rollsOf(ctx, namespace)
		for i := range 20 {
			patch(ctx, configMap(namespace, ""), `{"data":{"key":"%d"}}`, i+1)
			Consistently(ctx.Err, "300ms", "300ms").Should(Succeed())
		}
		Eventually(rolls).Should(BeNumerically(">=", 1))
		settle(ctx)
		Expect(rolls()).To(BeNumerically("<=", 2))
	})

	It("are for keys that it uses", func(ctx context.Context) {
		cm := configMap(namespace, "0")
		cm.Data["other"] = "0"
		Expect(user.Create(ctx, cm)).To(Succeed())
		app := newApp(namespace, "web", using(appsv1.ConfigRef{Kind: "ConfigMap", Name: "settings"}), func(s *appsv1.WebAppSpec) {
			s.Env = []appsv1.WebAppEnvVar{{Name: "KEY", ValueFrom: &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "settings"}, Key: "key",
			}}}}
		})
		createReady(ctx, app)
		noted(ctx, app, "configmap.fettle.dev/settings")
		rolls := rollsOf(ctx, namespace)
		patch(ctx, cm, `{"data":{"other":"1"}}`)
		Consistently(rolls, "7s").Should(BeNumerically("<=", 0))
		patch(ctx, cm, `{"data":{"key":"1"}}`)
		Eventually(rolls).Should(Equal(1))
	})

	It("do not come when a Secret is re-created with the same contents", func(ctx context.Context) {
		Expect(user.Create(ctx, secret(namespace, "same"))).To(Succeed())
		app := newApp(namespace, "web", using(secretRef()))
		createReady(ctx, app)
		noted(ctx, app, secretRestart)
		generation := mustRead(ctx, deploymentOf(app)).Generation
		Expect(user.Delete(ctx, secret(namespace, ""))).To(Succeed())
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("False ConfigMissing"))
		Expect(user.Create(ctx, secret(namespace, "same"))).To(Succeed())
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
		Consistently(field(deploymentOf(app), generationOf), "8s").WithContext(ctx).Should(Equal(generation))

		By("re-creating it with others")
		Expect(user.Delete(ctx, secret(namespace, ""))).To(Succeed())
		Expect(user.Create(ctx, secret(namespace, "other"))).To(Succeed())
		Eventually(field(deploymentOf(app), generationOf)).WithContext(ctx).Should(Equal(generation + 1))
	})

	It("come once for a change of a VoteConfig", func(ctx context.Context) {
		namespace := newVoteNamespace(ctx)
		vc := newVote(namespace, "vote", "Cats", "Dogs")
		createVoteReady(ctx, vc)
		taker := newApp(namespace, "taker", using(appsv1.ConfigRef{Kind: "ConfigMap", Name: "vote-config"}), taking("vote-config"))
		createReady(ctx, taker)
		reader := newApp(namespace, "reader", using(appsv1.ConfigRef{Kind: "ConfigMap", Name: "vote-config"}))
		createReady(ctx, reader)
		noted(ctx, taker, "voting.fettle.dev/vote")
		noted(ctx, reader, "voting.fettle.dev/vote")
		before := []int64{mustRead(ctx, deploymentOf(taker)).Generation, mustRead(ctx, deploymentOf(reader)).Generation}
		changeVote(ctx, vc, func(s *votingv1alpha1.VoteConfigSpec) { s.Options[0].Label = "Lions" })
		for i, app := range []*appsv1.WebApp{taker, reader} {
			Eventually(field(deploymentOf(app), generationOf)).WithContext(ctx).Should(Equal(before[i] + 1))
		}
		Consistently(func(g Gomega) {
			for i, app := range []*appsv1.WebApp{taker, reader} {
				g.Expect(mustRead(ctx, deploymentOf(app)).Generation).To(Equal(before[i] + 1))
			}
		}, "7s").Should(Succeed())
		Expect(user.DeleteAllOf(ctx, &appsv1.WebApp{}, client.InNamespace(namespace))).To(Succeed())
	})

	It("come for an AppConfig that chooses other workloads itself", func(ctx context.Context) {
		cfg := newConfig(namespace, "shop", func(s *configv1.AppConfigSpec) {
			s.Rollout.Discovery = configv1.DiscoverySelector
			s.Rollout.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "web"}}
		})
		createConfigReady(ctx, cfg)
		DeferCleanup(func(ctx context.Context) { _ = user.Delete(ctx, cfg) })
		app := newApp(namespace, "web", using(appsv1.ConfigRef{Kind: "AppConfig", Name: "shop"}), taking("shop-config"))
		createReady(ctx, app)
		noted(ctx, app, "config.fettle.dev/shop")
		generation := mustRead(ctx, deploymentOf(app)).Generation
		changeConfig(ctx, cfg, level("info"))
		Eventually(field(deploymentOf(app), generationOf)).WithContext(ctx).Should(Equal(generation + 1))
	})

	It("come one at a time, and stop at the first that fails", func(ctx context.Context) {
		Expect(user.Create(ctx, secret(namespace, "good"))).To(Succeed())
		var apps []*appsv1.WebApp
		var before []int64
		for i := range 3 {
			app := newApp(namespace, fmt.Sprintf("web-%d", i), using(secretRef()), func(s *appsv1.WebAppSpec) { s.Rollout.AutoRollback = true })
			createReady(ctx, app)
			noted(ctx, app, secretRestart)
			apps, before = append(apps, app), append(before, mustRead(ctx, deploymentOf(app)).Generation)
		}
		fakeKubelet.Set(namespace, "web-0", testenv.Rollout{Delay: time.Second, DeadlineExceeded: true, Waiting: "CrashLoopBackOff"})
		Expect(user.Update(ctx, secret(namespace, "bad"))).To(Succeed())
		Eventually(func() string {
			_ = read(ctx, apps[0])
			return string(apps[0].Status.Phase) + ": " + message(apps[0], "Ready")
		}).Should(And(HavePrefix("Failed: "), ContainSubstring(`restarted for a change of Secret "settings": correct it`)))
		settle(ctx)
		for i, restarts := range []int64{1, 0, 0} {
			Expect(mustRead(ctx, deploymentOf(apps[i])).Generation).To(Equal(before[i]+restarts), apps[i].Name)
		}

		By("correcting it")
		fakeKubelet.Set(namespace, "web-0", testenv.Rollout{})
		Expect(user.Update(ctx, secret(namespace, "better"))).To(Succeed())
		for i, app := range apps {
			Eventually(field(deploymentOf(app), generationOf), "90s").WithContext(ctx).Should(BeNumerically(">", before[i]))
			Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Ready"))
		}
	})

	It("wait for the end of a pause, and come once", func(ctx context.Context) {
		Expect(user.Create(ctx, secret(namespace, "1"))).To(Succeed())
		app := newApp(namespace, "web", using(secretRef()))
		createReady(ctx, app)
		noted(ctx, app, secretRestart)
		rolls := rollsOf(ctx, namespace)
		change(ctx, app, func(s *appsv1.WebAppSpec) { s.Paused = true })
		Eventually(ready).WithContext(ctx).WithArguments(app).Should(Equal("True Paused"))
		Expect(user.Update(ctx, secret(namespace, "2"))).To(Succeed())
		Consistently(rolls, "7s").Should(BeNumerically("<=", 0))
		change(ctx, app, func(s *appsv1.WebAppSpec) { s.Paused = false })
		Eventually(rolls).Should(Equal(1))
	})

	It("do not come when the key of digests is lost", func(ctx context.Context) {
		Expect(user.Create(ctx, secret(namespace, "1"))).To(Succeed())
		app := newApp(namespace, "web", using(secretRef()))
		createReady(ctx, app)
		noted(ctx, app, secretRestart)
		settle(ctx)
		generation := mustRead(ctx, deploymentOf(app)).Generation
		key := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: digest.SecretName}}
		lost := mustRead(ctx, key).UID
		runningOperator.stop()
		Expect(user.Delete(ctx, key)).To(Succeed())
		patch(ctx, secret(namespace, ""), `{"metadata":{"labels":{"team":"a"}}}`) // so that its contents are read
		runningOperator.start()
		Eventually(field(key, func(s *corev1.Secret) bool { return s.UID != lost })).WithContext(ctx).Should(BeTrue())
		settle(ctx)
		Expect(mustRead(ctx, deploymentOf(app)).Generation).To(Equal(generation))

		By("changing the Secret")
		Expect(user.Update(ctx, secret(namespace, "2"))).To(Succeed())
		Eventually(field(deploymentOf(app), generationOf)).WithContext(ctx).Should(Equal(generation + 1))
	})
})
