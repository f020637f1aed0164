package apply

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// laggingCache is a cache that has seen no event since it was created.
type laggingCache struct {
	cache.Cache
	// frozen is its copy of every ConfigMap, nil for none.
	frozen *corev1.ConfigMap
	store  string
}

func (c *laggingCache) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	if c.frozen == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, key.Name)
	}
	c.frozen.DeepCopyInto(obj.(*corev1.ConfigMap))
	return nil
}

func (c *laggingCache) GetInformer(context.Context, client.Object, ...cache.InformerGetOption) (cache.Informer, error) {
	return laggingInformer{store: c.store}, nil
}

type laggingInformer struct {
	cache.Informer
	store string
}

func (i laggingInformer) GetIndexer() toolscache.Indexer { return laggingIndexer{store: i.store} }

type laggingIndexer struct {
	toolscache.Indexer
	store string
}

func (i laggingIndexer) LastStoreSyncResourceVersion() string { return i.store }

// freezeCache stops the cache at the current state of the ConfigMap. The returned function resumes it.
func (f *fixture) freezeCache() (goOn func()) {
	f.t.Helper()
	moving := f.cache
	lagging := &laggingCache{Cache: moving}
	now := &corev1.ConfigMap{}
	switch err := moving.Get(f.t.Context(), client.ObjectKey{Namespace: f.name, Name: "web"}, now); {
	case err == nil:
		lagging.frozen = now
	case !apierrors.IsNotFound(err):
		f.t.Fatal(err)
	}
	store, err := f.storeVersion(f.t.Context(), &corev1.ConfigMap{})
	if err != nil {
		f.t.Fatal(err)
	}
	lagging.store = store
	f.cache = lagging
	return func() { f.cache = moving }
}

func config(namespace, value string) *corev1ac.ConfigMapApplyConfiguration {
	return corev1ac.ConfigMap("web", namespace).WithLabels(testLabels()).WithData(map[string]string{"a": value})
}

func (f *fixture) mustApply(value string) {
	f.t.Helper()
	if err := f.Apply(f.t.Context(), f.owner, config(f.name, value)); err != nil {
		f.t.Fatal(err)
	}
}

func TestStoreVersionIsKnown(t *testing.T) {
	f := newFixture(t)
	f.apply(config(f.name, "1"))
	version, err := f.storeVersion(t.Context(), &corev1.ConfigMap{})
	if err != nil || version == "" || older(version, f.get(&corev1.ConfigMap{}).GetResourceVersion()) {
		t.Errorf("the store is at %q, %v", version, err)
	}
}

// However often a controller reconciles before the cache has caught up, each change is one write.
func TestOwnWrites_areWaitedFor(t *testing.T) {
	f := newFixture(t)
	goOn := f.freezeCache()
	for range 3 {
		f.mustApply("1")
	}
	f.expect("creation", patches("configmaps")...)
	goOn()
	f.apply(config(f.name, "1"))
	f.expect("when the cache has caught up")

	goOn = f.freezeCache()
	f.mustApply("2")
	f.mustApply("2")
	f.mustApply("3") // also waits: the cache shows an older version than "2"
	f.expect("update", patches("configmaps")...)
	goOn()
	f.settle(config(f.name, "3"))
	f.apply(config(f.name, "3"))
	f.expect("the next one", patches("configmaps")...)
}

// Creating many children costs one write each, although the cache catches up meanwhile.
func TestCreation_costsOneWriteEach(t *testing.T) {
	f := newFixture(t)
	for range 50 {
		if err := f.Apply(t.Context(), f.owner, f.children()...); err != nil {
			t.Fatal(err)
		}
	}
	f.expect("creation", patches(allChildren...)...)
}

func TestDeletedRightAfterCreation(t *testing.T) {
	f := newFixture(t)
	goOn := f.freezeCache()
	f.mustApply("1")
	goOn()
	f.remove(&corev1.ConfigMap{})
	f.eventually("it exists again", func() bool {
		f.mustApply("1")
		return f.get(&corev1.ConfigMap{}) != nil
	})
	f.expect("two creations", patches("configmaps", "configmaps")...)
}

