package conditions

import (
	"math/rand/v2"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	votingv1alpha1 "github.com/fettle-dev/fettle/api/voting/v1alpha1"
)

func condition(t string, status metav1.ConditionStatus, generation int64) metav1.Condition {
	return metav1.Condition{
		Type: t, Status: status, Reason: t + string(status), Message: "why " + t, ObservedGeneration: generation,
	}
}

// of is an object of this generation with conditions.
func of(generation int64, conds ...metav1.Condition) *votingv1alpha1.VoteConfig {
	return &votingv1alpha1.VoteConfig{
		ObjectMeta: metav1.ObjectMeta{Generation: generation}, Status: votingv1alpha1.VoteConfigStatus{Conditions: conds},
	}
}

func set(obj Object, c metav1.Condition) { Set(obj, c.Type, c.Status, c.Reason, c.Message) }

func TestSet_keepsTransitionTime(t *testing.T) {
	long := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	before := condition("Available", metav1.ConditionTrue, 1)
	before.LastTransitionTime = long
	for _, tc := range []struct {
		name string
		next metav1.Condition
		kept bool
	}{
		{"the same again", condition("Available", metav1.ConditionTrue, 1), true},
		{"another reason, message and generation", metav1.Condition{
			Type: "Available", Status: metav1.ConditionTrue, Reason: "Other", Message: "other", ObservedGeneration: 2,
		}, true},
		{"False", condition("Available", metav1.ConditionFalse, 1), false},
		{"Unknown", condition("Available", metav1.ConditionUnknown, 1), false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obj := of(tc.next.ObservedGeneration, before)
			set(obj, tc.next)
			conds := obj.Status.Conditions
			if kept := conds[0].LastTransitionTime.Equal(&long); kept != tc.kept {
				t.Errorf("transition time kept: %v, want %v", kept, tc.kept)
			}
			if diff := cmp.Diff([]metav1.Condition{tc.next}, conds,
				cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSet_clipsLongMessages(t *testing.T) {
	for _, message := range []string{
		strings.Repeat("x", MaxMessage+1),
		strings.Repeat("ü", MaxMessage), // two bytes each, so a cut may hit the middle of one
		"x" + strings.Repeat("ü", MaxMessage),
		strings.Repeat("€", MaxMessage),
	} {
		obj := of(1)
		Set(obj, "Applied", metav1.ConditionFalse, "Invalid", message)
		got := obj.Status.Conditions[0].Message
		if len(got) > MaxMessage || len(got) < MaxMessage-2 || !utf8.ValidString(got) {
			t.Errorf("a message of %d bytes became one of %d, valid UTF-8: %v", len(message), len(got), utf8.ValidString(got))
		}
	}
	exact := strings.Repeat("x", MaxMessage)
	if got := Clip(exact, MaxMessage); got != exact {
		t.Errorf("a message of the allowed length was cut to %d bytes", len(got))
	}
}

func TestSummarize(t *testing.T) {
	const yes, no, unsure = metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown
	ready := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return metav1.Condition{Type: fettlev1.Ready, Status: status, Reason: reason, Message: message, ObservedGeneration: 2}
	}
	for _, tc := range []struct {
		name  string
		conds []metav1.Condition
		types []string
		want  metav1.Condition
	}{
		{
			"all are True",
			[]metav1.Condition{condition("A", yes, 2), condition("B", yes, 2)},
			[]string{"A", "B"}, ready(yes, "Ready", ""),
		},
		{
			"the first False in the order given, not in that of the list",
			[]metav1.Condition{condition("B", no, 2), condition("A", no, 2)},
			[]string{"A", "B"}, ready(no, "AFalse", "why A"),
		},
		{
			"False before an Unknown that comes first",
			[]metav1.Condition{condition("A", unsure, 2), condition("B", no, 2)},
			[]string{"A", "B"}, ready(no, "BFalse", "why B"),
		},
		{
			"the first Unknown",
			[]metav1.Condition{condition("A", yes, 2), condition("B", unsure, 2), condition("C", unsure, 2)},
			[]string{"A", "B", "C"}, ready(unsure, "BUnknown", "why B"),
		},
		{
			"a missing one is Unknown",
			[]metav1.Condition{condition("A", yes, 2)},
			[]string{"A", "B"}, ready(unsure, fettlev1.ReasonReconciling, "B is not known yet"),
		},
		{
			"one of an older generation is Unknown",
			[]metav1.Condition{condition("A", yes, 1)},
			[]string{"A"}, ready(unsure, fettlev1.ReasonReconciling, "A is not known yet"),
		},
		{
			"a False of an older generation is Unknown too",
			[]metav1.Condition{condition("A", no, 1), condition("B", yes, 2)},
			[]string{"A", "B"}, ready(unsure, fettlev1.ReasonReconciling, "A is not known yet"),
		},
		{
			"others do not count",
			[]metav1.Condition{condition("A", yes, 2), condition("B", no, 2)},
			[]string{"A"}, ready(yes, "Ready", ""),
		},
		{
			"nothing is known of nothing", nil, nil,
			ready(unsure, fettlev1.ReasonReconciling, "the state is not known yet"),
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			obj := of(2, tc.conds...)
			Summarize(obj, tc.types...)
			if diff := cmp.Diff(tc.want, ReadyOf(obj), cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
				t.Errorf("Ready (-want +got):\n%s", diff)
			}
		})
	}
}

// Ready is True exactly if all are, False exactly if one is, whatever the order; and summing up
// again changes nothing.
func TestSummarize_properties(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	statuses := []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown}
	for range 5000 {
		names := []string{"A", "B", "C", "D"}[:1+rng.IntN(4)]
		var conds []metav1.Condition
		count := map[metav1.ConditionStatus]int{}
		for _, name := range names {
			s := statuses[rng.IntN(len(statuses))]
			count[s]++
			conds = append(conds, condition(name, s, 7))
		}
		rng.Shuffle(len(conds), func(i, j int) { conds[i], conds[j] = conds[j], conds[i] })
		obj := of(7, conds...)
		Summarize(obj, names...)
		conds = obj.Status.Conditions
		want := metav1.ConditionUnknown
		switch {
		case count[metav1.ConditionFalse] > 0:
			want = metav1.ConditionFalse
		case count[metav1.ConditionTrue] == len(names):
			want = metav1.ConditionTrue
		}
		if got := ReadyOf(obj).Status; got != want {
			t.Fatalf("Ready is %s, want %s: %v", got, want, conds)
		}
		again := obj.DeepCopy()
		Summarize(again, names...)
		if diff := cmp.Diff(conds, again.Status.Conditions); diff != "" {
			t.Fatalf("summing up again (-first +second):\n%s", diff)
		}
	}
}

func TestSetKstatus_keepsAtMostOne(t *testing.T) {
	obj := of(3, metav1.Condition{Type: fettlev1.Ready, Status: metav1.ConditionTrue, Reason: fettlev1.Ready})
	for _, want := range []string{fettlev1.Stalled, fettlev1.Reconciling, ""} {
		SetKstatus(obj, want, "Because", "of this")
		for _, other := range []string{fettlev1.Stalled, fettlev1.Reconciling} {
			c := meta.FindStatusCondition(obj.Status.Conditions, other)
			if (c != nil) != (other == want) {
				t.Errorf("%q: %s is %+v", want, other, c)
			}
			if c != nil && (c.Status != metav1.ConditionTrue || c.Reason != "Because" || c.Message != "of this" || c.ObservedGeneration != 3) {
				t.Errorf("%q: %+v", want, c)
			}
		}
	}
	if conds := obj.Status.Conditions; len(conds) != 1 {
		t.Errorf("%+v", conds)
	}
}

func TestSetStalled_terminalReasonsAlone(t *testing.T) {
	for _, tc := range []struct {
		name    string
		ready   metav1.Condition
		failed  bool
		stalled bool
	}{
		{"not ready yet", condition("Ready", metav1.ConditionFalse, 3), false, false},
		{"rejected", metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: fettlev1.ReasonInvalid, Message: "why Ready"}, false, true},
		{"a reason of the kind", metav1.Condition{Type: "Ready", Status: metav1.ConditionFalse, Reason: "RolledBack", Message: "why Ready"}, false, true},
		{"failed", condition("Ready", metav1.ConditionFalse, 3), true, true},
		{"ready, and a change is rejected", metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: fettlev1.ReasonInvalid, Message: "why Ready"}, false, true},
	} {
		obj := of(3, tc.ready)
		SetKstatus(obj, fettlev1.Reconciling, "Because", "of this")
		SetStalled(obj, tc.failed, "RolledBack")
		conds := obj.Status.Conditions
		c := meta.FindStatusCondition(conds, fettlev1.Stalled)
		if (c != nil) != tc.stalled || meta.FindStatusCondition(conds, fettlev1.Reconciling) != nil {
			t.Errorf("%s: %+v", tc.name, conds)
		}
		if c != nil && (c.Reason != tc.ready.Reason || c.Message != "why Ready" || c.ObservedGeneration != 3) {
			t.Errorf("%s: Stalled is %+v", tc.name, c)
		}
	}
	obj := of(1)
	if SetStalled(obj, true); len(obj.Status.Conditions) > 0 {
		t.Errorf("without Ready: %+v", obj.Status.Conditions)
	}
}

func TestSetPaused_keepsStatusAndTransitionTime(t *testing.T) {
	long := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	for _, status := range []metav1.ConditionStatus{metav1.ConditionTrue, metav1.ConditionFalse, metav1.ConditionUnknown} {
		ready := condition("Ready", status, 3)
		ready.LastTransitionTime = long
		obj := of(4, ready)
		SetKstatus(obj, fettlev1.Stalled, "Because", "of this")
		SetPaused(obj, "revision 2 stays published")
		want := []metav1.Condition{{
			Type: "Ready", Status: status, Reason: "Paused", Message: "spec.paused is true: reconciliation is paused; revision 2 stays published",
			ObservedGeneration: 4, LastTransitionTime: long,
		}}
		if diff := cmp.Diff(want, obj.Status.Conditions); diff != "" || obj.Status.Phase != "Paused" || obj.Status.ObservedGeneration != 4 {
			t.Errorf("%s: %+v (-want +got):\n%s", status, obj.Status, diff)
		}
	}
	obj := of(1)
	if SetPaused(obj, "x"); ReadyOf(obj).Status != metav1.ConditionUnknown {
		t.Errorf("without Ready: %+v", obj.Status)
	}
}
