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

// Object identifies an object as the audit log does.
type Object struct{ Resource, Namespace, Name string }

// Changes counts the versions of objects. An accepted write without a new version changed nothing. The log alone cannot show this, because
// it has no resourceVersions at level Metadata.
type Changes struct {
	watched map[string]bool // resources

	mu     sync.Mutex
	counts map[Object]int
	err    error
}

// WatchChanges counts from now until ctx ends. The watches use config's user.
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
		// From an exact version: no initial events for existing objects, and no missed events.
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

// NoOps counts, for each object, the accepted writes without a new version. all is a summary of every user's requests over the same time.
// Creations with a generated name are left out. Objects that shut down in steps, such as pods, have more versions than writes, which may
// hide a redundant write.
func (c *Changes) NoOps(ctx context.Context, all Summary) (map[Object]int, error) {
	select { // the events of the last writes may be late
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
			noOps[Object{key.Resource, key.Namespace, key.Name}] += count.Requests - count.Rejected
		}
	}
	for object, writes := range noOps {
		if noOps[object] = writes - c.counts[object]; noOps[object] <= 0 {
			delete(noOps, object)
		}
	}
	return noOps, nil
}
