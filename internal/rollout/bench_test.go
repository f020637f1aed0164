package rollout

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// realistic is a Deployment with two containers, 24 variables, of which 4 are references, and three volumes.
func realistic(i int) *k8sappsv1.Deployment {
	labels := map[string]string{"app.kubernetes.io/name": "shop", "app.kubernetes.io/instance": fmt.Sprint("shop-", i), "team": "web"}
	d := &k8sappsv1.Deployment{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprint("shop-", i), Namespace: fmt.Sprint("team-", i%100), UID: "0e2b7d5c-96f1-4b55-9c55-3f0f2f3d8a11", ResourceVersion: fmt.Sprint(i),
		Labels: labels, Annotations: map[string]string{theKey: restartRecord(strings.Repeat("0", hashDigits), start).String(), "other": "x"},
		ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubectl", Time: &metav1.Time{Time: start}, FieldsV1: metav1.NewFieldsV1(strings.Repeat("x", 4000))}},
	}}
	d.Spec.Selector, d.Spec.Template.Labels = &metav1.LabelSelector{MatchLabels: labels}, labels
	d.Spec.Template.Annotations = map[string]string{theKey: unknownContents("0123456789abcdef")}
	for c := range 2 {
		container := corev1.Container{Name: fmt.Sprint("c", c), Image: fmt.Sprint("registry.example.com/shop:", i)}
		for e := range 10 {
			container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprint("PLAIN_", e), Value: fmt.Sprint("value of ", i)})
		}
		for e := range 2 {
			container.Env = append(container.Env, corev1.EnvVar{Name: fmt.Sprint("REF_", e), ValueFrom: &corev1.EnvVarSource{
				ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: fmt.Sprint("config-", i)}, Key: fmt.Sprint("k", e)},
			}})
		}
		d.Spec.Template.Spec.Containers = append(d.Spec.Template.Spec.Containers, container)
	}
	d.Spec.Template.Spec.Volumes = []corev1.Volume{
		{Name: "c", VolumeSource: corev1.VolumeSource{ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: "c"}}}},
		{Name: "s", VolumeSource: corev1.VolumeSource{Secret: &corev1.SecretVolumeSource{SecretName: "s"}}}, {Name: "e"},
	}
	return d
}

// BenchmarkMemory measures the cache's memory for a Deployment.
func BenchmarkMemory(b *testing.B) {
	const many = 10_000
	for b.Loop() {
		kept := make([]any, many)
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range kept {
			kept[i], _ = trimWorkload(realistic(i).DeepCopy())
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapAlloc-before.HeapAlloc)/many, "B/workload")
		runtime.KeepAlive(kept)
	}
}

// BenchmarkDecide measures a reconcile of 50 dependants that are up to date.
func BenchmarkDecide(b *testing.B) {
	var workloads []*Workload
	now := published("1", "1")
	for i := range 50 {
		workloads = append(workloads, user(Deployment, fmt.Sprint(i), rolled(now, start)))
	}
	for b.Loop() {
		p := &evaluation{now: start, owner: theOwner, policy: thePolicy, published: []Object{now}, key: testKey}
		p.decide(workloads, func(*Workload) lastWrite { return lastWrite{} })
	}
}