// A cache that is behind, in an operator that has just started, never causes harm.
func TestStaleCache_afterRestart(t *testing.T) {
	f := newFixture(t)
	goOn := f.freezeCache()
	f.mustApply("1")
	f.restart()
	f.cache = &laggingCache{Cache: f.cache, store: "1"}
	f.takeRequests()
	f.mustApply("1")
	f.expect("a child that the cache does not show yet", "PATCH(409) configmaps/web", "GET configmaps/web")
	f.mustApply("1")
	f.expect("once more")
	goOn()
	f.settle(config(f.name, "1"))

	f.run("deleted", func(t *testing.T) {
		goOn := f.freezeCache()
		defer goOn()
		uncached(f, &corev1.ConfigMap{})
		f.mustApply("2")
		if got := f.get(&corev1.ConfigMap{}); got != nil {
			t.Errorf("a deleted object was written from a stale copy: %v", got)
		}
	})
	f.eventually("the cache shows the deletion", func() bool {
		return apierrors.IsNotFound(f.cache.Get(t.Context(), client.ObjectKey{Namespace: f.name, Name: "web"}, &corev1.ConfigMap{}))
	})
	f.apply(config(f.name, "1"))
	f.run("replaced", func(t *testing.T) {
		goOn := f.freezeCache()
		defer goOn()
		uncached(f, &corev1.ConfigMap{})
		foreign := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "web"}}
		if err := f.admin.Create(t.Context(), foreign); err != nil {
			t.Fatal(err)
		}
		f.mustApply("2")
		if err := f.Prune(t.Context(), f.owner, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "web"}}); err != nil {
			t.Fatal(err)
		}
		got := f.get(&corev1.ConfigMap{})
		if got == nil || got.GetResourceVersion() != foreign.ResourceVersion {
			t.Errorf("an object that replaced ours was changed: %v", got)
		}
	})
}

// uncached deletes the object without waiting for any cache.
func uncached(f *fixture, obj client.Object) {
	f.t.Helper()
	if err := f.admin.Delete(f.t.Context(), f.get(obj)); err != nil {
		f.t.Fatal(err)
	}
}

// An object that changed since the cached copy is not deleted.
func TestPrune_deletesOnlyCachedVersion(t *testing.T) {
	f := newFixture(t)
	f.apply(config(f.name, "1"))
	goOn := f.freezeCache()
	live := f.get(&corev1.ConfigMap{}).(*corev1.ConfigMap)
	live.OwnerReferences = nil // given to another owner
	if err := f.admin.Update(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	f.takeRequests()
	if err := f.Prune(t.Context(), f.owner, reference(f.name)); err != nil {
		t.Fatal(err)
	}
	f.expect("from an old copy", "DELETE(409) configmaps/web")
	goOn()
	f.waitForCache(live)
	if err := f.Prune(t.Context(), f.owner, reference(f.name)); err != nil {
		t.Fatal(err)
	}
	other := reference(f.name)
	other.SetLabels(map[string]string{"fettle.dev/owner-name": "other"})
	if err := f.Prune(t.Context(), f.owner, other); err != nil {
		t.Fatal(err)
	}
	f.expect("from a new copy")
	if f.get(&corev1.ConfigMap{}) == nil {
		t.Error("deleted although it is not ours any more")
	}
	other.SetLabels(testLabels())
	if err := f.Prune(t.Context(), f.owner, other); err != nil {
		t.Fatal(err)
	}
	f.expect("an orphan, identified by its labels", "DELETE configmaps/web")
}

func reference(namespace string) client.Object {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web"}}
}

// A deletion is waited for as well: one request, and no apply to the deleted object.
func TestOwnDeletion_isWaitedFor(t *testing.T) {
	f := newFixture(t)
	f.apply(config(f.name, "1"))
	f.takeRequests()
	goOn := f.freezeCache()
	for range 2 {
		if err := f.Prune(t.Context(), f.owner, reference(f.name)); err != nil {
			t.Fatal(err)
		}
		f.mustApply("2")
	}
	f.expect("deletion", "DELETE configmaps/web")
	goOn()
	f.settle(config(f.name, "2"))
	f.apply(config(f.name, "2"))
	f.expect("creation after it", patches("configmaps")...)
}

// A controller that decides by the contents of a child must not see a copy from before its own write.
func TestGet_reportsCacheBehind(t *testing.T) {
	f := newFixture(t)
	get := func(when string, wantFound, wantCurrent bool, wantValue string) {
		t.Helper()
		obj := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: f.name, Name: "web"}}
		found, current, err := f.Get(t.Context(), obj)
		if err != nil || found != wantFound || current != wantCurrent || obj.Data["a"] != wantValue {
			t.Errorf("%s: found %v, current %v, value %q, %v", when, found, current, obj.Data["a"], err)
		}
	}
	cacheCurrent := func(want bool) {
		t.Helper()
		if got, err := f.CacheCurrent(t.Context(), f.owner); err != nil || got != want {
			t.Errorf("the cache is current: %v, %v", got, err)
		}
	}
	get("before", false, true, "")
	goOn := f.freezeCache()
	f.mustApply("1")
	get("created, and the cache is behind", false, false, "")
	cacheCurrent(false)
	goOn()
	f.settle(config(f.name, "1"))
	get("created", true, true, "1")
	cacheCurrent(true)
	goOn = f.freezeCache()
	f.mustApply("2")
	get("updated, and the cache is behind", true, false, "1")
	goOn()
	f.settle(config(f.name, "2"))
	get("updated", true, true, "2")
	f.remove(&corev1.ConfigMap{})
	get("deleted by another client", false, true, "")
}
