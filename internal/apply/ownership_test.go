package apply

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// foreignObjects are conflicting objects, each of which must stay unchanged.
func foreignObjects(namespace string, other types.UID) map[string]metav1.ObjectMeta {
	controlled := []metav1.OwnerReference{{
		APIVersion: "v1", Kind: "PodTemplate", Name: "other", UID: other, Controller: new(true),
	}}
	meta := func(labels, annotations map[string]string, refs []metav1.OwnerReference) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: "web", Labels: labels, Annotations: annotations, OwnerReferences: refs}
	}
	mark := map[string]string{hashAnnotation: "0123"}
	ours := map[string]string{"app.kubernetes.io/managed-by": "fettle"}
	return map[string]metav1.ObjectMeta{
		"not in the cache":                        meta(nil, nil, nil),
		"of another controller, not in the cache": meta(nil, mark, controlled),
		"with the label":                          meta(ours, nil, nil),
		"with the label, of another controller":   meta(ours, mark, controlled),
		"with all labels":                         meta(testLabels(), nil, nil),
		"with all labels and the hash annotation, of another controller": meta(testLabels(), mark, controlled),
		"with the hash annotation, and the labels of another owner kind": meta(ours, mark, nil),
	}
}

// A foreign object is rejected, named, and not changed by Apply, Create or Prune.
func TestForeignObject_isConflict(t *testing.T) {
	f := newFixture(t)
	other := newOwner(f.name, "other")
	if err := f.admin.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	for name, meta := range foreignObjects(f.name, other.GetUID()) {
		f.run(name, func(t *testing.T) {
			foreign := &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"theirs": "1"}}
			if err := f.admin.Create(t.Context(), foreign); err != nil {
				t.Fatal(err)
			}
			f.waitForCache(foreign)
			config := corev1ac.ConfigMap("web", f.name).WithLabels(testLabels()).WithData(map[string]string{"theirs": "1"})
			errs := map[string]error{
				"Apply": f.Apply(t.Context(), f.owner, config),
				"Create": f.Create(t.Context(), f.owner, &corev1.ConfigMap{
					ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "web", Labels: testLabels()},
				}),
			}
			by := ""
			if len(meta.OwnerReferences) > 0 {
				by = " (controlled by PodTemplate other)"
			}
			for verb, err := range errs {
				expectConflict(t, verb, err, by)
			}
			if err := f.Prune(t.Context(), f.owner, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "web"}}); err != nil {
				t.Errorf("Prune: %v", err)
			}
			after := f.get(&corev1.ConfigMap{})
			if after == nil || after.GetResourceVersion() != foreign.ResourceVersion || after.GetUID() != foreign.UID {
				t.Errorf("the foreign object was changed: %v", after)
			}
			f.remove(&corev1.ConfigMap{})
		})
	}
	f.apply(corev1ac.ConfigMap("web", f.name).WithLabels(testLabels()))
	if f.get(&corev1.ConfigMap{}) == nil {
		t.Error("not created after the foreign object was deleted")
	}
}

func expectConflict(t *testing.T, verb string, err error, by string) {
	t.Helper()
	conflict := &ConflictError{}
	want := `ConfigMap "web" exists and is not controlled by this PodTemplate` + by + `: rename the PodTemplate or remove the ConfigMap`
	if !errors.As(err, &conflict) || err.Error() != want {
		t.Errorf("%s: %v\nwant %s", verb, err, want)
	}
}

// A child of a former owner of the same name is neither adopted nor reported. The garbage collector, which this API server does not have,
// deletes it.
func TestFormerOwnersChild_isWaitedFor(t *testing.T) {
	f := newFixture(t)
	f.apply(config(f.name, "1"))
	left := f.get(&corev1.ConfigMap{})
	if err := f.admin.Delete(t.Context(), f.owner); err != nil {
		t.Fatal(err)
	}
	f.owner = newOwner(f.name, "web")
	if err := f.admin.Create(t.Context(), f.owner); err != nil {
		t.Fatal(err)
	}
	f.takeRequests()
	f.mustApply("2")
	if err := f.Create(t.Context(), f.owner, reference(f.name)); err != nil {
		t.Fatal(err)
	}
	f.expect("while it exists")
	goOn := f.freezeCache()
	f.cache = &laggingCache{Cache: f.cache}
	if err := f.Apply(t.Context(), f.owner, config(f.name, "2")); !apierrors.IsConflict(err) {
		t.Errorf("with a cache that does not hold it: %v, want a retry", err)
	}
	goOn()
	if after := f.get(&corev1.ConfigMap{}); after.GetResourceVersion() != left.GetResourceVersion() {
		t.Errorf("it was changed: %v", after)
	}
	f.remove(&corev1.ConfigMap{})
	f.apply(config(f.name, "2"))
	if !metav1.IsControlledBy(f.get(&corev1.ConfigMap{}), f.owner) {
		t.Error("the new owner has no child")
	}
}

