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
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/test/audit"
)

const (
	// many WebApps are there while the operator is watched; some of them have a pod.
	many, running = 100, 3
	idleTime      = time.Minute
	// quiet is how long the operator keeps back a status that only tells of progress; one that takes longer is told of.
	quiet = 3 * time.Second
)

// auditSpecs let the API server say what the operator sends.
func auditSpecs() {
	Describe("with 100 WebApps", Ordered, func() {
		var ns namespaced
		var log *audit.Recorder
		operator := audit.Filter{User: operatorUser}

		BeforeAll(func(ctx SpecContext) {
			path := auditLog()
			if _, err := os.Stat(path); err != nil {
				Skip("the API server's audit log can't be read here: " + err.Error())
			}
			var err error
			log, err = audit.New(path, config)
			Expect(err).NotTo(HaveOccurred())
			ns = newNamespace(ctx, nil)
			ns.isAlone(ctx)
		}, NodeTimeout(20*time.Minute))

		It("counts no more writes than children and one status for each", func(ctx SpecContext) {
			mark, err := log.Mark(ctx)
			Expect(err).NotTo(HaveOccurred())
			start := time.Now()
			createMany(ctx, ns)
			Eventually(ctx, func() (int, error) { return ns.countReady(ctx) }).WithTimeout(2 * later).Should(Equal(many))
			took := time.Since(start)
			calm(ctx, log, 10*time.Second)
			sent, err := log.Since(ctx, mark, audit.Filter{User: operatorUser, Namespace: ns.name})
			Expect(err).NotTo(HaveOccurred())
			slow := ns.countSlow(ctx)
			necessary := ns.countChildren(ctx) + many + slow
			ratio := float64(sent.Writes()) / float64(necessary)
			report(fmt.Sprintf("creation of %d WebApps, Ready after %.1f s, %d of them after more than %s: %d writes for %d necessary ones (%.3f), %d live reads, %d events\n%s",
				many, took.Seconds(), slow, quiet, sent.Writes(), necessary, ratio, sent.LiveReads(), sent.Of(audit.Event), sent))
			Expect(ratio).To(BeNumerically("<=", 1.10), sent.String())
			Expect(sent.LiveReads()).To(BeZero(), sent.String())
		})

		It("counts nothing while there is nothing to do", func(ctx SpecContext) {
			mark, err := log.Mark(ctx)
			Expect(err).NotTo(HaveOccurred())
			settle(ctx, idleTime)
			sent, err := log.Since(ctx, mark, operator)
			Expect(err).NotTo(HaveOccurred())
			report(fmt.Sprintf("%s idle with %d WebApps: %d writes, %d live reads\n%s", idleTime, many, sent.Writes(), sent.LiveReads(), sent))
			Expect(sent.Writes()).To(BeZero(), sent.String())
			Expect(sent.LiveReads()).To(BeZero(), sent.String())
		}, SpecTimeout(15*time.Minute))

		It("counts nothing when every WebApp, and a child of each, is touched by others", func(ctx SpecContext) {
			calm(ctx, log, 5*time.Second)
			mark, err := log.Mark(ctx)
			Expect(err).NotTo(HaveOccurred())
			for _, kind := range []string{"webapps", "deployments", "services"} {
				ns.run(ctx, "label", kind, "--all", "e2e.example.com/touched=true")
			}
			settle(ctx, 10*time.Second)
			sent, err := log.Since(ctx, mark, operator)
			Expect(err).NotTo(HaveOccurred())
			report(fmt.Sprintf("labels of others on %d WebApps, Deployments and Services: %d writes, %d live reads\n%s", many, sent.Writes(), sent.LiveReads(), sent))
			Expect(sent.Writes()).To(BeZero(), sent.String())
			Expect(sent.LiveReads()).To(BeZero(), sent.String())
		}, SpecTimeout(15*time.Minute))

		It("counts nothing after a restart of the operator", func(ctx SpecContext) {
			calm(ctx, log, 5*time.Second)
			mark, err := log.Mark(ctx)
			Expect(err).NotTo(HaveOccurred())
			Expect(k8s.DeleteAllOf(ctx, &corev1.Pod{}, client.InNamespace(operatorNamespace), operatorLabels)).To(Succeed())
			operatorUp(ctx)
			settle(ctx, 30*time.Second)
			sent, err := log.Since(ctx, mark, operator)
			Expect(err).NotTo(HaveOccurred())
			report(fmt.Sprintf("restart of both replicas with %d WebApps: %d writes, %d live reads\n%s", many, sent.Writes(), sent.LiveReads(), sent))
			Expect(sent.Writes()).To(BeZero(), sent.String())
			Expect(sent.LiveReads()).To(BeZero(), sent.String())
		}, SpecTimeout(20*time.Minute))
	})
}

