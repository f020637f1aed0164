package postgresql

import (
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
