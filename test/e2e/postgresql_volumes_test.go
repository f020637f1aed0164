package e2e

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// volumeSpecs are about what an administrator does to disks and nodes.
func volumeSpecs() {
	Describe("on disks that fill up and nodes that are drained", Ordered, func() {
		var ns namespaced
		BeforeAll(func(ctx SpecContext) {
			ns = newNamespace(ctx, nil)
			ns.postgreSQL(ctx, "disk", "replicas: 3, deletionPolicy: Delete")
			ns.databaseReady(ctx, "disk")
		}, NodeTimeout(15*time.Minute))

		It("grows its volumes without a restart", func(ctx SpecContext) {
			before := ns.lives(ctx, "disk")
			set := ns.run(ctx, "get", "statefulset", "disk", "-o", "jsonpath={.metadata.uid}")
			ns.run(ctx, "patch", "postgresql", "disk", "--type=merge", "-p", `{"spec":{"storage":"2Gi"}}`)
			ns.haveSize(ctx, "disk", "2Gi")
			Expect(ns.run(ctx, "get", "statefulset", "disk", "-o", "jsonpath={.metadata.uid}")).NotTo(Equal(set))
			Expect(ns.lives(ctx, "disk")).To(Equal(before), "pods were replaced or restarted")
		}, SpecTimeout(15*time.Minute))

		It("grows full volumes up to autoGrow.max", func(ctx SpecContext) {
			// Volumes here are folders of one disk, whatever their size: what the agents report is its use.
			if used := ns.diskUse(ctx, "disk-0"); used <= lowestThreshold {
				fillDisk(lowestThreshold + 1 - used)
			}
			before := ns.lives(ctx, "disk")
			ns.run(ctx, "patch", "postgresql", "disk", "--type=merge", "-p", `{"spec":{"autoGrow":{"threshold":10,"step":"1Gi","max":"3Gi"}}}`)
			ns.haveSize(ctx, "disk", "3Gi")
			Expect(ns.lives(ctx, "disk")).To(Equal(before), "pods were replaced or restarted")
		}, SpecTimeout(15*time.Minute))

		It("hands over when its primary is evicted", func(ctx SpecContext) {
			before := ns.recovered(ctx, "disk").Status.Primary
			ns.evict(ctx, before)
			Expect(ns.recovered(ctx, "disk").Status.Primary).NotTo(Equal(before), "nobody took over")
		}, SpecTimeout(15*time.Minute))

		It("lets every node be drained", func(ctx SpecContext) {
			for _, replicas := range []int{3, 2} {
				ns.run(ctx, "patch", "postgresql", "disk", "--type=merge", "-p", fmt.Sprintf(`{"spec":{"replicas":%d}}`, replicas))
				pg := ns.recovered(ctx, "disk")
				// All nodes at once: the budget lets one go at a time, and the next when it is back.
				var drains sync.WaitGroup
				for _, instance := range pg.Status.InstanceStatuses {
					drains.Go(func() {
						defer GinkgoRecover()
						ns.evict(ctx, instance.Name)
					})
				}
				drains.Wait()
				Expect(ns.recovered(ctx, "disk").Status.ReadyInstances).To(BeEquivalentTo(replicas))
			}
		}, SpecTimeout(30*time.Minute))

		It("does not block kubectl drain with one instance", func(ctx SpecContext) {
			ns.run(ctx, "patch", "postgresql", "disk", "--type=merge", "-p", `{"spec":{"replicas":1}}`)
			ns.recovered(ctx, "disk")
			node := ns.run(ctx, "get", "pod", "disk-0", "-o", "jsonpath={.spec.nodeName}")
			DeferCleanup(func(ctx SpecContext) { ns.run(ctx, "uncordon", node) })
			ns.run(ctx, "drain", node, "--pod-selector=fettle.dev/owner-name=disk", "--ignore-daemonsets", "--delete-emptydir-data", "--timeout=300s")
			ns.run(ctx, "uncordon", node)
			ns.recovered(ctx, "disk")
		}, SpecTimeout(15*time.Minute))

		It("deletes volumes and passwords with the deletion policy Delete", func(ctx SpecContext) {
			ns.run(ctx, "delete", "postgresql", "disk")
			ns.run(ctx, "wait", "--for=delete", "pod/disk-0", "pvc/data-disk-0", "secret/disk-credentials", "--timeout=300s")
			Eventually(ctx, func(ctx context.Context) (string, error) {
				return ns.try(ctx, "get", "pvc,secrets,services,statefulsets,leases", "-l", "fettle.dev/owner-name=disk", "-o", "name")
			}).WithTimeout(later).Should(BeEmpty())
		}, SpecTimeout(15*time.Minute))
	})
}

