package e2e

import (
	"context"
	"fmt"
	"strings"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/fettle-dev/fettle/test/audit"
)

// some is the number of objects of each configuration kind during the measurement.
const some = 20

// idleSpecs count the requests of the operator for WebApps, which exist, and for AppConfigs, VoteConfigs and a PostgreSQL, and the requests
// of the PostgreSQL's agents.
func idleSpecs(apps func() namespaced) {
	var ns namespaced
	var log *audit.Recorder

	BeforeAll(func(ctx SpecContext) {
		log = auditLog()
		ns = newNamespace(ctx, nil)
		ns.postgreSQL(ctx, idleDatabase, idleDatabaseSpec)
		ns.apply(ctx, manyConfigs())
		for i := range some {
			ns.becomesReady(ctx, appConfigKind, fmt.Sprintf("shop-%02d", i))
			ns.becomesReady(ctx, voteConfigKind, fmt.Sprintf("vote-%02d", i))
		}
		Expect(ns.recovered(ctx, idleDatabase).Status.ReadyInstances).To(BeEquivalentTo(3)) // its agents have written their labels by then
		waitForNoRequests(ctx, log, 10*time.Second)
	}, NodeTimeout(30*time.Minute))

	// nothing requires that the operator sends no write and no read for d after f.
	nothing := func(ctx SpecContext, what string, d time.Duration, f func()) {
		GinkgoHelper()
		waitForNoRequests(ctx, log, 5*time.Second)
		mark, err := log.Mark(ctx)
		Expect(err).NotTo(HaveOccurred())
		f()
		pauseFor(ctx, d)
		sent, err := log.Since(ctx, mark, audit.Filter{User: operatorUser})
		Expect(err).NotTo(HaveOccurred())
		report(fmt.Sprintf("%s with %d WebApps, %d AppConfigs, %d VoteConfigs and a PostgreSQL: %d writes, %d live reads\n%s",
			what, many, some, some, sent.Writes(), sent.LiveReads(), sent))
		Expect(sent.Writes()).To(BeZero(), sent.String())
		Expect(afterStart(sent).LiveReads()).To(BeZero(), sent.String())
	}

	It("send nothing while idle", func(ctx SpecContext) {
		since, err := log.Mark(ctx)
		Expect(err).NotTo(HaveOccurred())
		begun := time.Now()
		nothing(ctx, "idle for "+idleTime.String(), idleTime, func() {})
		ns.agentsOnlyRenew(ctx, log, since, begun)
	}, SpecTimeout(15*time.Minute))

	It("send nothing when other clients change labels of all of them and their children", func(ctx SpecContext) {
		nothing(ctx, "foreign labels", 10*time.Second, func() {
			for _, kind := range []string{"webapps", "deployments", "services"} {
				apps().run(ctx, "label", kind, "--all", "e2e.example.com/touched=true")
			}
			for _, kind := range []string{"appconfigs", "voteconfigs", "configmaps", "deployments"} {
				ns.run(ctx, "label", kind, "--all", "e2e.example.com/touched=true")
			}
		})
	}, SpecTimeout(15*time.Minute))

	It("send nothing after a restart of the operator", func(ctx SpecContext) {
		nothing(ctx, "restart of both replicas", 30*time.Second, func() {
			Expect(k8s.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(operatorNamespace), operatorLabels)).To(Succeed())
			operatorUp(ctx)
		})
	}, SpecTimeout(20*time.Minute))
}

const (
	idleDatabase = "calm"
	// With idleDatabaseSpec, a machine that is busy for some seconds does not count as a lost node.
	idleDatabaseSpec = "replicas: 3, synchronous: {number: 1}, lease: {leaseDurationSeconds: 60, renewDeadlineSeconds: 40}"
)

// agentsOnlyRenew requires that the agents have only written the Lease, no more often than configured.
func (n namespaced) agentsOnlyRenew(ctx context.Context, log *audit.Recorder, since audit.Position, begun time.Time) {
	GinkgoHelper()
	sent, err := log.Since(ctx, since, audit.Filter{User: "system:serviceaccount:" + n.name + ":" + idleDatabase})
	Expect(err).NotTo(HaveOccurred())
	most := int(time.Since(begun)/(2*time.Second)) + 5 // some may be late at either end, or sent twice
	renewals, reads := 0, 0
	for key, count := range sent.Counts {
		switch {
		case key.Class != audit.Lease:
		case key.Verb == "update":
			renewals += count.Requests
		default:
			reads += count.Requests
		}
	}
	report(fmt.Sprintf("agents of three instances: %d renewals (at most %d), %d reads of the Lease\n%s", renewals, most, reads, sent))
	Expect(renewals).To(And(BeNumerically(">", 0), BeNumerically("<=", most)), sent.String())
	Expect(sent.Of(audit.Write, audit.Event)).To(BeZero(), sent.String())
	Expect(n.databaseReady(ctx, idleDatabase).Status.Timeline).To(BeEquivalentTo(1), "another instance became primary meanwhile")
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
