package faults

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"sync"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
)

// history independently records each version of every object of the scenarios' kinds, in the namespaces of the running plans.
type history struct {
	client dynamic.Interface

	mu         sync.Mutex
	watched    map[schema.GroupVersionResource]bool
	namespaces map[string]*namespaceLog
	err        error
}

// namespaceLog holds the events in the namespace of one plan, of its scenario's kinds.
type namespaceLog struct {
	resources []schema.GroupVersionResource
	tidy      func(Kind, *unstructured.Unstructured) // may be nil
	live      map[Key]*unstructured.Unstructured
	events    []event
	changed   chan struct{} // has an element after each event
}

// event is a version of an object, or its deletion.
type event struct {
	Key    Key
	Type   watch.EventType
	Object *unstructured.Unstructured
	Before *unstructured.Unstructured // nil if it was added
}

// watch begins to record kinds, each only once, until ctx ends.
func (l *history) watch(ctx context.Context, resources []schema.GroupVersionResource) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, resource := range resources {
		if l.watched[resource] {
			continue
		}
		list, err := l.client.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return fmt.Errorf("list %s: %w", resource.Resource, err)
		}
		watcher, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), &cache.ListWatch{
			WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
				return l.client.Resource(resource).Watch(ctx, options)
			},
		})
		if err != nil {
			return fmt.Errorf("watch %s: %w", resource.Resource, err)
		}
		go l.follow(ctx, resource, watcher)
		l.watched[resource] = true
	}
	return nil
}

func (l *history) follow(ctx context.Context, resource schema.GroupVersionResource, watcher watch.Interface) {
	defer watcher.Stop()
	for e := range watcher.ResultChan() {
		object, ok := e.Object.(*unstructured.Unstructured)
		l.mu.Lock()
		switch {
		case !ok:
			l.err = fmt.Errorf("watch %s: %v", resource.Resource, e.Object)
		case e.Type == watch.Bookmark:
		default:
			if a := l.namespaces[object.GetNamespace()]; a != nil && slices.Contains(a.resources, resource) {
				a.add(Key{resource, object.GetName()}, e.Type, object)
			}
		}
		l.mu.Unlock()
	}
	if ctx.Err() == nil {
		l.mu.Lock()
		l.err = fmt.Errorf("watch %s ended early", resource.Resource)
		l.mu.Unlock()
	}
}

func (a *namespaceLog) add(key Key, kind watch.EventType, object *unstructured.Unstructured) {
	a.events = append(a.events, event{key, kind, object, a.live[key]})
	if kind == watch.Deleted {
		delete(a.live, key)
	} else {
		a.live[key] = object
	}
	select {
	case a.changed <- struct{}{}:
	default:
	}
}

// open starts the log of a namespace that is still empty. The channel receives an element after each event.
func (l *history) open(namespace string, scenario *Scenario) <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := &namespaceLog{
		resources: scenario.resources(), tidy: scenario.Normalize,
		live: map[Key]*unstructured.Unstructured{}, changed: make(chan struct{}, 1),
	}
	l.namespaces[namespace] = a
	return a.changed
}

func (l *history) close(namespace string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.namespaces, namespace)
}

func (l *history) view(namespace string) View {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.namespaces[namespace]
	return View{maps.Clone(a.live), a.tidy}
}

// version is empty for an object that was not seen.
func (l *history) version(namespace string, key Key) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if object := l.namespaces[namespace].live[key]; object != nil {
		return object.GetResourceVersion()
	}
	return ""
}

// events returns all events of a namespace; the slice must not be modified.
func (l *history) events(namespace string) []event {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.namespaces[namespace].events
}

func (l *history) failure() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

// current reports whether the history contains all objects that lists return now.
func (l *history) current(ctx context.Context, namespace string, resources []schema.GroupVersionResource) (bool, error) {
	seen := l.view(namespace)
	total := 0
	for _, resource := range resources {
		list, err := l.client.Resource(resource).Namespace(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, fmt.Errorf("list %s: %w", resource.Resource, err)
		}
		for i := range list.Items {
			object := seen.Get(resource, list.Items[i].GetName())
			if object == nil || object.GetResourceVersion() != list.Items[i].GetResourceVersion() {
				return false, nil
			}
		}
		total += len(list.Items)
	}
	return total == len(seen.objects), nil
}

// reached reports whether the view has an object at a version or a later one, or no longer has it.
func (v View) reached(key Key, resourceVersion string) bool {
	object := v.objects[key]
	if object == nil {
		return false
	}
	have, err1 := strconv.ParseUint(object.GetResourceVersion(), 10, 64)
	want, err2 := strconv.ParseUint(resourceVersion, 10, 64)
	return err1 == nil && err2 == nil && have >= want
}

// counts returns the number of creations, deletions and pod template changes of each object.
func counts(events []event) map[string]int {
	total := map[string]int{}
	for _, e := range events {
		switch e.Type {
		case watch.Added:
			total["create "+e.Key.String()]++
		case watch.Deleted:
			total["delete "+e.Key.String()]++
		case watch.Modified:
			if !apiequality.Semantic.DeepEqual(template(e.Before), template(e.Object)) {
				total["rollout "+e.Key.String()]++
			}
		}
	}
	return total
}

func template(object *unstructured.Unstructured) any {
	if object == nil {
		return nil
	}
	template, _, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "template")
	return template
}
