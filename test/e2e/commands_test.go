package e2e

import (
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// commandSpecs are the commands of the documentation, one after another.
func commandSpecs() {
	Describe("on the sample", Ordered, ContinueOnFailure, func() {
		var ns namespaced
		// deployment waits for a value in the Deployment.
		deployment := func(ctx SpecContext, path, value string) {
			GinkgoHelper()
			ns.run(ctx, "wait", "--for=jsonpath={"+path+"}="+value, "deployment/demo-app", "--timeout=300s")
		}
		BeforeAll(func(ctx SpecContext) { ns = newNamespace(ctx, nil) })

		It("lists the kind", func(ctx SpecContext) {
			Expect(ns.run(ctx, "api-resources")).To(MatchRegexp(`(?m)^webapps +wa +apps\.fettle\.dev/v1 +true +WebApp`))
			Expect(ns.run(ctx, "get", "crd", "webapps.apps.fettle.dev", "webapppolicies.apps.fettle.dev")).To(ContainSubstring("webapps"))
			Expect(ns.run(ctx, "explain", "webapp.spec.image")).To(ContainSubstring("container image to run"))
		})

		It("applies the sample and waits for it", func(ctx SpecContext) {
			Expect(ns.run(ctx, "apply", "-f", "../../config/samples/apps_v1_webapp.yaml")).To(ContainSubstring("webapp.apps.fettle.dev/demo-app created"))
			ns.run(ctx, "wait", "--for=condition=Ready", "webapp/demo-app", "--timeout=300s")
		})

		It("shows the state and the replicas", func(ctx SpecContext) {
			ns.shows(ctx, MatchRegexp(`^NAME +READY +STATUS +REASON +REPLICAS +AVAILABLE +AGE *\ndemo-app +True +Running +Ready +3 +3 +\S+ *\n$`), "get", "webapps")
			ns.shows(ctx, MatchRegexp(`(?m)^demo-app +3/3 +3 +3 `), "get", "deployments")
			ns.shows(ctx, MatchRegexp(`(?m)^demo-app +ClusterIP +\S+ +<none> +80/TCP`), "get", "services")
			ns.shows(ctx, MatchRegexp(`^(\S+ +1/1 .*\n){3}$`), "get", "pods", "-l", "app=demo-app", "--no-headers")
		})

		It("describes status and events", func(ctx SpecContext) {
			ns.shows(ctx, And(MatchRegexp(`(?s)Status:.*Available Replicas: +3`), MatchRegexp(`(?s)Events:.*Normal +Ready`)), "describe", "webapp", "demo-app")
		})

		It("serves a page through the Service", func(ctx SpecContext) {
			Eventually(ctx, func() (string, error) { return ns.page(ctx, "demo-app") }).WithTimeout(soon).Should(ContainSubstring("nginx"))
		})

		It("scales with kubectl patch", func(ctx SpecContext) {
			ns.run(ctx, "patch", "webapp", "demo-app", "--type=merge", "-p", `{"spec":{"replicas":2}}`)
			deployment(ctx, ".spec.replicas", "2")
			ns.ready(ctx, "demo-app")
		})

		It("scales with kubectl scale", func(ctx SpecContext) {
			ns.run(ctx, "scale", "webapp", "demo-app", "--replicas=1")
			deployment(ctx, ".spec.replicas", "1")
			deployment(ctx, ".status.replicas", "1")
			ns.shows(ctx, ContainSubstring("demo-app-"), "get", "pods", "-l", "app=demo-app", "--field-selector=status.phase=Running", "--no-headers")
		})

		It("rolls out a change of the image", func(ctx SpecContext) {
			ns.run(ctx, "patch", "webapp", "demo-app", "--type=merge", "-p", `{"spec":{"image":"nginx:1.26"}}`)
			deployment(ctx, ".spec.template.spec.containers[0].image", "nginx:1.26")
			ns.run(ctx, "rollout", "status", "deployment/demo-app", "--timeout=300s")
			ns.ready(ctx, "demo-app")
		})

		It("reverts drift", func(ctx SpecContext) {
			ns.run(ctx, "scale", "deployment", "demo-app", "--replicas=4")
			deployment(ctx, ".spec.replicas", "1")
			ns.run(ctx, "set", "image", "deployment/demo-app", "app=nginx:1.21")
			deployment(ctx, ".spec.template.spec.containers[0].image", "nginx:1.26")
			ns.run(ctx, "delete", "service", "demo-app")
			Eventually(ctx, func() (string, error) { return ns.page(ctx, "demo-app") }).WithTimeout(soon).Should(ContainSubstring("nginx"))
			ns.run(ctx, "delete", "deployment", "demo-app")
			Eventually(ctx, func() (string, error) { return ns.try(ctx, "get", "deployment", "demo-app") }).WithTimeout(soon).Should(ContainSubstring("demo-app"))
			ns.ready(ctx, "demo-app")
		})

		It("rejects invalid fields with a message", func(ctx SpecContext) {
			output, err := ns.kubectlStdin(ctx, webAppManifest("Wrong_Name", "{image: 'nginx:1.25'}"), "apply", "-f", "-")
			Expect(err).To(HaveOccurred())
			Expect(output).To(ContainSubstring("metadata.name"))
			output, err = ns.try(ctx, "patch", "webapp", "demo-app", "--type=merge", "-p", `{"spec":{"replicas":-1}}`)
			Expect(err).To(HaveOccurred())
			Expect(output).To(And(ContainSubstring("spec.replicas"), ContainSubstring("should be greater than or equal to 0")))
		})

		It("deletes all children with the WebApp", func(ctx SpecContext) {
			ns.run(ctx, "delete", "webapp", "demo-app")
			ns.run(ctx, "wait", "--for=delete", "deployment/demo-app", "--timeout=300s")
			Eventually(ctx, func() (string, error) {
				return ns.try(ctx, "get", "deployments,replicasets,services,poddisruptionbudgets,pods", "-l", "app=demo-app")
			}).WithTimeout(later).Should(ContainSubstring("No resources found"))
		})
	})

	It("passes the seeds' integration script", func(ctx SpecContext) {
		ns := newNamespace(ctx, nil)
		system := namespaced{operatorNamespace}
		system.run(ctx, "wait", "--for=condition=Available", "deployment/"+operatorName, "--timeout=300s")
		ns.webApp(ctx, "test-webapp", "{image: 'nginx:alpine', replicas: 2}")
		Eventually(ctx, func() error {
			_, err := ns.try(ctx, "get", "deployment", "test-webapp")
			return err
		}).WithTimeout(soon).Should(Succeed())
		ns.run(ctx, "wait", "--for=condition=Available", "deployment/test-webapp", "--timeout=300s")
		ns.run(ctx, "get", "service", "test-webapp")
		ns.run(ctx, "patch", "webapp", "test-webapp", "--type=merge", "-p", `{"spec":{"replicas":3}}`)
		ns.run(ctx, "wait", "--for=jsonpath={.spec.replicas}=3", "deployment/test-webapp", "--timeout=300s")
		ns.run(ctx, "delete", "webapp", "test-webapp")
		ns.run(ctx, "wait", "--for=delete", "deployment/test-webapp", "--timeout=300s")
	}, SpecTimeout(30*time.Minute))
}
