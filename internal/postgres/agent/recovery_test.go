package agent

import (
	"testing"
	"time"
)

// Progress is time that is used, not time that goes by: a recovery that only waits does not advance.
func TestRecordRecovery_progress(t *testing.T) {
	const ms = time.Millisecond
	a := &Agent{}
	for i, step := range []struct{ used, want time.Duration }{
		{0, 0}, {40 * ms, 0}, {60 * ms, 3}, {100 * ms, 3}, {110 * ms, 5}, {110 * ms, 5}, {20 * ms, 5}, {69 * ms, 5}, {70 * ms, 9},
	} {
		a.recordRecovery(step.used, time.Duration(i+1))
		if a.own.RecoveryAdvancedAt != step.want {
			t.Errorf("%d: with %s used it advanced at %d, not at %d", i+1, step.used, a.own.RecoveryAdvancedAt, step.want)
		}
	}
}
