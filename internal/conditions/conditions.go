// Package conditions sets conditions, summarizes them into Ready, and decides when a status is written.
//
// Conditions have positive polarity: True is good. Stalled is the exception, since kstatus asks
// for it. The state of a condition is Unknown if the condition is missing or describes an older
// generation of the object.
package conditions

import (
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

// maxMessage is the largest length of a condition's message in bytes that the API accepts.
const maxMessage = 32768

// Set replaces the condition of cond's type. It keeps lastTransitionTime if the status is the same, and truncates a message that the
// API server would reject as too long.
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

// Summarize sets Ready from the conditions of the given types, the most important first. Ready takes its status, reason and message
// from the first condition that is False, otherwise from the first that is not True. It is True if all of them are, and Unknown if
// no type is given.
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

// terminal are the reasons of Ready that only a person can resolve, for every kind.
var terminal = []string{fettlev1.ReasonInvalid, fettlev1.ReasonNameConflict, fettlev1.ReasonTooLarge}

// SetStalled sets Stalled, with the reason and message of Ready, if a person must change something before the object can become
// ready: if failed is true, or if Ready's reason is terminal for all kinds or one of more. Otherwise it removes Stalled and
// Reconciling. Call it after Ready was set.
func SetStalled(conds *[]metav1.Condition, generation int64, failed bool, more ...string) {
	ready := meta.FindStatusCondition(*conds, fettlev1.Ready)
	if ready == nil || !failed && !slices.Contains(terminal, ready.Reason) && !slices.Contains(more, ready.Reason) {
		SetKstatus(conds, generation, "", "", "")
		return
	}
	SetKstatus(conds, generation, fettlev1.Stalled, ready.Reason, ready.Message)
}

// SetPaused gives Ready the reason Paused and keeps its status: an object that was ready when it was paused still is. It removes
// Stalled and Reconciling.
func SetPaused(conds *[]metav1.Condition, generation int64, message string) {
	status := metav1.ConditionUnknown
	if ready := meta.FindStatusCondition(*conds, fettlev1.Ready); ready != nil {
		status = ready.Status
	}
	Set(conds, metav1.Condition{
		Type: fettlev1.Ready, Status: status, Reason: fettlev1.ReasonPaused,
		Message: "spec.paused is true: " + message, ObservedGeneration: generation,
	})
	SetKstatus(conds, generation, "", "", "")
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
