package postgres

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSecondSIGTERM_changesNothing: the kubelet may send SIGTERM again, as after a restart of its own. The stop goes on in order:
// PostgreSQL writes its shutdown checkpoint, and the Lease is released.
func TestSecondSIGTERM_changesNothing(t *testing.T) {
	t.Parallel()
	c, l := newWritten(t, synchronous)
	leader := c.settled()
	from := len(leader.log.text())
	agent, _ := leader.pids()
	for range 3 {
		if err := syscall.Kill(agent, syscall.SIGTERM); err != nil {
			break // it has ended by now
		}
		time.Sleep(10 * time.Millisecond)
	}
	<-leader.ended
	log := leader.since(from)
	for _, want := range []string{"database system is shut down", `"action":"release-lease"`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log of %s does not say %q", leader.pod, want)
		}
	}
	c.eventually("another primary", patience, func() bool { now := c.leader(); return now != nil && now != leader })
	leader.recreatePod()
	leader.start()
	c.settled()
	c.check(l)
}
