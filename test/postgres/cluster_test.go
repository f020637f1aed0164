package postgres

import (
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/test/acks"
)

// synchronous makes commits wait for one standby.
func synchronous(pg *databasev1alpha1.PostgreSQL) {
	pg.Spec.Synchronous = &databasev1alpha1.PostgreSQLSynchronous{Number: 1}
}

// newClusterWithWriter starts a cluster of three instances and a client that writes.
func newClusterWithWriter(t *testing.T, change func(*databasev1alpha1.PostgreSQL)) (*cluster, *acks.Writer) {
	begun := time.Now()
	c := newCluster(t, 3, change)
	c.eventually("a primary", timeout, func() bool { return c.primary() != nil })
	t.Logf("first instance Ready after %s", time.Since(begun).Round(time.Millisecond))
	primary := c.waitSettled()
	for _, path := range []string{"/livez", "/startupz", "/readyz"} {
		c.eventually("the probe "+path+" of the primary to pass", timeout, func() bool { return primary.probe(path) })
	}
	t.Logf("three instances Ready after %s", time.Since(begun).Round(time.Millisecond))
	c.prepareWrites()
	l := c.newWriter("service", "")
	c.waitForWrites(l, begun)
	return c, l
}

// annotate sets an annotation of the PostgreSQL, or removes it if value is "".
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

// other is an instance that is not the given one.
func (c *cluster) other(primary *instance) *instance {
	return c.instances[(primary.ordinal+1)%len(c.instances)]
}

// injectFault injects a fault on the primary, and waits until writes succeed again and all instances are ready. It returns
// the longest time without an acknowledged row.
func (c *cluster) injectFault(l *acks.Writer, what string, do func(primary *instance), undo func(primary *instance)) time.Duration {
	c.t.Helper()
	primary := c.waitSettled()
	c.waitForWrites(l, time.Now())
	begun := time.Now()
	do(primary)
	c.eventually("another primary, or the same one after a restart", timeout, func() bool {
		now := c.primary()
		return now != nil && (now != primary || what != "switchover" && l.Failed(begun) > 0 && l.Last().After(begun.Add(time.Second)))
	})
	c.waitForWrites(l, time.Now())
	gap := l.Gap(begun).Length()
	if undo != nil {
		undo(primary)
	}
	next := c.waitSettled()
	if servers := l.Servers(begun); len(servers) > 2 {
		c.t.Errorf("%s: more than one change of the primary: %v\n%s", what, servers, c.describe())
	}
	c.t.Logf("%s: %s without an acknowledged row; %s, then %s", what, gap.Round(time.Millisecond), primary.pod, next.pod)
	return gap
}

// Limits of the time without an acknowledged row, on a busy machine. docs/postgresql-failover.md has the measured times:
// 0.6 s, 0.6 s and 9 s.
const (
	limitPlanned     = 3 * time.Second  // a switchover
	limitCrash       = 5 * time.Second  // a process or a container that ends
	limitUnreachable = 15 * time.Second // an instance that only its silence gives away: one Lease duration and the election
)

// checkGap checks the time until writes were possible again.
func (c *cluster) checkGap(limit, gap time.Duration) {
	c.t.Helper()
	if gap > limit {
		c.t.Errorf("%s without an acknowledged row, at most %s are allowed", gap.Round(time.Millisecond), limit)
	}
}

func (c *cluster) switchover(primary *instance) {
	c.annotate(databasev1alpha1.AnnotationSwitchover, c.other(primary).pod)
}

func (c *cluster) switchedOver(*instance) { c.annotate(databasev1alpha1.AnnotationSwitchover, "") }

// killServer kills the postmaster.
func killServer(primary *instance) {
	_, postmaster := primary.pids()
	_ = syscall.Kill(postmaster, syscall.SIGKILL)
}

// killAgent kills only the agent.
func killAgent(primary *instance) {
	agent, _ := primary.pids()
	_ = syscall.Kill(agent, syscall.SIGKILL)
	<-primary.ended
	primary.start()
}

// killContainer kills all processes of the instance and starts it again.
func killContainer(primary *instance) {
	primary.kill()
	primary.start()
}

// stopPostgreSQL stops the processes of PostgreSQL (SIGSTOP), but not the agent.
func stopPostgreSQL(primary *instance) {
	for _, pid := range primary.servers() {
		_ = syscall.Kill(pid, syscall.SIGSTOP)
	}
}

// replacePod stops the agent and starts it in a new pod.
func replacePod(primary *instance) {
	primary.stop()
	primary.recreatePod()
	primary.start()
}

func (c *cluster) check(writers ...*acks.Writer) {
	c.t.Helper()
	for _, l := range writers {
		l.End()
	}
	if report := c.audit(c.t, writers...); report.Lost > 0 {
		c.t.Errorf("%d acknowledged rows were lost", report.Lost)
	}
	const rows = "SELECT count(*)::text FROM acks_rows"
	want := c.waitSettled().queryUntil(rows)
	for _, i := range c.instances {
		c.eventually(i.pod+" to have all "+want+" rows", timeout, func() bool { return i.queryOnce(rows) == want })
	}
}
