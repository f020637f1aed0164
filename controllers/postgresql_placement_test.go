package controllers_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// placementScheduler is the name by which the scheduler of this file takes pods: those of other specs are not its own.
const placementScheduler = "placement"

// startScheduler runs the real kube-scheduler until the spec ends.
func startScheduler(ctx context.Context) {
	GinkgoHelper()
	dir := GinkgoT().TempDir()
	kubeconfig, settings := filepath.Join(dir, "kubeconfig"), filepath.Join(dir, "scheduler.yaml")
	Expect(clientcmd.WriteToFile(*kubeconfigOf(env.Admin), kubeconfig)).To(Succeed())
	Expect(os.WriteFile(settings, fmt.Appendf(nil, "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"+
		"leaderElection: {leaderElect: false}\nclientConnection: {kubeconfig: %q}\nprofiles: [{schedulerName: %s}]\n", kubeconfig, placementScheduler), 0o600)).To(Succeed())
	program := filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube-scheduler")
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	scheduler := exec.CommandContext(ctx, program, "--config="+settings, "--secure-port=0")
	scheduler.Stdout, scheduler.Stderr = GinkgoWriter, GinkgoWriter
	Expect(scheduler.Start()).To(Succeed())
	DeferCleanup(func() {
		cancel()
		_ = scheduler.Wait() // it was killed
	})
}

// newRoom is a node with 8 CPUs that has the image, or else is busy with other pods.
func newRoom(ctx context.Context, namespace, name, image string, busy bool) {
	GinkgoHelper()
	node := newNode(ctx, name)
	node.Labels = map[string]string{corev1.LabelHostname: name, "pool": namespace}
	node.Spec.Taints = nil // the API server adds that it is not ready
	Expect(user.Update(ctx, node)).To(Succeed())
	room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("32Gi"), corev1.ResourcePods: resource.MustParse("110")}
	node.Status.Capacity, node.Status.Allocatable = room, room
	if !busy {
		node.Status.Images = []corev1.ContainerImage{{Names: []string{image}, SizeBytes: 3 << 30}}
	}
	Expect(user.Status().Update(ctx, node)).To(Succeed())
	if !busy {
		return
	}
	other := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "other-" + name}, Spec: corev1.PodSpec{
		NodeName: name, Containers: []corev1.Container{{Name: "other", Image: "other", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("7")},
		}}},
	}}
	Expect(user.Create(ctx, other)).To(Succeed())
}

var _ = Describe("The instances of a PostgreSQL", func() {
	DescribeTable("are put on different nodes by the real scheduler", func(ctx context.Context, nodes, expected int) {
		namespace, _ := newDatabases(ctx)
		pg := newPostgreSQL(namespace, "spread", instances(3))
		createDatabase(ctx, pg)
		set := setOf(pg)
		Expect(read(ctx, set)).To(Succeed())
		// The first node is by far the best: it has the image, and nothing else runs there. No node has a zone's label.
		for i := range nodes {
			newRoom(ctx, namespace, fmt.Sprintf("%s-%d", namespace, i), set.Spec.Template.Spec.Containers[0].Image, i > 0)
		}
		startScheduler(ctx)
		elsewhere, err := env.NewNamespace(ctx, "placement")
		Expect(err).NotTo(HaveOccurred())
		var pods []*corev1.Pod
		for i := range 3 { // all at once, as the StatefulSet does
			pods = append(pods, podToPlace(set, elsewhere, fmt.Sprintf("spread-%d", i), namespace))
			Expect(user.Create(ctx, pods[i])).To(Succeed())
		}
		used := map[string]bool{}
		for _, pod := range pods {
			Eventually(field(pod, func(p *corev1.Pod) string { return p.Spec.NodeName }), "60s").WithContext(ctx).ShouldNot(BeEmpty())
			used[pod.Spec.NodeName] = true
			Expect(user.Delete(ctx, pod, client.GracePeriodSeconds(0))).To(Succeed())
		}
		Expect(used).To(HaveLen(expected))
	},
		Entry("three on three", 3, 3),
		Entry("three on two, of which none is left out and no pod either", 2, 2),
		Entry("three on one", 1, 1),
	)
})

// podToPlace is a pod of the template in another namespace, without what the scheduler or the API server would look for there.
func podToPlace(set *k8sappsv1.StatefulSet, namespace, name, pool string) *corev1.Pod {
	template := set.Spec.Template.DeepCopy()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: template.Labels}, Spec: template.Spec}
	pod.Spec.SchedulerName, pod.Spec.ServiceAccountName, pod.Spec.Volumes = placementScheduler, "", nil
	pod.Spec.NodeSelector = map[string]string{"pool": pool}
	pod.Spec.AutomountServiceAccountToken = new(false)
	for _, containers := range [][]corev1.Container{pod.Spec.Containers, pod.Spec.InitContainers} {
		for i := range containers {
			containers[i].VolumeMounts = nil
		}
	}
	pod.Spec.Containers[0].Resources.Requests = corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"), corev1.ResourceMemory: resource.MustParse("64Mi")}
	return pod
}
