package appstack

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/stack"
)

const maxComponentMessage = 512

// progress are the reasons of Ready that report work in progress.
var progress = []string{platformv1.ReasonDeploying}

// setInvalid reports why the spec cannot be carried out.
func setInvalid(s *platformv1.AppStack, errs field.ErrorList) {
	reason := platformv1.ReasonInvalidSpec
	if !slices.ContainsFunc(errs, func(e *field.Error) bool { return e.Detail != stack.BackupDestinationMissing }) {
		reason = platformv1.ReasonBackupDestinationMissing
	}
	conditions.Set(s, fettlev1.Ready, metav1.ConditionFalse, reason, errs.ToAggregate().Error())
	s.SetObserved(string(platformv1.PhaseFailed))
	conditions.SetStalled(s, true)
}

// setDeleting reports which components are left.
func setDeleting(s *platformv1.AppStack, children []stack.Child) {
	names := make([]string, 0, len(children))
	for _, c := range children {
		names = append(names, c.Component)
	}
	slices.Sort(names)
	conditions.Set(s, fettlev1.Ready, metav1.ConditionFalse, fettlev1.ReasonTerminating, "components are being deleted in order; left are "+strings.Join(names, ", "))
}

// describeWait reports what a component waits for.
func describeWait(state *stack.State, waitsFor string, seen map[string]stack.State, c *stack.Component) {
	state.Asked = false
	what := "waits for "
	if state.Exists {
		what = "its next version waits for "
	}
	if waitsFor == c.Name {
		state.Ready = conditions.False(platformv1.ComponentWaiting, "waits until the component of another kind that had this name is deleted")
		return
	}
	other := seen[waitsFor]
	what += waitsFor + ": " + explain(other.Ready)
	if state.Trouble { // of the version that runs
		state.Ready.Message += "; " + what
		return
	}
	state.Ready = conditions.False(platformv1.ComponentWaiting, what)
}

// explain is the reason and the message of a state.
func explain(s conditions.State) string {
	if s.Message == "" {
		return cmp.Or(s.Reason, "not ready")
	}
	return fmt.Sprintf("%s: %s", cmp.Or(s.Reason, "not ready"), s.Message)
}

// setStatus sets the status from the states of the components. It returns when a time limit passes next; 0 for never.
func setStatus(s *platformv1.AppStack, plan *stack.Plan, states map[string]stack.State, removed []stack.Child, now time.Time) time.Duration {
	before := s.Status.Components
	s.Status.Components, s.Status.Endpoints, s.Status.Effective = nil, nil, plan.Effective
	ready := 0
	for i := range plan.Components {
		c := &plan.Components[i]
		state := states[c.Name]
		status := componentStatus(c, &state, before, now)
		if status.Ready {
			ready++
		}
		s.Status.Components = append(s.Status.Components, status)
		if state.URL != "" {
			scope := platformv1.ScopeInternal
			if state.External {
				scope = platformv1.ScopeExternal
			}
			s.Status.Endpoints = append(s.Status.Endpoints, platformv1.Endpoint{Name: c.Name, URL: state.URL, Scope: scope})
		}
	}
	slices.SortStableFunc(s.Status.Endpoints, func(a, b platformv1.Endpoint) int { return cmp.Compare(a.Scope, b.Scope) }) // External comes first
	for _, child := range removed {
		c := &stack.Component{Name: child.Component, Kind: child.Kind, Ref: child.Object.GetName()}
		state := stack.State{Ready: conditions.False(platformv1.ComponentRemoved, "is being deleted, after those that depend on it")}
		s.Status.Components = append(s.Status.Components, componentStatus(c, &state, before, now))
	}
	s.Status.ReadyComponents = fmt.Sprintf("%d/%d", ready, len(plan.Components))
	return setReady(s, plan, states, len(removed), now)
}

// componentStatus is the status of a component. before has those of the last status.
func componentStatus(c *stack.Component, state *stack.State, before []platformv1.ComponentStatus, now time.Time) platformv1.ComponentStatus {
	st := platformv1.ComponentStatus{
		Name: c.Name, Kind: c.Kind, Ref: c.Ref, Since: metav1.NewTime(now.Truncate(time.Second)),
		Ready: state.Exists && state.Asked && state.Failed == nil && state.Ready.Status == metav1.ConditionTrue,
	}
	switch {
	case state.Failed != nil:
		st.Reason, st.Message = reasonOf(state.Failed), state.Failed.Error()
	case c.Suspended && !state.Exists:
		st.Reason, st.Message = platformv1.ComponentSuspended, "is suspended before it was created: set suspended to false"
	case !st.Ready:
		st.Reason, st.Message = state.Ready.Reason, state.Ready.Message
		if state.Ready.Status == metav1.ConditionTrue {
			st.Reason, st.Message = platformv1.ComponentApplied, "its controller has not reported on the current version yet"
		}
	}
	st.Message = conditions.Clip(st.Message, maxComponentMessage)
	i := slices.IndexFunc(before, func(b platformv1.ComponentStatus) bool { return b.Name == st.Name && b.Kind == st.Kind })
	waits := func(c *platformv1.ComponentStatus) bool { return c.Reason == platformv1.ComponentWaiting }
	if i >= 0 && before[i].Ready == st.Ready && waits(&before[i]) == waits(&st) && !before[i].Since.IsZero() {
		st.Since = before[i].Since
	}
	return st
}

