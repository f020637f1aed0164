package postgres

import (
	"syscall"
	"testing"
	"time"
)

// TestWatchdog_isReplaced kills the primary's watchdog, then stops it. The server is not affected, and a new watchdog is
// started.
func TestWatchdog_isReplaced(t *testing.T) {
	t.Parallel()
	c, l := newClusterWithWriter(t, synchronous)
	primary := c.waitSettled()
	begun := time.Now()
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		before := primary.watchdogs()
		if len(before) != 1 {
			t.Fatalf("watchdogs %v, want 1", before)
		}
		_ = syscall.Kill(before[0], signal)
		c.eventually("another watchdog", timeout, func() bool {
			now := primary.watchdogs()
			return len(now) == 1 && now[0] != before[0]
		})
	}
	c.waitForWrites(l, time.Now().Add(3*time.Second)) // a renewal later
	if failures := l.Failed(begun); failures > 0 {
		t.Errorf("the client saw %d errors", failures)
	}
	c.wantStillPrimary(primary)
	c.check(l)
}
