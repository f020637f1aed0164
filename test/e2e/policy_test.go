package e2e

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func policySpecs() {
	var ns namespaced
	// policy makes one that holds in the spec's namespace alone.
	policy := func(ctx SpecContext, action string) {
		GinkgoHelper()
		ns.apply(ctx, fmt.Sprintf(`{apiVersion: apps.fettle.dev/v1, kind: WebAppPolicy, metadata: {name: %[1]s}, spec: {action: %[2]s, maxReplicas: 2,
  allowedRegistries: [docker.io/library/], namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}}}`, ns.name, action))
		DeferCleanup(func(ctx SpecContext) { ns.run(ctx, "delete", "webapppolicy", ns.name) })
	}
	BeforeEach(func(ctx SpecContext) { ns = newNamespace(ctx, nil) })

	It("refuses with a sentence where it is enforced", func(ctx SpecContext) {
		policy(ctx, "Enforce")
		sentence := fmt.Sprintf("maxReplicas of WebAppPolicy %q allows at most 2; lower it", ns.name)
		Eventually(ctx, func() (string, error) {
			_, err := ns.feed(ctx, webAppManifest("app", "{image: 'nginx:1.25', replicas: 3}"), "create", "--dry-run=server", "-f", "-")
			if err == nil {
				return "admitted", nil
			}
			return err.Error(), nil
		}).WithTimeout(soon).Should(ContainSubstring(sentence), "the webhook does not know the policy")
		output, err := ns.feed(ctx, webAppManifest("app", "{image: 'quay.io/other/nginx:1.25', replicas: 1}"), "apply", "-f", "-")
		Expect(err).To(HaveOccurred())
		Expect(output).To(And(ContainSubstring("spec.image"), ContainSubstring("docker.io/library/")))

		ns.webApp(ctx, "app", "{image: 'nginx:1.25', replicas: 0}")
		output, err = ns.try(ctx, "scale", "webapp", "app", "--replicas=3")
		Expect(err).To(HaveOccurred(), "kubectl scale goes past the policy")
		Expect(output).To(ContainSubstring(sentence))
		ns.ready(ctx, "app")
		ns.run(ctx, "delete", "webapp", "app")
	})

	It("warns where it only warns, and counts", func(ctx SpecContext) {
		policy(ctx, "Warn")
		Eventually(ctx, func() (string, error) {
			return ns.feed(ctx, webAppManifest("app", "{image: 'quay.io/other/nginx:1.25', replicas: 0}"), "create", "--dry-run=server", "-f", "-")
		}).WithTimeout(soon).Should(And(ContainSubstring("Warning: "), ContainSubstring("docker.io/library/")))
		Expect(ns.webApp(ctx, "app", "{image: 'quay.io/other/nginx:1.25', replicas: 0}")).To(And(ContainSubstring("Warning: "), ContainSubstring("created")))
		Eventually(ctx, func() string {
			return ns.run(ctx, "get", "webapppolicy", ns.name, "-o", "jsonpath={.status.violationCount} {.status.violations}")
		}).WithTimeout(soon).Should(And(HavePrefix("1 "), ContainSubstring(ns.name+"/app")))
	})
}
