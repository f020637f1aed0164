package e2e

import (
	"context"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	k8sappsv1 "k8s.io/api/apps/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// failureSpecs check that Ready names the problem, and becomes True after its repair.
func failureSpecs() {
	var ns namespaced
	BeforeEach(func(ctx SpecContext) { ns = newNamespace(ctx, nil) })
	says := func(ctx context.Context, name, text string) {
		GinkgoHelper()
		Eventually(ctx, ns.condition(name, "Ready")).WithTimeout(later).Should(HavePrefix("False " + text))
	}

	It("reports an image that cannot be pulled", func(ctx SpecContext) {
		ns.webApp(ctx, "app", "{image: 'nginx:no-such-tag'}")
		says(ctx, "app", "ImagePullBackOff: ")
		Expect(ns.run(ctx, "get", "webapp", "app", "-o", "wide")).To(ContainSubstring("nginx:no-such-tag"))
		ns.webApp(ctx, "app", "{image: 'nginx:1.25'}")
		ns.ready(ctx, "app")
	})

	It("reports an exceeded quota", func(ctx SpecContext) {
		ns.run(ctx, "create", "quota", "none", "--hard=pods=0")
		Eventually(ctx, ns.rejection("", "run", "probe", "--image="+pauseImage, "--dry-run=server")).WithTimeout(soon).Should(ContainSubstring("exceeded quota"))
		ns.webApp(ctx, "app", "{image: 'nginx:1.25'}")
		says(ctx, "app", "QuotaExceeded: ")
		ns.run(ctx, "delete", "quota", "none")
		ns.ready(ctx, "app") // the delay of the ReplicaSet's next try equals the time that it has tried for
	})

	It("reports pods that cannot be scheduled", func(ctx SpecContext) {
		ns.webApp(ctx, "app", "{image: 'nginx:1.25', nodeSelector: {e2e.example.com/nowhere: 'true'}}")
		says(ctx, "app", "Unschedulable: ")
		ns.run(ctx, "patch", "webapp", "app", "--type=merge", "-p", `{"spec":{"nodeSelector":null}}`)
		ns.ready(ctx, "app")
	})

	It("does not change a foreign Deployment", func(ctx SpecContext) {
		ns.run(ctx, "create", "deployment", "taken", "--image=nginx:1.27", "--replicas=0")
		foreign, key := &k8sappsv1.Deployment{}, client.ObjectKey{Namespace: ns.name, Name: "taken"}
		Expect(k8s.Get(ctx, key, foreign)).To(Succeed())
		ns.webApp(ctx, "taken", "{image: 'nginx:1.25', replicas: 0}")
		says(ctx, "taken", "NameConflict: ")
		now := &k8sappsv1.Deployment{}
		Expect(k8s.Get(ctx, key, now)).To(Succeed())
		Expect(now.UID).To(Equal(foreign.UID))
		Expect(now.Generation).To(Equal(foreign.Generation))
		Expect(now.OwnerReferences).To(BeEmpty())
		Expect(now.Labels).To(Equal(foreign.Labels))
		ns.run(ctx, "delete", "deployment", "taken")
		ns.ready(ctx, "taken") // it is checked again after a minute
	})

	It("waits for a ConfigMap", func(ctx SpecContext) {
		ns.webApp(ctx, "app", "{image: 'nginx:1.25', replicas: 0, configRefs: [{kind: ConfigMap, name: settings}]}")
		says(ctx, "app", "ConfigMissing: ")
		Expect(ns.run(ctx, "get", "webapp", "app", "-o", "wide")).To(ContainSubstring("settings"))
		err := k8s.Get(ctx, client.ObjectKey{Namespace: ns.name, Name: "app"}, &k8sappsv1.Deployment{})
		Expect(apierrors.IsNotFound(err)).To(BeTrue(), "the Deployment exists without its ConfigMap: %v", err)
		ns.run(ctx, "create", "configmap", "settings", "--from-literal=a=1")
		ns.ready(ctx, "app")
	})
}