func reasonOf(err error) string {
	if err == errCredentialsMissing { //nolint:errorlint // it is never wrapped
		return platformv1.ComponentCredentialsMissing
	}
	return apply.Reason(err)
}

// setReady sets Ready, which names the first component that is not ready and does not merely wait for another one.
func setReady(s *platformv1.AppStack, plan *stack.Plan, states map[string]stack.State, removed int, now time.Time) time.Duration {
	cause, deadline := rootCause(s.Status.Components[:len(plan.Components)], states), time.Duration(0)
	phase := platformv1.PhaseRunning
	switch {
	case cause == nil && removed > 0:
		conditions.Set(s, fettlev1.Ready, metav1.ConditionFalse, platformv1.ReasonDeploying, "removed components are being deleted: "+names(s.Status.Components[len(plan.Components):]))
		phase = platformv1.PhaseDeploying
	case cause == nil:
		conditions.Set(s, fettlev1.Ready, metav1.ConditionTrue, fettlev1.Ready, fmt.Sprintf("all %d components are ready", len(plan.Components)))
	default:
		state := states[cause.Name]
		reason, waiting := platformv1.ReasonDeploying, dependant(plan, states, cause.Name)
		left := cause.Since.Add(s.Spec.ComponentTimeout.Duration).Sub(now)
		message := fmt.Sprintf("component %s (%s %s) is not ready: %s", cause.Name, cause.Kind, cause.Ref, explain(conditions.State{Reason: cause.Reason, Message: cause.Message}))
		phase = platformv1.PhaseDeploying
		switch {
		case left <= 0 && waiting != "":
			reason, message = platformv1.ReasonDependencyTimeout, fmt.Sprintf("component %s waits for %s, for more than %s; %s", waiting, cause.Name, s.Spec.ComponentTimeout.Duration, message)
		case left <= 0:
			reason, message = platformv1.ReasonComponentTimeout, fmt.Sprintf("for more than %s, %s", s.Spec.ComponentTimeout.Duration, message)
		case troubled(&state, cause):
			reason = platformv1.ReasonComponentNotReady
		}
		if reason != platformv1.ReasonDeploying {
			phase = platformv1.PhaseDegraded
		}
		if left > 0 {
			deadline = left
		}
		conditions.Set(s, fettlev1.Ready, metav1.ConditionFalse, reason, message)
	}
	s.SetObserved(string(phase))
	conditions.SetStalled(s, cause != nil && conditions.Terminal(cause.Reason))
	return deadline
}

// rootCause returns the first component that is not ready because of a problem, otherwise the first in progress, otherwise the first that
// waits; nil if all are ready.
func rootCause(components []platformv1.ComponentStatus, states map[string]stack.State) (cause *platformv1.ComponentStatus) {
	least := 0
	for i := range components {
		c := &components[i]
		rank := 0
		switch state := states[c.Name]; {
		case c.Ready:
		case c.Reason == platformv1.ComponentWaiting:
			rank = 1
		case !troubled(&state, c):
			rank = 2
		default:
			rank = 3
		}
		if rank > least {
			cause, least = c, rank
		}
	}
	return cause
}

// troubled reports whether a component that is not ready needs attention.
func troubled(state *stack.State, c *platformv1.ComponentStatus) bool {
	return state.Failed != nil || state.Trouble || c.Reason == platformv1.ComponentSuspended
}

// dependant returns a component that waits for the named one; "" for none.
func dependant(plan *stack.Plan, states map[string]stack.State, name string) string {
	for i := range plan.Components {
		c := &plan.Components[i]
		if states[c.Name].Ready.Reason == platformv1.ComponentWaiting && slices.Contains(c.DependsOn, name) {
			return c.Name
		}
	}
	return ""
}

func names(components []platformv1.ComponentStatus) string {
	list := make([]string, 0, len(components))
	for i := range components {
		list = append(list, components[i].Name)
	}
	return strings.Join(list, ", ")
}

// readyNote is the note of the event of an AppStack that became Ready.
func readyNote(s *platformv1.AppStack) string {
	return conditions.ReadyOf(s).Message
}

// created reports whether s, which is Ready, never was before.
func created(s, before *platformv1.AppStack) bool {
	return s.Generation == 1 && slices.Contains([]string{"", fettlev1.ReasonReconciling, platformv1.ReasonDeploying}, conditions.ReadyOf(before).Reason)
}
