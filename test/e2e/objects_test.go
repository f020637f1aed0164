package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	votingv1alpha1 "github.com/fettle-dev/fettle/api/voting/v1alpha1"
)

var (
	appConfigKind  = configv1.GroupVersion.WithKind("AppConfig")
	voteConfigKind = votingv1alpha1.GroupVersion.WithKind("VoteConfig")
)

// pauseImage runs forever in a few hundred KiB, and exits at once when it is stopped.
const pauseImage = "registry.k8s.io/pause:3.10"

func voteImage() string {
	if image := os.Getenv("VOTEAPP_IMG"); image != "" {
		return image
	}
	return "ghcr.io/fettle-dev/voteapp:test"
}

// state returns a condition of an object of any kind as "Status Reason: Message"; "outdated" for one of an older generation.
func (n namespaced) state(kind schema.GroupVersionKind, name, condition string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		u := &unstructured.Unstructured{}
		u.SetGroupVersionKind(kind)
		if err := k8s.Get(ctx, client.ObjectKey{Namespace: n.name, Name: name}, u); err != nil {
			return "", err
		}
		all, _, _ := unstructured.NestedSlice(u.Object, "status", "conditions")
		for _, entry := range all {
			c, _ := entry.(map[string]any)
			observed, _, _ := unstructured.NestedInt64(c, "observedGeneration")
			switch {
			case c["type"] != condition:
			case observed != u.GetGeneration():
				return "outdated", nil
			default:
				return fmt.Sprintf("%v %v: %v", c["status"], c["reason"], c["message"]), nil
			}
		}
		return "none", nil
	}
}

// becomesReady waits until an object of any kind is Ready at its current generation.
func (n namespaced) becomesReady(ctx context.Context, kind schema.GroupVersionKind, name string) {
	GinkgoHelper()
	Eventually(ctx, n.state(kind, name, "Ready")).WithTimeout(later).Should(HavePrefix("True "), "%s %s", kind.Kind, name)
}

// data returns the contents of a ConfigMap.
func (n namespaced) data(name string) func(context.Context) (map[string]string, error) {
	return func(ctx context.Context) (map[string]string, error) {
		cm := &corev1.ConfigMap{}
		err := k8s.Get(ctx, client.ObjectKey{Namespace: n.name, Name: name}, cm)
		return cm.Data, err
	}
}

// rollouts counts the pod templates that each Deployment of the namespace has had.
func (n namespaced) rollouts(ctx context.Context) (map[string]int, error) {
	sets, err := n.replicaSets(ctx)
	counts := map[string]int{}
	for i := range sets {
		for _, owner := range sets[i].OwnerReferences {
			counts[owner.Name]++
		}
	}
	return counts, err
}

// deploy creates Deployments of one pause container each; environment is its "env" or "envFrom" as YAML.
func (n namespaced) deploy(ctx context.Context, environment string, names ...string) {
	GinkgoHelper()
	var manifests []string
	for _, name := range names {
		manifests = append(manifests, fmt.Sprintf(`
apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s, labels: {e2e: "true"}}
spec:
  progressDeadlineSeconds: 120
  revisionHistoryLimit: 20
  selector: {matchLabels: {app: %[1]s}}
  template:
    metadata: {labels: {app: %[1]s}}
    spec:
      terminationGracePeriodSeconds: 1
      automountServiceAccountToken: false
      containers:
      - name: app
        image: %[2]s
        resources: {requests: {cpu: 1m, memory: 1Mi}}
        %[3]s
`, name, pauseImage, environment))
	}
	n.apply(ctx, strings.Join(manifests, "---\n"))
}

// complete reports whether a Deployment only runs its current template.
func complete(d *k8sappsv1.Deployment) bool {
	want := int32(1)
	if d.Spec.Replicas != nil {
		want = *d.Spec.Replicas
	}
	return d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas == want && d.Status.Replicas == want && d.Status.AvailableReplicas == want
}

// deployments returns the Deployments of the namespace.
func (n namespaced) deployments(ctx context.Context) ([]k8sappsv1.Deployment, error) {
	list := &k8sappsv1.DeploymentList{}
	err := k8s.List(ctx, list, client.InNamespace(n.name))
	return list.Items, err
}

// allComplete waits until every Deployment of the namespace runs its current template.
func (n namespaced) allComplete(ctx context.Context) {
	GinkgoHelper()
	Eventually(ctx, func() ([]string, error) {
		all, err := n.deployments(ctx)
		var waiting []string
		for i := range all {
			if !complete(&all[i]) {
				waiting = append(waiting, all[i].Name)
			}
		}
		return waiting, err
	}).WithTimeout(2 * later).Should(BeEmpty())
}
