package apply

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func newPod(f *fixture) *corev1.Pod {
	f.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "web", Labels: testLabels()},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}
	if err := f.admin.Create(f.t.Context(), &corev1.ServiceAccount{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "default"},
	}); err != nil {
		f.t.Fatal(err)
	}
	if err := f.admin.Create(f.t.Context(), pod); err != nil {
		f.t.Fatal(err)
	}
	f.waitForCache(pod)
	return pod
}

func TestPatchStatus(t *testing.T) {
	f := newFixture(t)
	pod := newPod(f)
	f.takeRequests()
	before := pod.DeepCopy()
	pod.Labels["more"] = "1" // not the status
	patch := func(want bool) {
		t.Helper()
		wrote, err := f.PatchStatus(t.Context(), pod, before)
		if err != nil || wrote != want {
			t.Fatalf("wrote %v, %v, want %v", wrote, err, want)
		}
	}
	patch(false)
	f.expect("an equal status")

	pod.Status.Message = "hello"
	patch(true)
	f.expect("another status", "PATCH pods/web/status")
	got := f.get(&corev1.Pod{}).(*corev1.Pod)
	if got.Status.Message != "hello" || got.Labels["more"] != "" || pod.ResourceVersion != got.ResourceVersion {
		t.Errorf("stored message %q and labels %v, answered version %s for %s", got.Status.Message, got.Labels, pod.ResourceVersion, got.ResourceVersion)
	}

	if wrote, err := f.PatchStatus(t.Context(), f.owner, f.owner.DeepCopyObject().(client.Object)); err != nil || wrote {
		t.Errorf("of a kind without status: wrote %v, %v", wrote, err)
	}
	f.expect("no status")

	outdated := before.DeepCopy()
	outdated.Status.Message = "late"
	if _, err := f.PatchStatus(t.Context(), outdated, before); !apierrors.IsConflict(err) {
		t.Errorf("from an old copy: %v, want a conflict", err)
	}
	if f.get(&corev1.Pod{}).(*corev1.Pod).Status.Message != "hello" {
		t.Error("a status that was computed from an old copy was written")
	}
}

func TestCurrent(t *testing.T) {
	f := newFixture(t)
	pod := newPod(f)
	old := pod.DeepCopy()
	if !f.Current(old) {
		t.Error("an object that was never written is not current")
	}
	pod.Status.Message = "hello"
	if _, err := f.PatchStatus(t.Context(), pod, old); err != nil {
		t.Fatal(err)
	}
	if f.Current(old) {
		t.Error("a copy from before the write is current")
	}
	f.eventually("the cache is current", func() bool {
		cached := &corev1.Pod{}
		if err := f.cache.Get(t.Context(), client.ObjectKeyFromObject(pod), cached); err != nil {
			t.Fatal(err)
		}
		return f.Current(cached)
	})

	pod.Status.Message = "again"
	if _, err := f.PatchStatus(t.Context(), pod, old); !apierrors.IsConflict(err) {
		t.Fatalf("%v, want a conflict", err)
	}
}
