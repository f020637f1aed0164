package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fleet is how many Deployments share one AppConfig.
const fleet = 20

// shopConfig is one manifest for every environment: only the environment's name differs.
const shopConfig = `
apiVersion: config.fettle.dev/v1
kind: AppConfig
metadata: {name: shop}
spec:
  application: shop
  environment: %s
  values: {level: debug, host: localhost, mode: good}
  config:
    LOG_LEVEL: '{{ .Values.level }}'
    DB_URL: 'postgres://{{ .Values.host }}/{{ .Application }}-{{ .Environment }}'
    MODE: '{{ .Values.mode }}'
  environments:
    staging: {values: {level: info, host: db.staging.example.com}}
    prod: {values: {level: warn, host: db.example.com}}
  rollout: {debounce: 1s, minInterval: 0s}
`

// Environments of the Deployments, for deploy.
const (
	useAll   = "envFrom: [{configMapRef: {name: shop-config}}]"
	useLevel = "env: [{name: LOG_LEVEL, valueFrom: {configMapKeyRef: {name: shop-config, key: LOG_LEVEL}}}]"
	useURL   = "env: [{name: DB_URL, valueFrom: {configMapKeyRef: {name: shop-config, key: DB_URL}}}]"
	// A bad mode ends the container soon after its start, before it counts as available.
	useMode = "env: [{name: MODE, valueFrom: {configMapKeyRef: {name: shop-config, key: MODE}}}]"
	failing = useMode + `
        command: [sh, -c, 'test "$MODE" = good && exec sleep 86400']`
)

