package faults

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Changes by clients other than the controller and the user during a plan.

// drift deletes or changes a child as another client, and waits until the change was seen and reverted.
func (a *planRun) drift(ctx context.Context, deadline time.Time) error {
	gone := a.deletedTogether(a.history.view(a.namespace))
	version, err := a.injectDrift(ctx)
	if err != nil {
		return err
	}
	err = a.waitUntil(ctx, deadline, func() error {
		view := a.history.view(a.namespace)
		if !view.reached(a.plan.Target, version) { // the state before the change equals the one after its repair
			return errors.New("the change has not been seen")
		}
		for key, uid := range gone {
			if object := view.objects[key]; object == nil || object.GetUID() == uid {
				return fmt.Errorf("%s has not been re-created", key)
			}
		}
		return a.matchesReference(view)
	})
	if err != nil {
		a.violate("O1", "not repaired %v after %s: %v", a.options.ConvergeTimeout, a.plan.ID(), err)
	}
	return nil
}

// deletedTogether returns the objects that the plan deletes, and the objects that are deleted with them.
func (a *planRun) deletedTogether(view View) map[Key]types.UID {
	if a.plan.Kind != Deleted {
		return nil
	}
	keys := []Key{a.plan.Target}
	if a.scenario.DeletedWith != nil {
		keys = append(keys, a.scenario.DeletedWith(view, a.plan.Target)...)
	}
	gone := map[Key]types.UID{}
	for _, key := range keys {
		if object := view.objects[key]; object != nil {
			gone[key] = object.GetUID()
		}
	}
	return gone
}

// injectDrift returns the version of the changed object; "0" of a deleted one.
func (a *planRun) injectDrift(ctx context.Context) (version string, err error) {
	client := a.observer.Resource(a.plan.Target.Resource).Namespace(a.namespace)
	if a.plan.Kind == Deleted {
		return "0", client.Delete(ctx, a.plan.Target.Name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
	}
	changed, err := client.Patch(ctx, a.plan.Target.Name, types.JSONPatchType, a.plan.Drift.patch(), metav1.PatchOptions{FieldManager: agentDrift})
	if err != nil {
		return "", err
	}
	return changed.GetResourceVersion(), nil
}

// touch changes an object and reverts the change, which only creates two newer versions.
func (a *planRun) touch(ctx context.Context, key Key) error {
	client := a.observer.Resource(key.Resource).Namespace(a.namespace)
	for _, value := range []string{`"touched"`, "null"} {
		// a label, because an annotation of a Deployment would count as a new generation
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"faults.fettle.dev/touch":%s}}}`, value)
		_, err := client.Patch(ctx, key.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: agentDrift})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("touch %s: %w", key, err)
		}
	}
	return nil
}
