package postgresql

import (
	"errors"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
)

// A step is not taken twice in a short time, unless it turned out that it was not taken.
func TestStepsAreDue(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC))
	m := newHistory(clock)
	key, other := types.NamespacedName{Namespace: "shop", Name: "db"}, types.NamespacedName{Namespace: "shop", Name: "other"}
	due := func(when string, key types.NamespacedName, what string, want bool) {
		t.Helper()
		if got := m.due(key, what, stepRetry); got != want {
			t.Errorf("%s: due %v", when, got)
		}
	}
	due("the first time", key, "replace", true)
	due("at once again", key, "replace", false)
	due("another step", key, "switchover", true)
	due("of another database", other, "replace", true)
	m.undo(key, "replace")
	due("it was not taken", key, "replace", true)
	due("but now it was", key, "replace", false)
	due("another step that was taken", key, "switchover", false)
	clock.SetTime(clock.Now().Add(stepRetry))
	due("a while later", key, "replace", true)
	m.undo(types.NamespacedName{Name: "unknown"}, "replace") // of which nothing is remembered
}

// TestSlowPrimaryIsLeftAlone holds that telling a primary that does not answer takes a third of a worker's time at most.
func TestSlowPrimaryIsLeftAlone(t *testing.T) {
	clock := clocktesting.NewFakePassiveClock(time.Date(2026, 11, 21, 4, 0, 0, 0, time.UTC))
	l := newApplyBackoff(clock)
	key, other := types.NamespacedName{Namespace: "shop", Name: "db"}, types.NamespacedName{Namespace: "shop", Name: "other"}
	slow := errors.New("no answer in time")
	expect := func(when string, key types.NamespacedName, hash string, want error) {
		t.Helper()
		if got := l.err(key, hash); !errors.Is(got, want) {
			t.Errorf("%s: %v, want %v", when, got, want)
		}
	}
	expect("before anything", key, "a", nil)
	l.record(key, "a", slow, 20*time.Second)
	expect("at once", key, "a", slow)
	expect("other wishes, or another primary", key, "b", nil)
	expect("another PostgreSQL", other, "a", nil)
	clock.SetTime(clock.Now().Add(39 * time.Second))
	expect("a while later", key, "a", slow)
	clock.SetTime(clock.Now().Add(time.Second))
	expect("when it is time", key, "a", nil)

	l.record(key, "a", slow, 0)
	expect("one that refused at once", key, "a", nil)
	l.record(key, "a", slow, time.Minute)
	l.record(key, "a", nil, time.Second)
	expect("one that was told", key, "a", nil)
	l.record(key, "a", slow, time.Minute)
	l.forget(key)
	expect("one that is gone", key, "a", nil)
}