func configSpecs() {
	var ns namespaced
	BeforeEach(func(ctx SpecContext) { ns = newNamespace(ctx, nil) })
	set := func(ctx SpecContext, values string) {
		GinkgoHelper()
		ns.run(ctx, "patch", "appconfig", "shop", "--type=merge", "-p", `{"spec":{"values":`+values+`}}`)
	}
	publish := func(ctx SpecContext) {
		GinkgoHelper()
		ns.apply(ctx, fmt.Sprintf(shopConfig, "dev"))
		ns.becomesReady(ctx, appConfigKind, "shop")
	}

	It("renders dev, staging and prod from one manifest", func(ctx SpecContext) {
		for environment, want := range map[string]map[string]string{
			"dev":     {"LOG_LEVEL": "debug", "DB_URL": "postgres://localhost/shop-dev", "MODE": "good"},
			"staging": {"LOG_LEVEL": "info", "DB_URL": "postgres://db.staging.example.com/shop-staging", "MODE": "good"},
			"prod":    {"LOG_LEVEL": "warn", "DB_URL": "postgres://db.example.com/shop-prod", "MODE": "good"},
		} {
			place := newNamespace(ctx, nil)
			place.apply(ctx, fmt.Sprintf(shopConfig, environment))
			place.becomesReady(ctx, appConfigKind, "shop")
			Expect(place.data("shop-config")(ctx)).To(Equal(want))
			place.shows(ctx, MatchRegexp(`(?m)^shop +True +Running +Ready +shop-config +True `), "get", "acfg")
		}
	})

	It("restarts exactly the workloads that use the changed key, once", func(ctx SpecContext) {
		publish(ctx)
		ns.deploy(ctx, useAll, "all")
		ns.deploy(ctx, useLevel, "level-1", "level-2")
		ns.deploy(ctx, useURL, "url")
		ns.deploy(ctx, "", "other")
		ns.allComplete(ctx)
		ns.becomesReady(ctx, appConfigKind, "shop")
		Expect(ns.rollouts(ctx)).To(Equal(map[string]int{"all": 1, "level-1": 1, "level-2": 1, "url": 1, "other": 1}))
		set(ctx, `{"level":"error"}`)
		Eventually(ctx, ns.data("shop-config")).WithTimeout(soon).Should(HaveKeyWithValue("LOG_LEVEL", "error"))
		want := map[string]int{"all": 2, "level-1": 2, "level-2": 2, "url": 1, "other": 1}
		Eventually(ctx, ns.rollouts).WithTimeout(later).Should(Equal(want))
		ns.becomesReady(ctx, appConfigKind, "shop")
		ns.allComplete(ctx)
		Consistently(ctx, ns.rollouts).WithTimeout(5 * time.Second).Should(Equal(want))
	}, SpecTimeout(20*time.Minute))

	It("stops after a failed rollout, and rolls back on request", func(ctx SpecContext) {
		publish(ctx)
		ns.deploy(ctx, failing, "app-1", "app-2", "app-3")
		for _, name := range []string{"app-1", "app-2", "app-3"} {
			ns.run(ctx, "patch", "deployment", name, "--type=strategic", "-p",
				`{"spec":{"progressDeadlineSeconds":15,"minReadySeconds":4,"template":{"spec":{"containers":[{"name":"app","image":"busybox:1.36"}]}}}}`)
		}
		ns.allComplete(ctx)
		ns.becomesReady(ctx, appConfigKind, "shop")
		before, err := ns.rollouts(ctx)
		Expect(err).NotTo(HaveOccurred())
		set(ctx, `{"mode":"bad"}`)
		Eventually(ctx, ns.state(appConfigKind, "shop", "RolledOut")).WithTimeout(later).Should(HavePrefix("False RolloutFailed: "))
		Consistently(ctx, func() (int, error) { return ns.started(ctx, before) }).WithTimeout(5*time.Second).Should(Equal(1), "more than one workload got the bad value")

		ns.run(ctx, "patch", "appconfig", "shop", "--type=merge", "-p", `{"spec":{"rollback":{}}}`)
		Eventually(ctx, ns.data("shop-config")).WithTimeout(soon).Should(HaveKeyWithValue("MODE", "good"))
		Eventually(ctx, ns.state(appConfigKind, "shop", "RolledOut")).WithTimeout(later).Should(HavePrefix("True "))
		ns.allComplete(ctx)
		set(ctx, `{"mode":"good"}`)
		ns.run(ctx, "patch", "appconfig", "shop", "--type=json", "-p", `[{"op":"remove","path":"/spec/rollback"}]`)
		ns.becomesReady(ctx, appConfigKind, "shop")
	}, SpecTimeout(25*time.Minute))

	It("restarts 20 Deployments one at a time, and none after a restart of the operator", func(ctx SpecContext) {
		publish(ctx)
		var names []string
		for i := range fleet {
			names = append(names, fmt.Sprintf("app-%02d", i))
		}
		ns.deploy(ctx, useAll, names...)
		ns.allComplete(ctx)
		ns.becomesReady(ctx, appConfigKind, "shop")
		before, err := ns.rollouts(ctx)
		Expect(err).NotTo(HaveOccurred())
		Expect(before).To(HaveLen(fleet))

		start := time.Now()
		set(ctx, `{"level":"error"}`)
		most, done := 0, 0
		Eventually(ctx, func() (int, error) {
			inFlight, complete, err := ns.inFlight(ctx)
			most, done = max(most, inFlight), complete
			return done, err
		}).WithTimeout(15 * time.Minute).WithPolling(100 * time.Millisecond).Should(Equal(fleet))
		report(fmt.Sprintf("%d Deployments rolled out one after another in %.0f s; most in progress at once: %d", fleet, time.Since(start).Seconds(), most))
		Expect(most).To(Equal(1))
		ns.becomesReady(ctx, appConfigKind, "shop")
		after, err := ns.rollouts(ctx)
		Expect(err).NotTo(HaveOccurred())
		for name, n := range before {
			Expect(after).To(HaveKeyWithValue(name, n+1))
		}

		Expect(k8s.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(operatorNamespace), operatorLabels)).To(Succeed())
		operatorUp(ctx)
		Consistently(ctx, ns.rollouts).WithTimeout(10 * time.Second).Should(Equal(after))
	}, SpecTimeout(30*time.Minute))

	It("rolls out changes made while the operator was down, when a VoteConfig can be deleted", func(ctx SpecContext) {
		publish(ctx)
		ns.deploy(ctx, useAll, "all")
		ns.deploy(ctx, useURL, "url")
		ns.allComplete(ctx)
		ns.becomesReady(ctx, appConfigKind, "shop")
		ns.apply(ctx, voteManifest("pets"))
		ns.becomesReady(ctx, voteConfigKind, "pets")

		DeferCleanup(func(ctx SpecContext) { scaleOperator(ctx, 2) }, NodeTimeout(5*time.Minute))
		scaleOperator(ctx, 0)
		set(ctx, `{"level":"error"}`)
		ns.run(ctx, "delete", "vc", "pets", "--timeout=60s")
		Expect(ns.rollouts(ctx)).To(Equal(map[string]int{"all": 1, "url": 1}))

		scaleOperator(ctx, 2)
		want := map[string]int{"all": 2, "url": 1}
		Eventually(ctx, ns.rollouts).WithTimeout(later).Should(Equal(want))
		ns.becomesReady(ctx, appConfigKind, "shop")
		Consistently(ctx, ns.rollouts).WithTimeout(5 * time.Second).Should(Equal(want))
	}, SpecTimeout(30*time.Minute))
}

// started counts the Deployments with more pod templates than before.
func (n namespaced) started(ctx context.Context, before map[string]int) (int, error) {
	now, err := n.rollouts(ctx)
	count := 0
	for name, templates := range now {
		if templates > before[name] {
			count++
		}
	}
	return count, err
}

// inFlight counts the Deployments whose restart for the AppConfig "shop" is not complete, and those whose restart is.
func (n namespaced) inFlight(ctx context.Context) (running, done int, err error) {
	all, err := n.deployments(ctx)
	for i := range all {
		switch restarted := restartedFor(&all[i], "config.fettle.dev/shop"); {
		case restarted && complete(&all[i]):
			done++
		case restarted:
			running++
		}
	}
	return running, done, err
}

func restartedFor(d *k8sappsv1.Deployment, annotation string) bool {
	return d.Spec.Template.Annotations[annotation] != ""
}

func voteManifest(name string) string {
	return strings.ReplaceAll(`
apiVersion: voting.fettle.dev/v1alpha1
kind: VoteConfig
metadata: {name: NAME}
spec:
  options: [{id: a, label: Cats}, {id: b, label: Dogs}]
`, "NAME", name)
}
