package postgres

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSecondSIGTERM_changesNothing: the kubelet may send SIGTERM again, for example after its own restart. The shutdown
// continues: PostgreSQL writes its shutdown checkpoint, and the Lease is released.
func TestSecondSIGTERM_changesNothing(t *testing.T) {
	t.Parallel()
	c, l := newClusterWithWriter(t, synchronous)
	primary := c.waitSettled()
	from := len(primary.log.text())
	agent, _ := primary.pids()
	for range 3 {
		if err := syscall.Kill(agent, syscall.SIGTERM); err != nil {
			break // it has exited
		}
		time.Sleep(10 * time.Millisecond)
	}
	<-primary.ended
	log := primary.logSince(from)
	for _, want := range []string{"database system is shut down", `"action":"release-lease"`} {
		if !strings.Contains(log, want) {
			t.Errorf("the log of %s does not say %q", primary.pod, want)
		}
	}
	c.eventually("another primary", timeout, func() bool { now := c.primary(); return now != nil && now != primary })
	primary.recreatePod()
	primary.start()
	c.waitSettled()
	c.check(l)
}
