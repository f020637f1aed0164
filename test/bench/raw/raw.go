// Package raw sends the minimum of requests to create the children of WebApps: each child once, and the status once. It compares, repairs
// and remembers nothing. Its speed is the API server's.
package raw

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/test/bench/children"
)

// Run lists and watches WebApps, and writes the children of each new one, concurrently, until ctx ends.
func Run(ctx context.Context, config *rest.Config, scheme *runtime.Scheme, concurrency int) error {
	c, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return fmt.Errorf("raw client: %w", err)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	queue := make(chan *appsv1.WebApp, 1<<16)
	var workers sync.WaitGroup
	for range concurrency {
		workers.Go(func() {
			for app := range queue {
				if err := write(ctx, c, app); err != nil {
					cancel(err)
				}
			}
		})
	}
	err = follow(ctx, c, queue)
	close(queue)
	workers.Wait()
	if cause := context.Cause(ctx); cause != nil && !errors.Is(cause, context.Canceled) {
		return cause
	}
	return err
}

// follow sends every WebApp once, and returns nil when ctx ends.
func follow(ctx context.Context, c client.WithWatch, queue chan<- *appsv1.WebApp) error {
	list := &appsv1.WebAppList{}
	if err := c.List(ctx, list); err != nil {
		return fmt.Errorf("list WebApps: %w", err)
	}
	for i := range list.Items {
		queue <- &list.Items[i]
	}
	events, err := c.Watch(ctx, &appsv1.WebAppList{}, &client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	if err != nil {
		return fmt.Errorf("watch WebApps: %w", err)
	}
	defer events.Stop()
	for event := range events.ResultChan() {
		if app, ok := event.Object.(*appsv1.WebApp); ok && event.Type == watch.Added {
			queue <- app
		}
	}
	if ctx.Err() == nil {
		return errors.New("watch WebApps: ended early")
	}
	return nil
}

func write(ctx context.Context, c client.Client, app *appsv1.WebApp) error {
	if meta.IsStatusConditionTrue(app.Status.Conditions, "Ready") {
		return nil
	}
	for _, child := range children.All(app) {
		if err := c.Create(ctx, child); err != nil {
			return fmt.Errorf("create %T: %w", child, err)
		}
	}
	patch, err := json.Marshal(map[string]any{"status": children.Status(app, metav1.Now())})
	if err != nil {
		return err
	}
	if err := c.Status().Patch(ctx, app, client.RawPatch(types.MergePatchType, patch)); err != nil {
		return fmt.Errorf("patch status: %w", err)
	}
	return nil
}
