package postgres

import (
	"syscall"
	"testing"
	"time"
)

// TestAgentStandsStill stops the agent of a primary alone, in asynchronous mode, while a client stays with its server: the
// server is dead before another instance accepts its first row.
func TestAgentStandsStill(t *testing.T) {
	c, l := newWritten(t, nil)
	leader := c.settled()
	inside := c.newLedger("inside", leader.address(0))
	c.flows(inside, time.Now())
	if dogs := leader.watchdogs(); len(dogs) != 1 {
		t.Fatalf("%s has %d watchdogs, want 1", leader.pod, len(dogs))
	}
	agent, _ := leader.pids()
	c.within(limitUnreachable, c.fault(l, "SIGSTOP of the agent", func(*instance) {
		_ = syscall.Kill(agent, syscall.SIGSTOP)
	}, func(*instance) {
		if left := leader.servers(); len(left) > 0 {
			t.Errorf("another one leads, and processes %v of %s still run", left, leader.pod)
		}
		last, first := inside.Last(), l.Gap(time.Time{}).To.Answered
		t.Logf("inside %s, the last row was acknowledged %s before the new primary's first", leader.pod, first.Sub(last).Round(time.Millisecond))
		if !last.Before(first) {
			t.Errorf("a row was acknowledged inside at %s; the new primary's first was at %s", last, first)
		}
		_ = syscall.Kill(agent, syscall.SIGCONT)
	}))
	c.eventually("a new watchdog", patience, func() bool { return len(leader.watchdogs()) == 1 })
}

// TestWatchdogIsReplaced kills the watchdog of the primary, then stops it: nothing happens to the server, and there is
// another one.
func TestWatchdogIsReplaced(t *testing.T) {
	c, l := newWritten(t, synchronous)
	leader := c.settled()
	begun := time.Now()
	for _, signal := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		before := leader.watchdogs()
		if len(before) != 1 {
			t.Fatalf("watchdogs %v, want 1", before)
		}
		_ = syscall.Kill(before[0], signal)
		c.eventually("another watchdog", patience, func() bool {
			now := leader.watchdogs()
			return len(now) == 1 && now[0] != before[0]
		})
	}
	c.flows(l, time.Now().Add(3*time.Second)) // a renewal later
	if failures := l.Failed(begun); failures > 0 {
		t.Errorf("the client saw %d errors", failures)
	}
	c.leadsStill(leader)
	c.check(l)
}
