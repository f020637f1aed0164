package faults

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
)

// Deletion is what F13 and F14 delete.
type Deletion struct {
	// Step is the scenario's step that creates the children, from 0. The deletion follows one of the step's writes, or the step itself if
	// that write does not happen.
	Step int
	// Object is what the user deletes in F13. F14 deletes the namespace.
	Object Key
	// Kept is true for the objects that stay after F13, such as the volumes of a database; nil for none.
	Kept func(Key) bool
}

// retryWindow is the time without writes and errors after the deletion. It is longer than the first delays of the back-off, which begins
// with a second: a controller that retries without end is noticed.
const retryWindow = 5 * time.Second

var namespaces = corev1.SchemeGroupVersion.WithResource("namespaces")

// deletion is that of one plan.
type deletion struct {
	once sync.Once
	mu   sync.Mutex
	done bool
	err  error
}

// result reports whether the deletion was requested, and its error.
func (d *deletion) result() (done bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.done, d.err
}

// delete deletes the object or the namespace, as kubectl does. Later calls wait for the first one.
func (a *planRun) delete(ctx context.Context) {
	a.deletion.once.Do(func() {
		resource, name := a.observer.Resource(namespaces).Delete, a.namespace
		if a.plan.Kind == OwnerDeleted {
			object := a.scenario.Deletion.Object
			resource, name = a.observer.Resource(object.Resource).Namespace(a.namespace).Delete, object.Name
		}
		err := resource(ctx, name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)})
		a.deletion.mu.Lock()
		defer a.deletion.mu.Unlock()
		a.deletion.done, a.deletion.err = true, err
	})
}

// runDeletion runs the step of the deletion, and waits until what must be deleted is gone and the controller has nothing left to do. The
// user's action may fail, because the namespace is being deleted.
func (a *planRun) runDeletion(ctx context.Context, step Step, deadline time.Time) error {
	started := time.Now()
	err := step.Do(ctx, a.client)
	if requested, _ := a.deletion.result(); err != nil && !requested {
		return fmt.Errorf("step %s: %w", step.Name, err)
	}
	_ = a.waitUntil(ctx, deadline, func() error { // that the step converges is not of interest here
		if requested, _ := a.deletion.result(); requested {
			return nil
		}
		return a.converged(step, false)
	})
	a.delete(ctx)
	if _, err := a.deletion.result(); err != nil {
		return fmt.Errorf("delete after step %s: %w", step.Name, err)
	}
	if err := a.waitUntil(ctx, time.Now().Add(a.options.ConvergeTimeout), func() error { return a.gone(ctx) }); err != nil {
		a.violate("O7", "%v after the deletion: %v", a.options.ConvergeTimeout, err)
		return nil
	}
	a.took = time.Since(started)
	a.waitForNoRetries(ctx)
	if err := a.gone(ctx); err != nil {
		a.violate("O7", "created after the deletion: %v", err)
	}
	return nil
}

// gone is nil once nothing is left that must be deleted.
func (a *planRun) gone(ctx context.Context) error {
	view := a.history.view(a.namespace)
	if a.plan.Kind == OwnerDeleted {
		return a.leftovers(view)
	}
	for key := range view.objects {
		return fmt.Errorf("%s still exists", key)
	}
	_, err := a.observer.Resource(namespaces).Get(ctx, a.namespace, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return errors.Join(errors.New("the namespace still exists"), err)
}

// leftovers returns an error for an object that must be deleted with the plan's object: it has no owner that exists, it was not created by
// the user, and it is not to be kept. The user's workloads must have no annotations of the controller.
func (a *planRun) leftovers(view View) error {
	deletion := a.scenario.Deletion
	if view.objects[deletion.Object] != nil {
		return fmt.Errorf("%s still exists", deletion.Object)
	}
	alive := map[types.UID]bool{}
	for _, object := range view.objects {
		alive[object.GetUID()] = true
	}
	for key, object := range view.objects {
		kept := deletion.Kept != nil && deletion.Kept(key)
		if a.user.created(key) {
			if at := annotationOfFettle(key, object); at != "" {
				return fmt.Errorf("%s still has the annotation %s", key, at)
			}
		} else if !kept && !ownedBy(object, alive) {
			return fmt.Errorf("%s is left without its owner", key)
		}
	}
	return nil
}

// annotationOfFettle returns an annotation that the controller left on a user's workload; empty if there is none.
func annotationOfFettle(key Key, object *unstructured.Unstructured) string {
	const domain = "fettle.dev"
	for name := range object.GetAnnotations() {
		if prefix, _, _ := strings.Cut(name, "/"); strings.HasSuffix(prefix, domain) && !strings.HasSuffix(key.Resource.Group, domain) {
			return name
		}
	}
	return ""
}

// ownedBy reports whether an owner of the object is alive.
func ownedBy(object *unstructured.Unstructured, alive map[types.UID]bool) bool {
	for _, owner := range object.GetOwnerReferences() {
		if alive[owner.UID] {
			return true
		}
	}
	return false
}

// waitForNoRetries waits for a time without writes and errors (O3).
func (a *planRun) waitForNoRetries(ctx context.Context) {
	started := time.Now()
	err := a.waitUntil(ctx, started.Add(3*retryWindow), func() error {
		if time.Since(started) < retryWindow || a.operator.sinceLastError() < retryWindow {
			return errors.New("reconciles return errors")
		}
		return a.noWritesFor(retryWindow)
	})
	if err != nil {
		a.violate("O3", "after the deletion: %v", err)
	}
}

// checkKept requires that the kept objects were not deleted (O7).
func (a *planRun) checkKept(events []event) {
	kept := a.scenario.Deletion.Kept
	for _, e := range events {
		if e.Type == watch.Deleted && kept != nil && kept(e.Key) {
			a.violate("O7", "%s was deleted, but must be kept", e.Key)
		}
	}
}
