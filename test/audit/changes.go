package audit

import (
	"context"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// Object names an object as the audit log does.
type Object struct{ Resource, Namespace, Name string }

// Changes counts the versions that objects went through. A write that was accepted and made no version changed
// nothing; the log alone can't tell, since it holds no resourceVersions at level Metadata.
type Changes struct {
	watched map[string]bool // resources

	mu     sync.Mutex
	counts map[Object]int
	err    error
}

// WatchChanges counts from now until ctx ends. The watches are made as config's user.
func WatchChanges(ctx context.Context, config *rest.Config, resources ...schema.GroupVersionResource) (*Changes, error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("client to watch changes: %w", err)
	}
	changes := &Changes{watched: map[string]bool{}, counts: map[Object]int{}}
	for _, resource := range resources {
		list, err := client.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
		if err != nil {
			return nil, fmt.Errorf("list %s: %w", resource.Resource, err)
		}
		// From an exact version on: no first events for what exists, and nothing missed.
		events, err := client.Resource(resource).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
		if err != nil {
			return nil, fmt.Errorf("watch %s: %w", resource.Resource, err)
		}
		changes.watched[resource.GroupResource().String()] = true
		go changes.count(ctx, resource.GroupResource().String(), events)
	}
	return changes, nil
}

func (c *Changes) count(ctx context.Context, resource string, events watch.Interface) {
	defer events.Stop()
	for event := range events.ResultChan() {
		c.mu.Lock()
		if object, ok := event.Object.(*metav1.PartialObjectMetadata); ok {
			c.counts[Object{resource, object.Namespace, object.Name}]++
		} else {
			c.err = fmt.Errorf("watch %s: %v", resource, event.Object)
		}
		c.mu.Unlock()
	}
	if ctx.Err() == nil {
		c.mu.Lock()
		c.err = fmt.Errorf("watch %s ended early: changes were missed", resource)
		c.mu.Unlock()
	}
}

// NoOps counts, for each object, the accepted writes in all (a summary of every user's requests over the same time)
// that made no new version. Creates with a name chosen by the server are left out. Objects that shut down in steps,
// like pods, make more versions than there were writes, and so may hide a write that changed nothing.
func (c *Changes) NoOps(ctx context.Context, all Summary) (map[Object]int, error) {
	select { // the events of the last writes are on their way
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-time.After(200 * time.Millisecond):
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	noOps := map[Object]int{}
	for key, count := range all.Counts {
		if c.watched[key.Resource] && key.Class == Write && key.Name != "" && key.Verb != "deletecollection" {
			noOps[Object{key.Resource, key.Namespace, key.Name}] += count.Requests - count.Refused
		}
	}
	for object, writes := range noOps {
		if noOps[object] = writes - c.counts[object]; noOps[object] <= 0 {
			delete(noOps, object)
		}
	}
	return noOps, nil
}
