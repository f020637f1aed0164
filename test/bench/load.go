package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

// stallTimeout is the maximum time without another Ready WebApp.
const stallTimeout = time.Minute

// generators is how many clients create the WebApps.
const generators = 16

// webApp has replicas 0, so only the requests of the controllers count, and no pods.
func webApp(namespace string, i int) *appsv1.WebApp {
	return &appsv1.WebApp{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("app-%05d", i)},
		Spec:       appsv1.WebAppSpec{Image: "nginx:1.25", Replicas: new(int32(0)), Port: 80},
	}
}

// generate creates n WebApps as the user.
func (b *bench) generate(ctx context.Context, namespace string, n int) error {
	next := make(chan int)
	errs := make(chan error, generators)
	var workers sync.WaitGroup
	for range generators {
		workers.Go(func() {
			for i := range next {
				if err := b.admin.Create(ctx, webApp(namespace, i)); err != nil {
					errs <- fmt.Errorf("create WebApp %d: %w", i, err)
					return
				}
			}
		})
	}
	go func() { workers.Wait(); close(errs) }()
	defer close(next)
	for i := range n {
		select {
		case next <- i:
		case err := <-errs:
			return err
		}
	}
	return nil
}

// await returns when the last of n WebApps of the namespace became Ready, according to watch events.
func (b *bench) await(ctx context.Context, namespace string, n int, contending *process) (last time.Time, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	stalled := time.AfterFunc(stallTimeout, func() { cancel(fmt.Errorf("no other for %s (log: %s)", stallTimeout, contending.log)) })
	defer stalled.Stop()
	ready := map[string]bool{}
	see := func(app *appsv1.WebApp) bool {
		if ready[app.Name] || app.Status.ObservedGeneration != app.Generation || !meta.IsStatusConditionTrue(app.Status.Conditions, fettlev1.Ready) {
			return false
		}
		ready[app.Name] = true
		stalled.Reset(stallTimeout)
		last = time.Now()
		return len(ready) == n
	}
	for {
		done, err := b.watch(ctx, namespace, contending, see)
		if err != nil {
			return last, fmt.Errorf("%d of %d WebApps are Ready: %w", len(ready), n, err)
		}
		if done {
			return last, nil
		}
	}
}

// watch lists and then watches until see returns true; false if the watch must be started again.
func (b *bench) watch(ctx context.Context, namespace string, contending *process, see func(*appsv1.WebApp) bool) (bool, error) {
	list := &appsv1.WebAppList{}
	if err := b.admin.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return false, err
	}
	for i := range list.Items {
		if see(&list.Items[i]) {
			return true, nil
		}
	}
	events, err := b.admin.Watch(ctx, &appsv1.WebAppList{}, client.InNamespace(namespace),
		&client.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: list.ResourceVersion}})
	if err != nil {
		return false, err
	}
	defer events.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, context.Cause(ctx)
		case <-contending.done:
			return false, contending.failure()
		case event := <-events.ResultChan():
			app, ok := event.Object.(*appsv1.WebApp)
			if !ok { // it has ended
				return false, nil
			}
			if see(app) {
				return true, nil
			}
		}
	}
}

// kinds of children, of which each WebApp has one.
func kinds() []client.Object { return []client.Object{&k8sappsv1.Deployment{}, &corev1.Service{}} }

// check rejects a block whose contender omitted a child, or wrote other children than earlier contenders.
func (b *bench) check(ctx context.Context, namespace string, n int) error {
	var written strings.Builder
	for _, kind := range kinds() {
		list := &unstructured.UnstructuredList{}
		gvk, err := b.admin.GroupVersionKindFor(kind)
		if err != nil {
			return err
		}
		list.SetGroupVersionKind(gvk)
		if err := b.admin.List(ctx, list, client.InNamespace(namespace)); err != nil {
			return err
		}
		if len(list.Items) != n {
			return fmt.Errorf("%d WebApps are Ready and there are %d of %s", n, len(list.Items), gvk.Kind)
		}
		slices.SortFunc(list.Items, func(a, b unstructured.Unstructured) int { return cmp.Compare(a.GetName(), b.GetName()) })
		spec := list.Items[0].Object["spec"].(map[string]any)
		for _, fields := range [][]string{{"clusterIP"}, {"clusterIPs"}, {"template", "metadata", "annotations"}} { // fields that may differ
			unstructured.RemoveNestedField(spec, fields...)
		}
		if err := json.NewEncoder(&written).Encode([]any{gvk.Kind, list.Items[0].GetLabels(), spec}); err != nil {
			return err
		}
	}
	if b.written == "" {
		b.written = written.String()
	}
	if b.written != written.String() {
		return fmt.Errorf("the contenders do not write the same children: see test/bench/children:\n%s", gocmp.Diff(b.written, written.String()))
	}
	return nil
}

// clear deletes the objects of a block, because no garbage collector runs here.
func (b *bench) clear(ctx context.Context, namespace string) error {
	var errs []error
	for _, kind := range append(kinds(), &appsv1.WebApp{}) {
		errs = append(errs, b.admin.DeleteAllOf(ctx, kind, client.InNamespace(namespace)))
	}
	return errors.Join(errs...)
}
