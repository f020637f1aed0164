package apply

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/google/go-cmp/cmp"
)

// takeRequests returns the requests for this test's objects since the last call, as "VERB resource/name".
func (f *fixture) takeRequests() []string {
	all := f.requests.in(f.name)
	fresh := all[f.counted:]
	f.counted = len(all)
	var out []string
	for _, r := range fresh {
		_, rest, _ := strings.Cut(r.path, "/namespaces/"+f.name+"/")
		verb := r.verb
		if r.code >= 400 {
			verb += fmt.Sprintf("(%d)", r.code)
		}
		out = append(out, verb+" "+rest)
	}
	return out
}

// expect checks the requests since the last call.
func (f *fixture) expect(when string, want ...string) {
	f.t.Helper()
	if diff := cmp.Diff(want, f.takeRequests()); diff != "" {
		f.t.Errorf("%s: requests (-want +got):\n%s", when, diff)
	}
}

// run runs a subtest that uses the fixture.
func (f *fixture) run(name string, test func(t *testing.T)) {
	outer := f.t
	defer func() { f.t = outer }()
	outer.Run(name, func(t *testing.T) {
		f.t = t
		test(t)
	})
}

// apply applies once and waits for the cache to show the writes.
func (f *fixture) apply(desired ...runtime.ApplyConfiguration) {
	f.t.Helper()
	if err := f.Apply(f.t.Context(), f.owner, desired...); err != nil {
		f.t.Fatal(err)
	}
	f.settle(desired...)
}

func (f *fixture) settle(desired ...runtime.ApplyConfiguration) {
	f.t.Helper()
	for _, config := range desired {
		d := f.render(config)
		f.eventually("the cache shows "+d.gvk.Kind, func() bool {
			_, current, err := f.cached(f.t.Context(), d.id())
			return err == nil && current
		})
	}
}

func (f *fixture) render(config runtime.ApplyConfiguration) *desiredObject {
	f.t.Helper()
	o, err := ownerOf(f.owner, f.scheme)
	if err != nil {
		f.t.Fatal(err)
	}
	d, err := render(config, o, f.scheme)
	if err != nil {
		f.t.Fatal(err)
	}
	return d
}

// get reads an object from the API server; nil if it does not exist.
func (f *fixture) get(obj client.Object) client.Object {
	f.t.Helper()
	key := types.NamespacedName{Namespace: f.name, Name: "web"}
	if obj.GetName() != "" {
		key.Name = obj.GetName()
	}
	err := f.admin.Get(f.t.Context(), key, obj)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return obj
}

// editAsOther changes an object as another client, and waits for the cache to show the change.
func editAsOther[T client.Object](f *fixture, obj T, change func(T)) {
	f.t.Helper()
	f.get(obj)
	before := obj.DeepCopyObject().(client.Object)
	change(obj)
	if err := f.admin.Patch(f.t.Context(), obj, client.MergeFrom(before), client.FieldOwner("somebody")); err != nil {
		f.t.Fatal(err)
	}
	f.waitForCache(obj)
}

// waitForCache waits until the cache holds that version of obj, or a later one, or none if the cache does not select it.
func (f *fixture) waitForCache(obj client.Object) {
	f.t.Helper()
	f.eventually("the cache shows the edit", func() bool {
		cached := obj.DeepCopyObject().(client.Object)
		err := f.cache.Get(f.t.Context(), client.ObjectKeyFromObject(obj), cached)
		if apierrors.IsNotFound(err) {
			return obj.GetLabels()["app.kubernetes.io/managed-by"] != "fettle" || f.get(obj.DeepCopyObject().(client.Object)) == nil
		}
		return err == nil && !older(cached.GetResourceVersion(), obj.GetResourceVersion())
	})
}

// remove deletes an object as another client, and waits for the cache to show the deletion.
func (f *fixture) remove(obj client.Object) {
	f.t.Helper()
	obj.SetNamespace(f.name)
	obj.SetName("web")
	if err := f.admin.Delete(f.t.Context(), obj); err != nil {
		f.t.Fatal(err)
	}
	f.eventually("the cache shows the deletion", func() bool {
		return apierrors.IsNotFound(f.cache.Get(f.t.Context(), client.ObjectKeyFromObject(obj), obj))
	})
}

func (f *fixture) eventually(what string, ok func() bool) {
	f.t.Helper()
	for end := time.Now().Add(10 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			f.t.Fatalf("timed out after 10 s: %s", what)
		}
	}
}

// in returns the children with their namespace set.
func (f *fixture) children() []runtime.ApplyConfiguration { return webChildren(f.name) }

func patches(resources ...string) []string {
	out := slices.Clone(resources)
	for i, r := range out {
		out[i] = "PATCH " + r + "/web"
	}
	return out
}

var allChildren = []string{
	"serviceaccounts", "configmaps", "secrets", "deployments", "services",
	"networkpolicies", "ingresses", "poddisruptionbudgets", "horizontalpodautoscalers",
}

func TestApply_noRedundantWrites(t *testing.T) {
	f := newFixture(t)
	f.apply(f.children()...)
	f.expect("creation", patches(allChildren...)...)
	f.apply(f.children()...)
	f.expect("again")
	f.restart()
	f.apply(f.children()...)
	f.expect("after a restart")
	f.apply(webDeployment(f.name).WithLabels(map[string]string{"more": "1"}))
	f.expect("a change", patches("deployments")...)
	f.apply(webDeployment(f.name).WithLabels(map[string]string{"more": "1"}))
	f.expect("the changed object once more")
}
