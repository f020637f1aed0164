package apply

import (
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestPrune(t *testing.T) {
	f := newFixture(t)
	typed := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "web"}}
	loose := &unstructured.Unstructured{}
	loose.SetAPIVersion("v1")
	loose.SetKind("Service")
	loose.SetNamespace(f.name)
	loose.SetName("web")
	unserved := loose.DeepCopy()
	unserved.SetAPIVersion("example.com/v1")
	for name, target := range map[string]client.Object{"typed": typed, "unstructured": loose} {
		f.apply(webService(f.name))
		f.takeRequests()
		for range 3 { // the cache may or may not show the deletion by then
			if err := f.Prune(t.Context(), f.owner, unserved, target); err != nil {
				t.Fatal(err)
			}
		}
		f.expect(name, "DELETE services/web")
		f.settle(webService(f.name))
		if err := f.Prune(t.Context(), f.owner, target); err != nil {
			t.Fatal(err)
		}
		f.expect(name + ", absent")
		if f.get(&corev1.Service{}) != nil {
			t.Errorf("%s: not deleted", name)
		}
	}
}

// The default for Jobs leaves their Pods behind.
func TestPrune_propagates(t *testing.T) {
	f := newFixture(t)
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "web", Labels: testLabels()},
		Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "i"}},
		}}},
	}
	if err := f.Create(t.Context(), f.owner, job); err != nil {
		t.Fatal(err)
	}
	f.waitForCache(job)
	if err := f.Prune(t.Context(), f.owner, job); err != nil {
		t.Fatal(err)
	}
	if after := f.get(&batchv1.Job{}); after != nil && len(after.GetFinalizers()) > 0 &&
		after.GetFinalizers()[0] == metav1.FinalizerOrphanDependents {
		t.Error("the Pods of the Job are left behind")
	}
}

func TestCreate_writesOnce(t *testing.T) {
	f := newFixture(t)
	secret := func(password string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "web", Labels: testLabels()},
			Data:       map[string]string{"password": password},
		}
	}
	goOn := f.freezeCache()
	for range 2 {
		if err := f.Create(t.Context(), f.owner, secret("first")); err != nil {
			t.Fatal(err)
		}
	}
	f.expect("creation", "POST configmaps")
	f.restart()
	f.cache = &laggingCache{Cache: f.cache, store: "1"}
	for range 2 {
		if err := f.Create(t.Context(), f.owner, secret("second")); err != nil {
			t.Fatal(err)
		}
	}
	f.expect("after a restart with a cache that is behind", "POST(409) configmaps", "GET configmaps/web")
	goOn()
	f.waitForCache(f.get(&corev1.ConfigMap{}))
	if err := f.Create(t.Context(), f.owner, secret("third")); err != nil {
		t.Fatal(err)
	}
	f.expect("when the cache has caught up")
	got := f.get(&corev1.ConfigMap{}).(*corev1.ConfigMap)
	if got.Data["password"] != "first" || !metav1.IsControlledBy(got, f.owner) {
		t.Errorf("got %v", got)
	}
	f.remove(&corev1.ConfigMap{})
	if err := f.Create(t.Context(), f.owner, secret("fourth")); err != nil {
		t.Fatal(err)
	}
	f.expect("after its deletion", "POST configmaps")
}