// Several owners are reconciled concurrently.
func TestApply_concurrentOwners(t *testing.T) {
	f := newFixture(t)
	var workers sync.WaitGroup
	var want []string
	for i := range 8 {
		name := fmt.Sprintf("web-%d", i)
		want = append(want, "PATCH configmaps/"+name)
		owner := newOwner(f.name, name)
		if err := f.admin.Create(t.Context(), owner); err != nil {
			t.Fatal(err)
		}
		workers.Go(func() {
			for range 20 {
				if err := f.Apply(t.Context(), owner, corev1ac.ConfigMap(name, f.name).WithLabels(testLabels())); err != nil {
					t.Error(err)
				}
			}
		})
	}
	workers.Wait()
	got := f.takeRequests()
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("requests (-want +got):\n%s", diff)
	}
}

// A foreign object does not block the other children.
func TestRejectedObject_doesNotBlockOthers(t *testing.T) {
	f := newFixture(t)
	if err := f.admin.Create(t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "web"},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}},
	}); err != nil {
		t.Fatal(err)
	}
	bad := webDeployment(f.name)
	bad.Spec.Template.Spec.Containers[0].WithName("Not A Name")
	err := f.Apply(t.Context(), f.owner, webService(f.name), bad, corev1ac.ConfigMap("web", f.name).WithLabels(testLabels()))
	conflict, rejected := &ConflictError{}, &WriteError{}
	if !errors.As(err, &conflict) || !errors.As(err, &rejected) || !apierrors.IsInvalid(err) {
		t.Errorf("%v, want both errors", err)
	}
	if f.get(&corev1.ConfigMap{}) == nil {
		t.Error("the ConfigMap was not applied")
	}
	if rejected.GVK.Kind != "Deployment" || rejected.Name != "web" || rejected.Verb != "apply" {
		t.Errorf("the rejected object is %+v", rejected)
	}
}

// A change that the API server rejects is reported. No object is deleted because of it.
func TestImmutableField_isReported(t *testing.T) {
	f := newFixture(t)
	f.apply(webDeployment(f.name))
	uid := f.get(&k8sappsv1.Deployment{}).GetUID()
	changed := webDeployment(f.name)
	changed.Spec.Selector.WithMatchLabels(map[string]string{"app": "web"})
	f.takeRequests()
	err := f.Apply(t.Context(), f.owner, changed)
	refused := &WriteError{}
	if !errors.As(err, &refused) || refused.GVK.Kind != "Deployment" || refused.Name != "web" || !apierrors.IsInvalid(err) {
		t.Errorf("%v, want a WriteError of the Deployment around Invalid", err)
	}
	f.expect("an immutable field", "PATCH(422) deployments/web")
	if after := f.get(&k8sappsv1.Deployment{}); after == nil || after.GetUID() != uid || after.GetDeletionTimestamp() != nil {
		t.Error("the Deployment was deleted")
	}
}

func TestDeletingObject_isNotApplied(t *testing.T) {
	f := newFixture(t)
	f.apply(webService(f.name))
	editAsOther(f, &corev1.Service{}, func(s *corev1.Service) { s.Finalizers = []string{"example.com/wait"} })
	service := f.get(&corev1.Service{})
	if err := f.admin.Delete(t.Context(), service); err != nil {
		t.Fatal(err)
	}
	f.waitForCache(f.get(&corev1.Service{}))
	f.takeRequests()
	changed := webService(f.name).WithLabels(map[string]string{"more": "1"})
	f.apply(changed)
	if err := f.Prune(t.Context(), f.owner, &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "web"}}); err != nil {
		t.Fatal(err)
	}
	f.expect("while it is being deleted")
	editAsOther(f, &corev1.Service{}, func(s *corev1.Service) { s.Finalizers = nil })
	f.eventually("the cache shows the deletion", func() bool {
		return apierrors.IsNotFound(f.cache.Get(t.Context(), client.ObjectKeyFromObject(service), &corev1.Service{}))
	})
	f.apply(changed)
	f.expect("after its deletion", patches("services")...)
}
