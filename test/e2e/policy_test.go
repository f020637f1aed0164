package e2e

import (
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

func policySpecs() {
	var ns namespaced
	// policy creates a policy for the spec's namespace only.
	policy := func(ctx SpecContext, action string) {
		GinkgoHelper()
		ns.apply(ctx, fmt.Sprintf(`{apiVersion: apps.fettle.dev/v1, kind: WebAppPolicy, metadata: {name: %[1]s}, spec: {action: %[2]s, maxReplicas: 2,
  allowedRegistries: [docker.io/library/], namespaceSelector: {matchLabels: {kubernetes.io/metadata.name: %[1]s}}}}`, ns.name, action))
		DeferCleanup(func(ctx SpecContext) { ns.run(ctx, "delete", "webapppolicy", ns.name) })
	}
	BeforeEach(func(ctx SpecContext) { ns = newNamespace(ctx, nil) })

	It("rejects violations where it is enforced, with a message", func(ctx SpecContext) {
		policy(ctx, "Enforce")
		sentence := fmt.Sprintf("maxReplicas of WebAppPolicy %q allows at most 2; lower it", ns.name)
		// rejected waits until a request is rejected: each replica of the operator has its own cache, and any of them may answer.
		rejected := func(matcher OmegaMatcher, manifest string, args ...string) {
			GinkgoHelper()
			Eventually(ctx, ns.rejection(manifest, append(args, "--dry-run=server")...)).WithTimeout(soon).Should(matcher, "the webhook has not seen the policy")
		}
		rejected(ContainSubstring(sentence), webAppManifest("app", "{image: 'nginx:1.25', replicas: 3}"), "create", "-f", "-")
		rejected(And(ContainSubstring("spec.image"), ContainSubstring("docker.io/library/")),
			webAppManifest("app", "{image: 'quay.io/other/nginx:1.25', replicas: 1}"), "apply", "-f", "-")

		ns.webApp(ctx, "app", "{image: 'nginx:1.25', replicas: 0}")
		rejected(ContainSubstring(sentence), "", "scale", "webapp", "app", "--replicas=3") // it is a request of another kind
		rejected(ContainSubstring(sentence), "", "patch", "webapp", "app", "--type=merge", "-p", `{"spec":{"replicas":3}}`)
		ns.ready(ctx, "app")
		ns.run(ctx, "delete", "webapp", "app")
	})

	It("warns and counts violations where it only warns", func(ctx SpecContext) {
		policy(ctx, "Warn")
		Eventually(ctx, func() (string, error) { // until the replica of the operator that is called has seen the policy
			if output, err := ns.try(ctx, "delete", "webapp", "app", "--ignore-not-found"); err != nil {
				return output, err
			}
			return ns.kubectlStdin(ctx, webAppManifest("app", "{image: 'quay.io/other/nginx:1.25', replicas: 0}"), "create", "-f", "-")
		}).WithTimeout(soon).Should(And(ContainSubstring("Warning: "), ContainSubstring("docker.io/library/"), ContainSubstring("created")))
		ns.shows(ctx, And(HavePrefix("1 "), ContainSubstring(ns.name+"/app")),
			"get", "webapppolicy", ns.name, "-o", "jsonpath={.status.violationCount} {.status.violations}")
	})
}
