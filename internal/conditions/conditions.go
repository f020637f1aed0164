// Package conditions sets conditions, summarizes them into Ready, and decides when a status is written.
//
// Conditions have positive polarity: True is good. Stalled is the exception, since kstatus asks
// for it. The state of a condition is Unknown if the condition is missing or describes an older
// generation of the object.
package conditions

import (
	"cmp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

// MaxMessage is the largest length of a condition's message in bytes.
const MaxMessage = 1024

// Object is an object of one of Fettle's kinds. Its methods are those of the Go type in api/.
type Object interface {
	client.Object
	// Conditions returns the conditions in the status.
	Conditions() *[]metav1.Condition
	// SetObserved sets the phase, and says that the status describes the current generation. Call it after Ready was set.
	SetObserved(phase string)
}

// Set replaces the condition of the given type. It keeps lastTransitionTime if the status is the same, and clips the message.
func Set(obj Object, conditionType string, status metav1.ConditionStatus, reason, message string) {
	meta.SetStatusCondition(obj.Conditions(), metav1.Condition{
		Type: conditionType, Status: status, Reason: reason, Message: Clip(message, MaxMessage), ObservedGeneration: obj.GetGeneration(),
	})
}

// State is the state of one condition.
type State struct {
	Status          metav1.ConditionStatus
	Reason, Message string
}

// True is the state of a condition that holds.
func True(reason, message string) State { return State{metav1.ConditionTrue, reason, message} }

// False is the state of a condition that does not hold.
func False(reason, message string) State { return State{metav1.ConditionFalse, reason, message} }

// Unknown is the state of a condition of which it is not known yet whether it holds.
func Unknown(reason, message string) State { return State{metav1.ConditionUnknown, reason, message} }

// SetState sets the condition of the given type if it applies to obj, and removes it otherwise.
func SetState(obj Object, conditionType string, applies bool, v State) {
	if !applies {
		meta.RemoveStatusCondition(obj.Conditions(), conditionType)
		return
	}
	Set(obj, conditionType, v.Status, v.Reason, v.Message)
}

// Clip returns at most the first n bytes of s, without the part of a character.
func Clip(s string, n int) string {
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "")
}

// ReadyOf returns the condition Ready of obj; one without a status if there is none.
func ReadyOf(obj Object) metav1.Condition {
	if ready := meta.FindStatusCondition(*obj.Conditions(), fettlev1.Ready); ready != nil {
		return *ready
	}
	return metav1.Condition{}
}

// Summarize sets Ready from the conditions of the given types, the most important first. Ready takes its status, reason and message
// from the first condition that is False, otherwise from the first that is not True. It is True if all of them are, and Unknown if
// no type is given.
func Summarize(obj Object, types ...string) {
	c := Worst(*obj.Conditions(), obj.GetGeneration(), types...)
	if c.Status == metav1.ConditionTrue {
		c.Reason, c.Message = fettlev1.Ready, ""
	}
	Set(obj, fettlev1.Ready, c.Status, c.Reason, c.Message)
}

// SetKstatus sets the condition of the given type, fettlev1.Stalled or fettlev1.Reconciling, to True and removes the other one. It
// removes both if the type is "".
func SetKstatus(obj Object, conditionType, reason, message string) {
	for _, t := range []string{fettlev1.Stalled, fettlev1.Reconciling} {
		if t != conditionType {
			meta.RemoveStatusCondition(obj.Conditions(), t)
			continue
		}
		Set(obj, t, metav1.ConditionTrue, reason, message)
	}
}

// SetStalled sets Stalled, with the reason and message of Ready, if a person must change something before the object can become
// ready: if failed is true, or if Ready's reason is terminal for all kinds or one of more. Otherwise it removes Stalled and
// Reconciling. Call it after Ready was set.
func SetStalled(obj Object, failed bool, more ...string) {
	ready := ReadyOf(obj)
	if ready.Status == "" || !failed && !Terminal(ready.Reason) && !slices.Contains(more, ready.Reason) {
		SetKstatus(obj, "", "", "")
		return
	}
	SetKstatus(obj, fettlev1.Stalled, ready.Reason, ready.Message)
}

// Terminal reports whether only a person can resolve the reason of a condition, for every kind.
func Terminal(reason string) bool {
	return slices.Contains([]string{fettlev1.ReasonInvalid, fettlev1.ReasonNameConflict, fettlev1.ReasonTooLarge}, reason)
}

// SetPaused gives Ready the reason Paused and keeps its status: an object that was ready when it was paused still is. It removes
// Stalled and Reconciling. kept says what stays as it is.
func SetPaused(obj Object, kept string) {
	status := cmp.Or(ReadyOf(obj).Status, metav1.ConditionUnknown)
	Set(obj, fettlev1.Ready, status, fettlev1.ReasonPaused, "spec.paused is true: reconciliation is paused; "+kept)
	SetKstatus(obj, "", "", "")
	obj.SetObserved("Paused")
}

// SetTerminating reports that obj waits for the deletion of its children, or for a finalizer.
func SetTerminating(obj Object) {
	Set(obj, fettlev1.Ready, metav1.ConditionFalse, fettlev1.ReasonTerminating, "being deleted")
	SetKstatus(obj, "", "", "")
	obj.SetObserved("Terminating")
}

// Worst returns the first condition that is False, otherwise the first that is not True, otherwise one that is True.
func Worst(conds []metav1.Condition, generation int64, types ...string) metav1.Condition {
	found := unknown("the state")
	for i, t := range types {
		c := known(conds, generation, t)
		if c.Status == metav1.ConditionFalse {
			return c
		}
		if i == 0 || found.Status == metav1.ConditionTrue {
			found = c
		}
	}
	return found
}

// known returns the condition of type t if it describes this generation, otherwise Unknown.
func known(conds []metav1.Condition, generation int64, t string) metav1.Condition {
	c := meta.FindStatusCondition(conds, t)
	if c == nil || c.ObservedGeneration < generation {
		return unknown(t)
	}
	if c.Status != metav1.ConditionTrue && c.Status != metav1.ConditionFalse {
		return metav1.Condition{Status: metav1.ConditionUnknown, Reason: c.Reason, Message: c.Message}
	}
	return *c
}

func unknown(what string) metav1.Condition {
	return metav1.Condition{
		Status:  metav1.ConditionUnknown,
		Reason:  fettlev1.ReasonReconciling,
		Message: what + " is not known yet",
	}
}
