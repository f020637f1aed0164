// Package conditions sets conditions, sums them up into Ready, and decides when a status is
// worth a write.
//
// Conditions have positive polarity: none is bad when True. What is not known is Unknown: a
// condition that is missing, or that was found for an older generation of the object.
package conditions

import (
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

// maxMessage is the length in bytes that the API allows a condition's message.
const maxMessage = 32768

// Set puts cond in the place of the condition of its type. lastTransitionTime is when the
// status changed: it is kept when the status is the same. A message that the API server would
// refuse as too long is cut.
func Set(conds *[]metav1.Condition, cond metav1.Condition) {
	cond.Message = cut(cond.Message)
	meta.SetStatusCondition(conds, cond)
}

func cut(message string) string {
	const end = "..."
	if len(message) <= maxMessage {
		return message
	}
	n := maxMessage - len(end)
	for n > 0 && !utf8.RuneStart(message[n]) {
		n--
	}
	return strings.ToValidUTF8(message[:n], "") + end
}

// Summarize sets Ready from the conditions of the given types, in the order of their
// importance: the first that is False, else the first that is not True, gives its status,
// reason and message. Ready is True when all of them are, and Unknown when none are given.
func Summarize(conds *[]metav1.Condition, generation int64, types ...string) {
	ready := metav1.Condition{
		Type:               fettlev1.Ready,
		Status:             metav1.ConditionTrue,
		Reason:             fettlev1.Ready,
		ObservedGeneration: generation,
	}
	if c := Worst(*conds, generation, types...); c.Status != metav1.ConditionTrue {
		ready.Status, ready.Reason, ready.Message = c.Status, c.Reason, c.Message
	}
	Set(conds, ready)
}

// SetKstatus sets the condition of the given type, fettlev1.Stalled or fettlev1.Reconciling, to True and removes the other one. It
// removes both if the type is "".
func SetKstatus(conds *[]metav1.Condition, generation int64, conditionType, reason, message string) {
	for _, t := range []string{fettlev1.Stalled, fettlev1.Reconciling} {
		if t != conditionType {
			meta.RemoveStatusCondition(conds, t)
			continue
		}
		Set(conds, metav1.Condition{Type: t, Status: metav1.ConditionTrue, Reason: reason, Message: message, ObservedGeneration: generation})
	}
}

// Worst returns the first condition that is False, else the first that is not True, else one
// that is.
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

// known returns the condition of type t if it is about this generation, and Unknown otherwise.
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