// auditLog is the one of the local cluster.
func auditLog() string {
	if !local {
		return "none is known of the cluster of KUBECONFIG"
	}
	folder := os.Getenv("FETTLE_CLUSTER")
	if folder == "" {
		folder = "/var/lib/fettle-cluster"
	}
	return filepath.Join(folder, "audit", "audit.log")
}

// report shows a measurement however the spec ends.
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

// countSlow counts the WebApps that may have become Ready later than quiet after they were made. Times are in whole seconds.
func (n namespaced) countSlow(ctx context.Context) (slow int) {
	GinkgoHelper()
	apps := &appsv1.WebAppList{}
	Expect(k8s.List(ctx, apps, client.InNamespace(n.name))).To(Succeed())
	for _, app := range apps.Items {
		if c := meta.FindStatusCondition(app.Status.Conditions, fettlev1.Ready); c != nil && c.LastTransitionTime.Sub(app.CreationTimestamp.Time) >= quiet {
			slow++
		}
	}
	return slow
}

// calm waits until the operator has sent nothing for so long: all that was awaited before has come to its end.
func calm(ctx context.Context, log *audit.Recorder, d time.Duration) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) (string, error) {
		mark, err := log.Mark(ctx)
		if err != nil {
			return "", err
		}
		settle(ctx, d)
		sent, err := log.Since(ctx, mark, audit.Filter{User: operatorUser})
		if err != nil || sent.Writes()+sent.LiveReads() == 0 {
			return "", err
		}
		return sent.String(), nil
	}).WithTimeout(later).Should(BeEmpty(), "the operator does not come to rest")
}

func (n namespaced) countChildren(ctx context.Context) int {
	GinkgoHelper()
	children := 0
	for _, list := range []client.ObjectList{&k8sappsv1.DeploymentList{}, &corev1.ServiceList{}, &policyv1.PodDisruptionBudgetList{}, &k8sappsv1.ControllerRevisionList{}} {
		Expect(k8s.List(ctx, list, client.InNamespace(n.name), client.MatchingLabels{"fettle.dev/owner-kind": "WebApp"})).To(Succeed())
		children += meta.LenList(list)
	}
	return children
}

// isAlone waits until the namespaces of former specs are gone: what is deleted in them gives the operator something to do.
func (n namespaced) isAlone(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) ([]string, error) {
		list := &corev1.NamespaceList{}
		if err := k8s.List(ctx, list); err != nil {
			return nil, err
		}
		var others []string
		for i := range list.Items {
			if name := list.Items[i].Name; strings.HasPrefix(name, "e2e-") && name != n.name {
				others = append(others, name)
			}
		}
		return others, nil
	}).WithTimeout(2*later).Should(BeEmpty(), "namespaces of former specs are still being deleted")
}

// settle lets time pass in which something could happen that should not.
func settle(ctx context.Context, d time.Duration) {
	GinkgoHelper()
	select {
	case <-ctx.Done():
		Fail(ctx.Err().Error())
	case <-time.After(d):
	}
}
