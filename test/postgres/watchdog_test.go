package postgres

import (
	"syscall"
	"testing"
	"time"
)

// TestWatchdog_agentStopped stops only the agent of a primary (SIGSTOP), in asynchronous mode, with a client connected to
// its server. The server is dead before another instance acknowledges its first row.
func TestWatchdog_agentStopped(t *testing.T) {
	c, l := newClusterWithWriter(t, nil)
	primary := c.waitSettled()
	inside := c.newWriter("inside", primary.address(0))
	c.waitForWrites(inside, time.Now())
	if dogs := primary.watchdogs(); len(dogs) != 1 {
		t.Fatalf("%s has %d watchdogs, want 1", primary.pod, len(dogs))
	}
	agent, _ := primary.pids()
	c.checkGap(limitUnreachable, c.injectFault(l, "SIGSTOP of the agent", func(*instance) {
		_ = syscall.Kill(agent, syscall.SIGSTOP)
	}, func(*instance) {
		if left := primary.servers(); len(left) > 0 {
			t.Errorf("another instance is primary, but processes %v of %s still run", left, primary.pod)
		}
		last, first := inside.Last(), l.Gap(time.Time{}).To.Answered
		t.Logf("inside %s, the last row was acknowledged %s before the new primary's first", primary.pod, first.Sub(last).Round(time.Millisecond))
		if !last.Before(first) {
			t.Errorf("a row was acknowledged inside at %s; the new primary's first was at %s", last, first)
		}
		_ = syscall.Kill(agent, syscall.SIGCONT)
	}))
	c.eventually("a new watchdog", timeout, func() bool { return len(primary.watchdogs()) == 1 })
}

// TestWatchdog_isReplaced kills the primary's watchdog, then stops it. The server is not affected, and a new watchdog is
// started.
func TestWatchdog_isReplaced(t *testing.T) {
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
