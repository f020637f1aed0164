package ecommerceplatform

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/stack/ecommerce"
)

// progress are the reasons of Ready that report work in progress.
var progress = []string{fettlev1.ReasonReconciling, platformv1.ReasonDeploying}

// problem is why the AppStack could not be written.
type problem struct{ reason, message string }

// setStatus mirrors the status of the AppStack; nil if there is none of p's own. failed is nil if the AppStack was written. What runs is
// reported in either case. Messages name the fields of p, not those of the AppStack.
func setStatus(p *platformv1.EcommercePlatform, stack *platformv1.AppStack, failed *problem) {
	mirrored := platformv1.AppStackStatus{}
	if stack != nil {
		mirrored = stack.Status
	}
	st := &p.Status
	st.ReadyComponents, st.Components, st.Endpoints, st.Effective = mirrored.ReadyComponents, mirrored.Components, mirrored.Endpoints, mirrored.Effective

	if failed != nil {
		conditions.Set(p, fettlev1.Ready, metav1.ConditionFalse, failed.reason, ecommerce.Places.Replace(failed.message))
		conditions.SetStalled(p, false, platformv1.ReasonInvalidSpec)
		phase := platformv1.PhaseDegraded
		if meta.IsStatusConditionTrue(st.Conditions, fettlev1.Stalled) {
			phase = platformv1.PhaseFailed
		}
		p.SetObserved(string(phase))
		return
	}
	ready, phase := readyOf(stack)
	conditions.Set(p, fettlev1.Ready, ready.Status, ready.Reason, ecommerce.Places.Replace(ready.Message))
	conditions.SetStalled(p, meta.IsStatusConditionTrue(mirrored.Conditions, fettlev1.Stalled))
	p.SetObserved(string(phase))
}

// readyOf is the state of Ready and the phase of an AppStack that was written: its own, once it describes the last change.
func readyOf(stack *platformv1.AppStack) (conditions.State, platformv1.Phase) {
	ready := conditions.ReadyOf(stack)
	switch observed := stack.Status.ObservedGeneration; {
	case stack.DeletionTimestamp != nil:
		return conditions.False(platformv1.ReasonDeploying,
			fmt.Sprintf("AppStack %q is being deleted; Fettle re-creates it when it is gone", stack.Name)), platformv1.PhaseDeploying
	case observed == 0 || ready.Status == "":
		return conditions.Unknown(fettlev1.ReasonReconciling,
			fmt.Sprintf("AppStack %q has not been reconciled yet", stack.Name)), platformv1.PhasePending
	case observed < stack.Generation || ready.ObservedGeneration < stack.Generation:
		return conditions.False(platformv1.ReasonDeploying,
			fmt.Sprintf("AppStack %q has not been reconciled since its last change", stack.Name)), platformv1.PhaseDeploying
	}
	return conditions.State{Status: ready.Status, Reason: ready.Reason, Message: ready.Message}, stack.Status.Phase
}

// statusDelay returns how long to delay the status write: not at all if Ready changed, unless it only reports progress.
func (r *Reconciler) statusDelay(p, before *platformv1.EcommercePlatform) time.Duration {
	return r.Throttle.Delay(p, slices.Contains(progress, conditions.ReadyOf(p).Reason), sameReady(p, before))
}

// sameReady reports whether Ready has the same status and reason, so that only details of the components changed.
func sameReady(p, before *platformv1.EcommercePlatform) bool {
	is, was := conditions.ReadyOf(p), conditions.ReadyOf(before)
	return is.Status == was.Status && is.Reason == was.Reason && p.Status.Phase == before.Status.Phase &&
		p.Status.ObservedGeneration == before.Status.ObservedGeneration
}

// created reports whether p, which is Ready, was created and never changed or degraded before.
func created(p, before *platformv1.EcommercePlatform) bool {
	starting := []platformv1.Phase{platformv1.PhasePending, platformv1.PhaseDeploying}
	return p.Generation == 1 && conditions.ReadyOf(before).Status != metav1.ConditionTrue && slices.Contains(starting, before.Status.Phase)
}
