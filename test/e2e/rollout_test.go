package e2e

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	k8sappsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
)

const configured = "{image: 'nginx:1.25', configRefs: [{kind: ConfigMap, name: settings}], envFrom: [{configMapRef: {name: settings}}]}"

func rolloutSpecs() {
	var ns namespaced
	BeforeEach(func(ctx SpecContext) { ns = newNamespace(ctx, nil) })

	It("rolls back to the last good template after a failure", func(ctx SpecContext) {
		ns.webApp(ctx, "app", "{image: 'nginx:1.25', rollout: {autoRollback: true, progressDeadline: 15s}}")
		ns.ready(ctx, "app")
		start := time.Now()
		ns.run(ctx, "patch", "webapp", "app", "--type=merge", "-p", `{"spec":{"image":"nginx:no-such-tag"}}`)
		Eventually(ctx, ns.condition("app", appsv1.WebAppApplied)).WithTimeout(later).Should(And(
			HavePrefix("False RolledBack: "), ContainSubstring("nginx:no-such-tag"), ContainSubstring("nginx:1.25")))
		AddReportEntry("bad image until the rollback was reported, with a deadline of 15 s", time.Since(start).Round(time.Second).String())
		ns.run(ctx, "wait", "--for=jsonpath={.spec.template.spec.containers[0].image}=nginx:1.25", "deployment/app", "--timeout=300s")
		ns.allComplete(ctx) // kubectl rollout status would end while the failed rollout is still the last reported one
		ns.serves(ctx, "app", "nginx")
		ns.run(ctx, "patch", "webapp", "app", "--type=merge", "-p", `{"spec":{"image":"nginx:1.26"}}`)
		ns.ready(ctx, "app")
		Expect(ns.run(ctx, "get", "deployment", "app", "-o", "wide")).To(ContainSubstring("nginx:1.26"))
	})

	It("restarts for a ConfigMap, once per change of its contents", func(ctx SpecContext) {
		ns.run(ctx, "create", "configmap", "settings", "--from-literal=greeting=hello")
		ns.webApp(ctx, "app", configured)
		ns.ready(ctx, "app")
		Expect(ns.replicaSets(ctx)).To(HaveLen(1))
		ns.run(ctx, "label", "configmap", "settings", "a=label")
		Consistently(ctx, ns.replicaSets).WithTimeout(5 * time.Second).Should(HaveLen(1))
		ns.run(ctx, "patch", "configmap", "settings", "--type=merge", "-p", `{"data":{"greeting":"good day"}}`)
		Eventually(ctx, ns.replicaSets).WithTimeout(soon).Should(HaveLen(2))
		ns.ready(ctx, "app")
		Consistently(ctx, ns.replicaSets).WithTimeout(5 * time.Second).Should(HaveLen(2))
		ns.shows(ctx, ContainSubstring("good day"), "exec", "deployment/app", "--", "printenv", "greeting") // Ready may be outdated, and a terminating pod may be selected
	})
}

// replicaSets are all ReplicaSets of the namespace's Deployments.
func (n namespaced) replicaSets(ctx context.Context) ([]k8sappsv1.ReplicaSet, error) {
	list := &k8sappsv1.ReplicaSetList{}
	err := k8s.List(ctx, list, client.InNamespace(n.name))
	return list.Items, err
}

func operatorDownSpecs() {
	It("deletes and changes succeed while the operator is down, and are reconciled afterwards", func(ctx SpecContext) {
		ns := newNamespace(ctx, nil)
		ns.run(ctx, "create", "configmap", "settings", "--from-literal=greeting=hello")
		ns.webApp(ctx, "app", configured)
		ns.webApp(ctx, "unwanted", "{image: 'nginx:1.25', replicas: 0}")
		ns.ready(ctx, "app")
		ns.ready(ctx, "unwanted")

		DeferCleanup(func(ctx SpecContext) { scaleOperator(ctx, 2) }, NodeTimeout(5*time.Minute))
		scaleOperator(ctx, 0)
		ns.run(ctx, "patch", "configmap", "settings", "--type=merge", "-p", `{"data":{"greeting":"good day"}}`)
		ns.run(ctx, "delete", "webapp", "unwanted")
		ns.run(ctx, "wait", "--for=delete", "deployment/unwanted", "--timeout=300s")
		_, err := ns.kubectlStdin(ctx, webAppManifest("unchecked", "{image: 'nginx:1.25', replicas: 0}"), "apply", "-f", "-")
		Expect(err).To(MatchError(ContainSubstring("webhook")), "a policy could be evaded while the operator is down")
		ns.serves(ctx, "app", "nginx")
		Expect(ns.replicaSets(ctx)).To(HaveLen(1))

		scaleOperator(ctx, 2)
		Eventually(ctx, ns.replicaSets).WithTimeout(later).Should(HaveLen(2))
		ns.ready(ctx, "app")
		Consistently(ctx, ns.replicaSets).WithTimeout(5 * time.Second).Should(HaveLen(2))
	}, SpecTimeout(30*time.Minute))
}
