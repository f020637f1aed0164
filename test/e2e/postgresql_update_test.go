package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	operatorsv1alpha1 "github.com/operator-framework/api/pkg/operators/v1alpha1"
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/test/acks"
)

// postgresUpdateSpecs change everything around a database that can be changed, while clients write.
func postgresUpdateSpecs() {
	Describe("while clients write", Ordered, func() {
		var ns namespaced
		var pg *databasev1alpha1.PostgreSQL
		var all *clients
		var seen *podHistory
		var former, next string // images of the operator

		BeforeAll(func(ctx SpecContext) {
			if !local {
				Skip("the Services of the cluster of KUBECONFIG are not known to be reachable from here")
			}
			ns = newNamespace(ctx, restricted)
			ns.postgreSQL(ctx, "busy", "replicas: 3, synchronous: {number: 1}, databaseName: ledger")
			pg = ns.databaseReady(ctx, "busy")
			seen = ns.watchPods(ctx, "busy")
			all = ns.startClients(ctx, "busy")
		})

		AfterAll(func(ctx SpecContext) {
			if former != "" {
				setOperatorImage(ctx, former)
				operatorUp(ctx) // the next specs run without a change of the leader
			}
		})

		It("rolls out another image and a parameter that needs a restart, each instance once", func(ctx SpecContext) {
			former := *pg
			ns.run(ctx, "patch", "postgresql", "busy", "--type=merge", "-p",
				`{"spec":{"image":"`+otherImage()+`","parameters":{"max_connections":"123"}}}`)
			pg = ns.databaseReady(ctx, "busy")
			Expect(seen.lives()).To(Equal(map[string]int{"busy-0": 2, "busy-1": 2, "busy-2": 2}))
			Expect(pg.Status.Primary).NotTo(Equal(former.Status.Primary))
			Expect(pg.Status.Timeline).To(Equal(former.Status.Timeline + 1))
			for _, pod := range ns.pods(ctx, "busy") {
				Expect(pod.Spec.Containers[0].Image).To(Equal(otherImage()))
				Expect(ns.run(ctx, "exec", pod.Name, "--", "psql", "-qtAX", "-d", "postgres", "-c", "show max_connections")).To(Equal("123\n"))
			}
			all.expectNoError()
		})

		It("does not notice that the operator is upgraded", func(ctx SpecContext) {
			former, next = operatorImages(ctx)
			before := ns.containers(ctx, "busy")
			setOperatorImage(ctx, next)
			operatorUp(ctx)
			pauseFor(ctx, 3*time.Second) // the new leader has reconciled it by then
			Expect(ns.containers(ctx, "busy")).To(Equal(before))
			pg = ns.databaseReady(ctx, "busy")
			Expect(pg.Status.AgentImage).To(Equal(next)) // of the next pods
			all.expectNoError()
		})

		It("gets the operator's agent on request, each instance once, while the leader is deleted", func(ctx SpecContext) {
			ns.run(ctx, "annotate", "postgresql", "busy", "fettle.dev/upgrade-agent=true")
			Eventually(ctx, func() int { return slices.Max(slices.Collect(maps.Values(seen.lives()))) }).WithTimeout(later).Should(Equal(3))
			Expect(k8s.Delete(ctx, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: operatorNamespace, Name: leaderPod(ctx)}})).To(Succeed())
			Eventually(ctx, func(g Gomega) {
				pg = ns.databaseReady(ctx, "busy")
				g.Expect(pg.Status.AgentImage).To(Equal(next))
				g.Expect(seen.lives()).To(Equal(map[string]int{"busy-0": 3, "busy-1": 3, "busy-2": 3}))
				for _, pod := range ns.pods(ctx, "busy") {
					g.Expect(pod.Spec.InitContainers[0].Image).To(Equal(next))
				}
			}).WithTimeout(2 * later).Should(Succeed())
			all.expectNoError()
		})

		It("has lost no acknowledged row", func(ctx SpecContext) {
			all.end()
			conn := connect(ctx, all.target)
			defer func() { _ = conn.Close(ctx) }() // all answers have been read
			found, err := acks.Compare(ctx, conn, all.ledgers...)
			Expect(err).NotTo(HaveOccurred())
			report(fmt.Sprintf("%d clients wrote %d rows through two rolling updates and an upgrade of the operator: %d lost, %d twice, %d acknowledged by two primaries; "+
				"%d first tries failed, %d second ones (errors); at most %.2f s without a row", writers, found.Acknowledged, found.Lost, found.Duplicated, found.Overlapping,
				found.Retried, len(all.errors()), all.longestGap().Seconds()))
			Expect([]int{found.Lost, found.Duplicated, found.Overlapping}).To(Equal([]int{0, 0, 0}))
			all.expectNoError()
		})
	})
}

