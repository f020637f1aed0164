package apply

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
)

// expectAsked checks whether the ConfigMap "web" with this value was asked for, which costs no request.
func (f *fixture) expectAsked(when, value string, want bool) {
	f.t.Helper()
	f.takeRequests()
	got, err := f.Asked(f.t.Context(), f.owner, config(f.name, value))
	if err != nil || got != want {
		f.t.Errorf("%s: asked for %q: %t, %v, want %t", when, value, got, err, want)
	}
	f.expect(when)
}

func TestAsked(t *testing.T) {
	f := newFixture(t)
	f.expectAsked("it does not exist", "1", false)
	goOn := f.freezeCache()
	f.mustApply("1")
	f.expectAsked("the cache does not show the creation", "1", false)
	goOn()
	f.settle(config(f.name, "1"))
	f.expectAsked("it exists", "1", true)
	f.restart()
	f.expectAsked("after a restart", "1", true)
	f.expectAsked("another content is desired", "2", false)
	goOn = f.freezeCache()
	f.mustApply("2")
	f.expectAsked("the cache does not show the change", "2", false)
	f.expectAsked("the former content, which the cache still shows", "1", false)
	goOn()
	f.settle(config(f.name, "2"))
	f.expectAsked("changed", "2", true)
	f.expectAsked("the former content", "1", false)
	with := config(f.name, "2").WithLabels(map[string]string{"more": "1"})
	if asked, err := f.Asked(t.Context(), f.owner, with); asked || err != nil {
		t.Errorf("another label: %t, %v", asked, err)
	}
	f.remove(&corev1.ConfigMap{})
	f.expectAsked("deleted by another client", "2", false)
}

// What others changed is repaired by Apply, and does not change what was asked for.
func TestAsked_despiteDrift(t *testing.T) {
	f := newFixture(t)
	f.apply(config(f.name, "1"))
	edits := map[string]func(*corev1.ConfigMap){
		"another value":    func(c *corev1.ConfigMap) { c.Data = map[string]string{"a": "theirs"} },
		"a removed value":  func(c *corev1.ConfigMap) { c.Data = nil },
		"an added value":   func(c *corev1.ConfigMap) { c.Data = map[string]string{"a": "1", "b": "theirs"} },
		"a removed label":  func(c *corev1.ConfigMap) { delete(c.Labels, "app") },
		"their annotation": func(c *corev1.ConfigMap) { c.Annotations["example.com/note"] = "theirs" },
	}
	for what, edit := range edits {
		editAsOther(f, &corev1.ConfigMap{}, edit)
		f.expectAsked(what, "1", true)
	}
	f.mustApply("1")
	f.expect("the repair", patches("configmaps")...)
	f.settle(config(f.name, "1"))
	f.expectAsked("repaired", "1", true)
}

// Of an object that the owner does not control, or that is being deleted, nothing was asked, whatever it contains.
func TestAsked_ofOthers(t *testing.T) {
	f := newFixture(t)
	other := newOwner(f.name, "other")
	if err := f.admin.Create(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	f.apply(config(f.name, "1"))
	for what, edit := range map[string]func(*corev1.ConfigMap){
		"of another controller": func(c *corev1.ConfigMap) {
			c.OwnerReferences[0].Name, c.OwnerReferences[0].UID = "other", other.GetUID()
		},
		"of a former owner":    func(c *corev1.ConfigMap) { c.OwnerReferences[0].UID = "0c7b5d6e-0000-4000-8000-000000000009" },
		"without a controller": func(c *corev1.ConfigMap) { c.OwnerReferences = nil },
	} {
		own := f.get(&corev1.ConfigMap{}).GetOwnerReferences()
		editAsOther(f, &corev1.ConfigMap{}, edit)
		f.expectAsked(what, "1", false)
		editAsOther(f, &corev1.ConfigMap{}, func(c *corev1.ConfigMap) { c.OwnerReferences = own })
		f.expectAsked("again its own", "1", true)
	}
	editAsOther(f, &corev1.ConfigMap{}, func(c *corev1.ConfigMap) { c.Finalizers = []string{"example.com/held"} })
	f.expectAsked("with a finalizer of others", "1", true)
	held := f.get(&corev1.ConfigMap{})
	if err := f.admin.Delete(t.Context(), held); err != nil {
		t.Fatal(err)
	}
	f.waitForCache(f.get(&corev1.ConfigMap{}))
	f.expectAsked("being deleted", "1", false)
	editAsOther(f, &corev1.ConfigMap{}, func(c *corev1.ConfigMap) { c.Finalizers = nil })
}

func TestAsked_errors(t *testing.T) {
	f := newFixture(t)
	if _, err := f.Asked(t.Context(), newOwner(f.name, "unread"), config(f.name, "1")); err == nil {
		t.Error("an owner without a UID is accepted")
	}
	if _, err := f.Asked(t.Context(), f.owner, corev1ac.ConfigMap("web", "default")); err == nil {
		t.Error("a child in another namespace is accepted")
	}
}

// PruneForeground leaves an object there until the garbage collector, which this API server does not have, removes the finalizer.
func TestPruneForeground(t *testing.T) {
	f := newFixture(t)
	f.apply(config(f.name, "1"))
	f.takeRequests()
	for range 3 { // the cache may or may not show the deletion by then
		if err := f.PruneForeground(t.Context(), f.owner, reference(f.name)); err != nil {
			t.Fatal(err)
		}
	}
	f.expect("deletion", "DELETE configmaps/web")
	left := f.get(&corev1.ConfigMap{})
	if left == nil || left.GetDeletionTimestamp() == nil || len(left.GetFinalizers()) != 1 || left.GetFinalizers()[0] != metav1.FinalizerDeleteDependents {
		t.Fatalf("left is %v, want it with the finalizer %s", left, metav1.FinalizerDeleteDependents)
	}
	f.waitForCache(left)
	if err := f.PruneForeground(t.Context(), f.owner, reference(f.name)); err != nil {
		t.Fatal(err)
	}
	f.mustApply("2")
	f.expect("while it is being deleted")
	editAsOther(f, &corev1.ConfigMap{}, func(c *corev1.ConfigMap) { c.Finalizers = nil })
	f.apply(config(f.name, "2"))
	f.expect("after the garbage collection", patches("configmaps")...)
}

func TestPruneForeground_foreign(t *testing.T) {
	f := newFixture(t)
	foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "web", Labels: testLabels()}}
	if err := f.admin.Create(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	f.waitForCache(foreign)
	if err := f.PruneForeground(t.Context(), f.owner, reference(f.name)); err != nil {
		t.Fatal(err)
	}
	f.expect("a foreign object")
	if after := f.get(&corev1.ConfigMap{}); after == nil || after.GetDeletionTimestamp() != nil {
		t.Errorf("the foreign object is deleted: %v", after)
	}
}
