package postgres

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

// stopGap is what a client may be without an acknowledged row during a switchover: about half a second, and what a busy machine
// adds. Both faults of this file took it above 20 s.
const stopGap = 8 * time.Second

// TestSwitchover_longCheckpoint: clients are served while the primary writes out its memory, however long that takes, and no stop
// is ordered before.
func TestSwitchover_longCheckpoint(t *testing.T) {
	t.Parallel()
	c, l := newWritten(t, synchronous)
	leader := c.settled()
	c.flows(l, time.Now())
	from := len(leader.log.text())
	checkpointer := leader.process("checkpointer")
	if err := syscall.Kill(checkpointer, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	begun := time.Now()
	c.switchover(leader)
	c.eventually("a checkpoint before the stop", patience, func() bool { return strings.Contains(leader.since(from), `"action":"checkpoint"`) })
	time.Sleep(12 * time.Second) // longer than the 10 s that it once had
	if log := leader.since(from); strings.Contains(log, `"action":"stop"`) || c.leader() != leader {
		t.Errorf("%s was stopped before its checkpoint had ended", leader.pod)
	}
	c.flows(l, time.Now())
	if err := syscall.Kill(checkpointer, syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	c.eventually("the switchover", patience, func() bool { now := c.leader(); return now != nil && now != leader })
	c.flows(l, time.Now())
	if gap := l.Gap(begun).Length(); gap > stopGap {
		t.Errorf("%s without an acknowledged row", gap)
	} else {
		t.Logf("%s without an acknowledged row", gap)
	}
	c.switchedOver(leader)
	c.settled()
	c.check(l)
}

// TestSwitchover_slowThird: the standby that leads next has everything, another one is 200 MiB behind. The stop does not wait for it.
func TestSwitchover_slowThird(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 3, nil)
	leader := c.settled()
	c.prepareLedger()
	target, slow := c.instances[(leader.ordinal+1)%3], c.instances[(leader.ordinal+2)%3]
	slow.replication[leader.ordinal].rate.Store(2 << 20)
	leader.exec(t, "CREATE TABLE bulk AS SELECT g, md5(g::text) a, md5((g+1)::text) b FROM generate_series(1, 1800000) g")
	l := c.newLedger("service", "")
	c.flows(l, time.Now())
	lag := func(i *instance) uint64 {
		a, _ := leader.status()
		b, _ := i.status()
		return max(uint64(a.Received), uint64(b.Received)) - uint64(b.Received)
	}
	c.eventually("the target to have all", patience, func() bool { return lag(target) < 1<<20 })
	if behind := lag(slow); behind < 100<<20 {
		t.Fatalf("%s is only %d MiB behind: nothing would wait for it", slow.pod, behind>>20)
	}
	from, begun := len(leader.log.text()), time.Now()
	c.annotate(databasev1alpha1.AnnotationSwitchover, target.pod)
	c.eventually(target.pod+" to lead", patience, func() bool { return c.leader() == target })
	c.flows(l, time.Now())
	behind := lag(slow)
	t.Logf("%s without an acknowledged row, %s is %d MiB behind", l.Gap(begun).Length(), slow.pod, behind>>20)
	if gap := l.Gap(begun).Length(); gap > stopGap {
		t.Errorf("%s without an acknowledged row", gap)
	}
	if strings.Contains(leader.since(from), `"mode":"immediate"`) || !strings.Contains(leader.since(from), "database system is shut down") {
		t.Errorf("%s did not stop in order", leader.pod)
	}
	slow.replication[leader.ordinal].rate.Store(0)
	c.annotate(databasev1alpha1.AnnotationSwitchover, "")
	c.settled()
	c.check(l)
}

// process is one of the instance's PostgreSQL, by its title; 0 if there is none.
func (i *instance) process(title string) int {
	for _, pid := range i.servers() {
		line, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "cmdline"))
		if strings.Contains(string(line), title) {
			return pid
		}
	}
	return 0
}