// podHistory notes the pods that there ever were.
type podHistory struct {
	look  func()
	mutex sync.Mutex
	uids  map[string][]types.UID // by name
}

// watchPods looks often enough to see each pod.
func (n namespaced) watchPods(ctx context.Context, cluster string) *podHistory {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	h := &podHistory{uids: map[string][]types.UID{}}
	h.look = func() {
		pods := &corev1.PodList{}
		if err := k8s.List(ctx, pods, client.InNamespace(n.name), client.MatchingLabels{"app": cluster}); err != nil {
			return // asked again soon
		}
		h.mutex.Lock()
		defer h.mutex.Unlock()
		for i := range pods.Items {
			if p := &pods.Items[i]; !slices.Contains(h.uids[p.Name], p.UID) {
				h.uids[p.Name] = append(h.uids[p.Name], p.UID)
			}
		}
	}
	h.look()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			h.look()
			select {
			case <-ctx.Done():
			case <-time.After(poll / 2):
			}
		}
	}()
	DeferCleanup(func() { cancel(); <-ended })
	return h
}

// lives counts the pods of each name, those of this moment too.
func (h *podHistory) lives() map[string]int {
	h.look()
	h.mutex.Lock()
	defer h.mutex.Unlock()
	out := map[string]int{}
	for name, uids := range h.uids {
		out[name] = len(uids)
	}
	return out
}

// pods are those of a PostgreSQL.
func (n namespaced) pods(ctx context.Context, cluster string) []corev1.Pod {
	GinkgoHelper()
	pods := &corev1.PodList{}
	Expect(k8s.List(ctx, pods, client.InNamespace(n.name), client.MatchingLabels{"app": cluster})).To(Succeed())
	return pods.Items
}

// containers says of each pod which it is, and when its containers were started.
func (n namespaced) containers(ctx context.Context, cluster string) map[string]string {
	GinkgoHelper()
	out := map[string]string{}
	for _, pod := range n.pods(ctx, cluster) {
		out[pod.Name] = string(pod.UID)
		for _, c := range pod.Status.ContainerStatuses {
			Expect(c.State.Running).NotTo(BeNil())
			out[pod.Name] += fmt.Sprintf(" %s %s, restarted %d times", c.Name, c.State.Running.StartedAt.Format(time.TimeOnly), c.RestartCount)
		}
	}
	return out
}

// operatorImages are the image of the operator as it is installed, and another name of it: the one by its digest.
func operatorImages(ctx context.Context) (installed, other string) {
	GinkgoHelper()
	pod := &corev1.Pod{}
	Expect(k8s.Get(ctx, client.ObjectKey{Namespace: operatorNamespace, Name: leaderPod(ctx)}, pod)).To(Succeed())
	installed = pod.Spec.Containers[0].Image
	_, digest, found := strings.Cut(pod.Status.ContainerStatuses[0].ImageID, "@")
	Expect(found).To(BeTrue(), "the node does not know the digest of %s: %s", installed, pod.Status.ContainerStatuses[0].ImageID)
	repository := installed[:strings.LastIndexAny(installed, ":@")]
	Expect(installed).NotTo(ContainSubstring("@"), "it is installed by its digest already")
	return installed, repository + "@" + digest
}

// setOperatorImage has OLM roll the operator out with another image.
func setOperatorImage(ctx context.Context, image string) {
	GinkgoHelper()
	csv, err := installedCSV(ctx)
	Expect(err).NotTo(HaveOccurred())
	patch, err := json.Marshal(imagePatch(csv, image))
	Expect(err).NotTo(HaveOccurred())
	Expect(k8s.Patch(ctx, csv, client.RawPatch(types.JSONPatchType, patch))).To(Succeed())
	Eventually(ctx, func() (string, error) {
		operator := &k8sappsv1.Deployment{}
		if err := k8s.Get(ctx, operatorKey, operator); err != nil {
			return "", err
		}
		return operator.Spec.Template.Spec.Containers[0].Image, nil
	}).WithTimeout(later).Should(Equal(image))
}

// imagePatch changes the image where OLM reads it, and the variable that says which one it is.
func imagePatch(csv *operatorsv1alpha1.ClusterServiceVersion, image string) []map[string]any {
	const container = "/spec/install/spec/deployments/0/spec/template/spec/containers/0"
	patch := []map[string]any{{"op": "replace", "path": container + "/image", "value": image}}
	for i, v := range csv.Spec.InstallStrategy.StrategySpec.DeploymentSpecs[0].Spec.Template.Spec.Containers[0].Env {
		if v.Name == "OPERATOR_IMAGE" {
			patch = append(patch, map[string]any{"op": "replace", "path": fmt.Sprintf("%s/env/%d/value", container, i), "value": image})
		}
	}
	return patch
}
