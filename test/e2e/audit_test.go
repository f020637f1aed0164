package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/test/audit"
)

const (
	// many is the number of WebApps during the measurement; running of them have a pod.
	many, running = 100, 3
	// webAppChildren is the number of children of each: a Deployment and a Service.
	webAppChildren = 2
	idleTime       = time.Minute
)

// auditSpecs count the operator's requests in the API server's audit log.
func auditSpecs() {
	Describe("with 100 WebApps", Ordered, func() {
		var ns namespaced
		var log *audit.Recorder

		BeforeAll(func(ctx SpecContext) {
			log = auditLog()
			ns = newNamespace(ctx, nil)
			waitForDeletedNamespaces(ctx)
		}, NodeTimeout(20*time.Minute))

		It("sends no more writes than children and one status for each", func(ctx SpecContext) {
			mark, err := log.Mark(ctx)
			Expect(err).NotTo(HaveOccurred())
			start := time.Now()
			createMany(ctx, ns)
			Eventually(ctx, func() (int, error) { return ns.countReady(ctx) }).WithTimeout(2 * later).Should(Equal(many))
			took := time.Since(start)
			waitForNoRequests(ctx, log, 10*time.Second)
			sent, err := log.Since(ctx, mark, audit.Filter{User: operatorUser, Namespace: ns.name})
			Expect(err).NotTo(HaveOccurred())
			// A progress status is delayed by some seconds; a WebApp that takes longer costs one more write.
			early, err := ns.countEarly(ctx)
			Expect(err).NotTo(HaveOccurred())
			necessary := many*(webAppChildren+1) + early
			report(fmt.Sprintf("creation of %d WebApps, Ready after %.1f s, %d of them with an earlier status: %d writes for %d necessary ones, %d live reads, %d events\n%s",
				many, took.Seconds(), early, sent.Writes(), necessary, sent.LiveReads(), sent.Of(audit.Event), sent))
			Expect(sent.Writes()).To(BeNumerically("<=", necessary), sent.String())
			Expect(sent.LiveReads()).To(BeZero(), sent.String())
		})

		Describe("and 20 AppConfigs, 20 VoteConfigs, the Deployments that use them and a PostgreSQL of three instances", Ordered, func() {
			idleSpecs(func() namespaced { return ns })
		})
	})
}

// afterStart removes the reads of the admission policies: each leader reads both once.
func afterStart(sent audit.Summary) audit.Summary {
	return sent.Where(func(key audit.Key) bool {
		return key.Class != audit.LiveRead || !strings.HasPrefix(key.Resource, "validatingadmissionpolic") || sent.Counts[key].Requests > 2
	})
}

// auditLog reads the API server's audit log, which is only possible on the local cluster.
func auditLog() *audit.Recorder {
	GinkgoHelper()
	if !local {
		Skip("cannot read the audit log of the cluster of KUBECONFIG")
	}
	log, err := audit.New(filepath.Join(localFolder(), "audit", "audit.log"), config)
	Expect(err).NotTo(HaveOccurred())
	return log
}

// localFolder contains all files of the local cluster.
func localFolder() string {
	if folder := os.Getenv("FETTLE_CLUSTER"); folder != "" {
		return folder
	}
	return "/var/lib/fettle-cluster"
}

// report shows a measurement whether the spec passes or fails.
func report(text string) {
	AddReportEntry("measured", ReportEntryVisibilityAlways, text)
}

func createMany(ctx context.Context, ns namespaced) {
	GinkgoHelper()
	var creators sync.WaitGroup
	errs := make(chan error, many)
	for i := range many {
		creators.Go(func() {
			app := &appsv1.WebApp{
				ObjectMeta: metav1.ObjectMeta{Namespace: ns.name, Name: fmt.Sprintf("app-%03d", i)},
				Spec:       appsv1.WebAppSpec{Image: "nginx:1.25", Replicas: new(int32(0))},
			}
			if i < running {
				app.Spec.Replicas = new(int32(1))
			}
			errs <- k8s.Create(ctx, app)
		})
	}
	creators.Wait()
	close(errs)
	for err := range errs {
		Expect(err).NotTo(HaveOccurred())
	}
}

func (n namespaced) countReady(ctx context.Context) (int, error) {
	apps, ready := &appsv1.WebAppList{}, 0
	err := k8s.List(ctx, apps, client.InNamespace(n.name))
	for _, app := range apps.Items {
		if meta.IsStatusConditionTrue(app.Status.Conditions, fettlev1.Ready) {
			ready++
		}
	}
	return ready, err
}

// countEarly counts the WebApps whose children were reported in a status before the one that reported them Ready.
func (n namespaced) countEarly(ctx context.Context) (int, error) {
	apps, early := &appsv1.WebAppList{}, 0
	err := k8s.List(ctx, apps, client.InNamespace(n.name))
	for _, app := range apps.Items {
		applied, ready := meta.FindStatusCondition(app.Status.Conditions, appsv1.WebAppApplied), meta.FindStatusCondition(app.Status.Conditions, fettlev1.Ready)
		if applied != nil && ready != nil && applied.LastTransitionTime.Before(&ready.LastTransitionTime) {
			early++
		}
	}
	return early, err
}

// waitForNoRequests waits until the operator has sent no request for that time, so all earlier work is complete.
func waitForNoRequests(ctx context.Context, log *audit.Recorder, d time.Duration) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) (string, error) {
		mark, err := log.Mark(ctx)
		if err != nil {
			return "", err
		}
		pauseFor(ctx, d)
		sent, err := log.Since(ctx, mark, audit.Filter{User: operatorUser})
		if err != nil || sent.Writes()+sent.LiveReads() == 0 {
			return "", err
		}
		return sent.String(), nil
	}).WithTimeout(later).Should(BeEmpty(), "the operator never becomes idle")
}

// waitForDeletedNamespaces waits until the namespaces of former specs are deleted: their deletion causes requests of the operator.
func waitForDeletedNamespaces(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) ([]string, error) {
		list := &corev1.NamespaceList{}
		if err := k8s.List(ctx, list); err != nil {
			return nil, err
		}
		var others []string
		for i := range list.Items {
			if ns := &list.Items[i]; strings.HasPrefix(ns.Name, "e2e-") && ns.DeletionTimestamp != nil {
				others = append(others, ns.Name)
			}
		}
		return others, nil
	}).WithTimeout(2*later).Should(BeEmpty(), "namespaces of former specs are still being deleted")
}

// pauseFor waits for a time in which nothing must happen.
func pauseFor(ctx context.Context, d time.Duration) {
	GinkgoHelper()
	select {
	case <-ctx.Done():
		Fail(ctx.Err().Error())
	case <-time.After(d):
	}
}