// lives are the pods of a PostgreSQL with how often they were started.
func (n namespaced) lives(ctx context.Context, name string) map[string]string {
	GinkgoHelper()
	pods := &corev1.PodList{}
	Expect(k8s.List(ctx, pods, client.InNamespace(n.name), client.MatchingLabels{"fettle.dev/owner-name": name})).To(Succeed())
	lives := map[string]string{}
	for i := range pods.Items {
		p := &pods.Items[i]
		lives[p.Name] = string(p.UID)
		for _, c := range p.Status.ContainerStatuses {
			lives[p.Name] += fmt.Sprintf(", %d restarts", c.RestartCount)
		}
	}
	return lives
}

// haveSize waits until claims, volumes, template and status are at the size.
func (n namespaced) haveSize(ctx context.Context, name, size string) {
	GinkgoHelper()
	Eventually(ctx, func(ctx context.Context) (string, error) {
		return n.try(ctx, "get", "statefulset", name, "-o", "jsonpath={.spec.volumeClaimTemplates[0].spec.resources.requests.storage}")
	}).WithTimeout(later).Should(Equal(size))
	n.databaseReady(ctx, name)
	Eventually(ctx, func(ctx context.Context) ([]string, error) { // a growth by itself changes no generation: Ready may be from before
		table, err := n.try(ctx, "get", "pvc", "--no-headers")
		return strings.Split(strings.TrimSpace(table), "\n"), err
	}).WithTimeout(later).Should(And(HaveLen(3), HaveEach(MatchRegexp(`^data-%s-\d +Bound +\S+ +%s +RWO `, name, size))))
}

// lowestThreshold is the least that spec.autoGrow.threshold may be, in percent.
const lowestThreshold = 10

// fillDisk reserves some percent more of the local cluster's disk until the spec has ended.
func fillDisk(percent int) {
	GinkgoHelper()
	Expect(local).To(BeTrue(), "too little of the disk is used for any threshold")
	file, err := os.CreateTemp(localFolder(), "fill-disk-")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func() { Expect(errors.Join(file.Close(), os.Remove(file.Name()))).To(Succeed()) })
	var disk syscall.Statfs_t
	Expect(syscall.Fstatfs(int(file.Fd()), &disk)).To(Succeed())
	Expect(syscall.Fallocate(int(file.Fd()), 0, 0, int64(disk.Blocks)*disk.Bsize/100*int64(percent))).To(Succeed())
}

// diskUse is how full the data volume is, in percent.
func (n namespaced) diskUse(ctx context.Context, pod string) (percent int) {
	GinkgoHelper()
	output := n.run(ctx, "exec", pod, "--", "df", "--output=pcent", "/data")
	_, err := fmt.Sscanf(strings.TrimSpace(output[strings.Index(output, "\n")+1:]), "%d%%", &percent)
	Expect(err).NotTo(HaveOccurred(), output)
	return percent
}

// evict does to a pod what a drain does: it asks until it may, and waits until the pod is gone.
func (n namespaced) evict(ctx context.Context, name string) {
	GinkgoHelper()
	pod := &corev1.Pod{}
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: n.name, Name: name}, pod)).To(Succeed())
	Eventually(ctx, func(ctx context.Context) error { // those that come before it in a drain have to be back
		return k8s.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: n.name, Name: name}})
	}).WithTimeout(3*later).Should(Succeed(), "the eviction of %s is not allowed", name)
	Eventually(ctx, func(ctx context.Context) bool {
		now := &corev1.Pod{}
		err := k8s.Get(ctx, client.ObjectKeyFromObject(pod), now)
		return apierrors.IsNotFound(err) || err == nil && now.UID != pod.UID
	}).WithTimeout(later).Should(BeTrue(), "%s is not gone", name)
}
