package e2e

import (
	"fmt"
	"os"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-dev/fettle/test/audit"
)

// some are the objects of each kind of configuration that are there while the operator is watched.
const some = 20

// configAuditSpecs let the API server say what the operator sends for AppConfigs and VoteConfigs.
func configAuditSpecs() {
	Describe("with 20 AppConfigs, 20 VoteConfigs and the Deployments that use them", Ordered, func() {
		var ns namespaced
		var log *audit.Recorder

		BeforeAll(func(ctx SpecContext) {
			path := auditLog()
			if _, err := os.Stat(path); err != nil {
				Skip("the API server's audit log can't be read here: " + err.Error())
			}
			var err error
			log, err = audit.New(path, config)
			Expect(err).NotTo(HaveOccurred())
			ns = newNamespace(ctx, nil)
			ns.apply(ctx, manyConfigs())
			for i := range some {
				ns.becomesReady(ctx, appConfigKind, fmt.Sprintf("shop-%02d", i))
				ns.becomesReady(ctx, voteConfigKind, fmt.Sprintf("vote-%02d", i))
			}
			ns.isAlone(ctx)
			settle(ctx, 10*time.Second)
		}, NodeTimeout(15*time.Minute))

		// nothing wants the operator to send neither a write nor a read while d passes after what f does.
		nothing := func(ctx SpecContext, what string, d time.Duration, f func()) {
			GinkgoHelper()
			mark, err := log.Mark(ctx)
			Expect(err).NotTo(HaveOccurred())
			f()
			settle(ctx, d)
			sent, err := log.Since(ctx, mark, audit.Filter{User: operatorUser})
			Expect(err).NotTo(HaveOccurred())
			report(fmt.Sprintf("%s with %d AppConfigs and %d VoteConfigs: %d writes, %d live reads\n%s", what, some, some, sent.Writes(), sent.LiveReads(), sent))
			Expect(sent.Writes()).To(BeZero(), sent.String())
			Expect(sent.LiveReads()).To(BeZero(), sent.String())
		}

		It("counts nothing while there is nothing to do", func(ctx SpecContext) {
			nothing(ctx, "idle for "+idleTime.String(), idleTime, func() {})
		}, SpecTimeout(5*time.Minute))

		It("counts nothing when all of them, and what belongs to them, is touched by others", func(ctx SpecContext) {
			nothing(ctx, "labels of others", 10*time.Second, func() {
				for _, kind := range []string{"appconfigs", "voteconfigs", "configmaps", "deployments"} {
					ns.run(ctx, "label", kind, "--all", "e2e.example.com/touched=true")
				}
			})
		}, SpecTimeout(5*time.Minute))

		It("counts nothing after a restart of the operator", func(ctx SpecContext) {
			nothing(ctx, "restart of both replicas", 30*time.Second, func() {
				Expect(k8s.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(operatorNamespace), operatorLabels)).To(Succeed())
				operatorUp(ctx)
			})
		}, SpecTimeout(10*time.Minute))
	})
}

// manyConfigs are AppConfigs and VoteConfigs, each with a Deployment that uses it and has no pods.
func manyConfigs() string {
	var manifests []string
	user := func(name, configMap string) {
		manifests = append(manifests, fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  replicas: 0
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec: {containers: [{name: app, image: '%[2]s', envFrom: [{configMapRef: {name: %[3]s}}]}]}
`, name, pauseImage, configMap))
	}
	for i := range some {
		shop, vote := fmt.Sprintf("shop-%02d", i), fmt.Sprintf("vote-%02d", i)
		manifests = append(manifests, voteManifest(vote), fmt.Sprintf(`
apiVersion: config.fettle.dev/v1
kind: AppConfig
metadata: {name: %[1]s}
spec: {application: %[1]s, environment: dev, config: {LOG_LEVEL: debug}}
`, shop))
		user(shop, shop+"-config")
		user(vote, vote+"-config")
	}
	return strings.Join(manifests, "---\n")
}
