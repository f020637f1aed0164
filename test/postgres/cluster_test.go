package postgres

import (
	"sync"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

// synchronous has commits wait for one of the other instances.
func synchronous(pg *databasev1alpha1.PostgreSQL) {
	pg.Spec.Synchronous = &databasev1alpha1.PostgreSQLSynchronous{Method: "quorum", Number: 1}
}

// newWritten is a synchronous cluster of three with a client that writes.
func newWritten(t *testing.T) (*cluster, *ledger) {
	begun := time.Now()
	c := newCluster(t, 3, synchronous)
	c.eventually("a primary", time.Minute, func() bool { return c.leader() != nil })
	t.Logf("first instance Ready after %s", time.Since(begun).Round(time.Millisecond))
	c.settled()
	t.Logf("three instances Ready after %s", time.Since(begun).Round(time.Millisecond))
	c.prepareLedger()
	l := c.newLedger("service", "")
	c.flows(l, begun)
	return c, l
}

// annotate asks the cluster for something.
func (c *cluster) annotate(key, value string) {
	c.t.Helper()
	pg := &databasev1alpha1.PostgreSQL{}
	if err := c.client.Get(c.t.Context(), client.ObjectKey{Namespace: c.namespace, Name: name}, pg); err != nil {
		c.t.Fatal(err)
	}
	before := pg.DeepCopy()
	if pg.Annotations == nil {
		pg.Annotations = map[string]string{}
	}
	pg.Annotations[key] = value
	if value == "" {
		delete(pg.Annotations, key)
	}
	if err := c.client.Patch(c.t.Context(), pg, client.MergeFrom(before)); err != nil {
		c.t.Fatal(err)
	}
}

// other is an instance that is not leader.
func (c *cluster) other(leader *instance) *instance {
	return c.instances[(leader.ordinal+1)%len(c.instances)]
}

// fault does something to the primary, and waits until there are writes again and all is well. It returns the longest
// time without an acknowledged row.
func (c *cluster) fault(l *ledger, what string, do func(leader *instance), undo func(leader *instance)) time.Duration {
	c.t.Helper()
	leader := c.settled()
	c.flows(l, time.Now())
	begun := time.Now()
	do(leader)
	c.eventually("another primary, or this one anew", time.Minute, func() bool {
		now := c.leader()
		return now != nil && (now != leader || what != "switchover" && l.failed(begun) > 0 && l.last().After(begun.Add(time.Second)))
	})
	c.flows(l, time.Now())
	gap := l.gap(begun)
	if undo != nil {
		undo(leader)
	}
	c.settled()
	c.t.Logf("%s: %s without an acknowledged row; %s, then %s", what, gap.Round(time.Millisecond), leader.pod, c.leader().pod)
	return gap
}

func (c *cluster) switchover(leader *instance) {
	c.annotate(databasev1alpha1.AnnotationSwitchover, c.other(leader).pod)
}

func (c *cluster) switchedOver(*instance) { c.annotate(databasev1alpha1.AnnotationSwitchover, "") }

// killServer kills the postmaster.
func killServer(leader *instance) {
	_, postmaster := leader.pids()
	_ = syscall.Kill(postmaster, syscall.SIGKILL)
}

// killAll kills all of the instance and starts it again, as when its container is killed.
func killAll(leader *instance) {
	leader.kill()
	leader.start()
}

// hang stops PostgreSQL, but not the agent.
func hang(leader *instance) {
	agent, _ := leader.pids()
	for _, pid := range leader.family() {
		if pid != agent {
			_ = syscall.Kill(pid, syscall.SIGSTOP)
		}
	}
}

// replacePod has the agent end in order and be started in a new pod.
func replacePod(leader *instance) {
	leader.stop()
	leader.recreatePod()
	leader.start()
}

func (c *cluster) check(ledgers ...*ledger) {
	c.t.Helper()
	for _, l := range ledgers {
		l.end()
	}
	if lost := c.audit(c.t, ledgers...); lost > 0 {
		c.t.Errorf("%d acknowledged rows were lost", lost)
	}
}

func TestSwitchoverAndCrashes(t *testing.T) {
	c, l := newWritten(t)
	c.fault(l, "switchover", c.switchover, c.switchedOver)
	c.fault(l, "SIGKILL of the postmaster", killServer, nil)
	c.fault(l, "SIGKILL of the container", killAll, nil)
	c.fault(l, "the pod is replaced", replacePod, nil)
	c.check(l)
}

func TestHungServer(t *testing.T) {
	c, l := newWritten(t)
	c.fault(l, "SIGSTOP of PostgreSQL", hang, nil)
	c.check(l)
}

// TestPartition cuts the primary off while a client stays with it: it must have acknowledged its last row before the new
// primary accepts its first.
func TestPartition(t *testing.T) {
	c, l := newWritten(t)
	leader := c.settled()
	inside := c.newLedger("inside", leader.address(0))
	c.flows(inside, time.Now())
	c.fault(l, "partition", func(leader *instance) { leader.cutOff() }, func(leader *instance) {
		first := l.firstAfter(inside.last())
		t.Logf("the last row inside was acknowledged %s before the first one of the new primary", first.Sub(inside.last()).Round(time.Millisecond))
		if at := inside.last(); !l.last().After(at) {
			t.Error("a row was acknowledged inside after the new primary took over")
		}
		leader.rejoin()
	})
	c.check(l, inside)
}

// TestStoppedAgent stops the agent and its server together, as a machine that stands still, until another has taken over.
func TestStoppedAgent(t *testing.T) {
	c, l := newWritten(t)
	var mutex sync.Mutex
	c.fault(l, "the machine stands still", func(leader *instance) {
		mutex.Lock()
		defer mutex.Unlock()
		leader.signal(syscall.SIGSTOP)
	}, func(leader *instance) { leader.signal(syscall.SIGCONT) })
	c.check(l)
}

// TestNoAPIServer takes the API server away from everybody.
func TestNoAPIServer(t *testing.T) {
	c, l := newWritten(t)
	leader := c.settled()
	begun := time.Now()
	for _, i := range c.instances {
		i.cutOff("api")
	}
	time.Sleep(20 * time.Second)
	for _, i := range c.instances {
		i.rejoin()
	}
	time.Sleep(5 * time.Second)
	if c.leader() != leader {
		t.Error("the primary changed")
	}
	if failures := l.failed(begun); failures > 0 {
		t.Errorf("the client saw %d errors", failures)
	}
	t.Logf("the longest time without an acknowledged row: %s", l.gap(begun).Round(time.Millisecond))
	c.check(l)
}
