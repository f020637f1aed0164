package postgres

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/test/acks"
)

// partition isolates an instance from the API server and all other instances. Clients on its side stay connected.
func (i *instance) partition() { i.disconnect() }

// stopProcesses stops all processes of the instance (SIGSTOP), continueProcesses continues them.
func stopProcesses(primary *instance)     { primary.signal(syscall.SIGSTOP) }
func continueProcesses(primary *instance) { primary.signal(syscall.SIGCONT) }

// crashNode makes an instance vanish, restartNode starts it again.
func crashNode(primary *instance) {
	primary.partition()
	primary.kill()
}

func restartNode(primary *instance) {
	primary.reconnect()
	primary.start()
}

// The tests of the name TestFailover_ limit the times without an acknowledged row, so all others run after them, in parallel.

// TestFailover_switchoverAndCrashes has its data on a disk, so that what survives a crash was synced.
func TestFailover_switchoverAndCrashes(t *testing.T) {
	t.Setenv(variableDir, "/var/tmp")
	c, l := newClusterWithWriter(t, synchronous)
	c.checkGap(limitPlanned, c.injectFault(l, "switchover", c.switchover, c.switchedOver))
	c.checkGap(limitCrash, c.injectFault(l, "SIGKILL of the postmaster", killServer, nil))
	c.checkGap(limitCrash, c.injectFault(l, "SIGKILL of the agent", killAgent, nil))
	c.checkGap(limitCrash, c.injectFault(l, "SIGKILL of the container", killContainer, nil))
	c.checkGap(limitPlanned, c.injectFault(l, "the pod is replaced", replacePod, nil))
	c.check(l)
}

// TestFailover_unreachable has the faults that only silence gives away. They mostly wait for the end of a lease, so two run in parallel. With
// more, a slow machine exceeds the limits.
func TestFailover_unreachable(t *testing.T) {
	running := make(chan struct{}, 2)
	for name, test := range map[string]func(*testing.T){
		"unresponsive server": unresponsiveServer, "stopped agent": stoppedAgent, "lost node": lostNode,
		"synchronous partition": partition(synchronous), "asynchronous partition": partition(nil),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			running <- struct{}{}
			defer func() { <-running }()
			test(t)
		})
	}
}

func unresponsiveServer(t *testing.T) {
	c, l := newClusterWithWriter(t, synchronous)
	var former *instance
	c.checkGap(limitUnreachable, c.injectFault(l, "SIGSTOP of PostgreSQL", stopPostgreSQL, func(primary *instance) { former = primary }))
	if status, ok := former.status(); !ok || !status.Election.RecentlyUnresponsive {
		t.Errorf("%s responds: %v, and does not report that it was unresponsive: %+v", former.pod, ok, status)
	}
	c.check(l)
}

// partition isolates the primary from the cluster, with a client on its side. The old primary must acknowledge its last row before
// the new primary acknowledges its first.
func partition(change func(*databasev1alpha1.PostgreSQL)) func(*testing.T) {
	return func(t *testing.T) {
		c, l := newClusterWithWriter(t, change)
		inside := c.newWriter("inside", c.waitSettled().address(0))
		c.waitForWrites(inside, time.Now())
		c.checkGap(limitUnreachable, c.injectFault(l, "partition", (*instance).partition, func(primary *instance) {
			last := inside.Last()
			primary.reconnect()
			wantLastBefore(t, primary, last, l)
		}))
		if change != nil {
			c.check(l, inside)
			return
		}
		inside.End()
		l.End()
		t.Logf("%d acknowledged rows were lost, which were written during the partition", c.audit(t, inside, l).Lost)
	}
}

// wantLastBefore checks that the former primary acknowledged its last row before the new one acknowledged its first.
func wantLastBefore(t *testing.T, former *instance, last time.Time, l *acks.Writer) {
	t.Helper()
	first := l.Gap(time.Time{}).To.Answered
	t.Logf("inside %s, the last row was acknowledged %s before the new primary's first", former.pod, first.Sub(last).Round(time.Millisecond))
	if !last.Before(first) {
		t.Errorf("a row was acknowledged inside at %s; the new primary's first was at %s", last, first)
	}
}

// lostNode stops agent and server together until another instance is primary: once as a hung node, and once as a lost node, of which the
// agents log little.
func lostNode(t *testing.T) {
	c, l := newClusterWithWriter(t, synchronous)
	c.checkGap(limitUnreachable, c.injectFault(l, "the node hangs", stopProcesses, continueProcesses))
	logs := c.agentLogs()
	c.checkGap(limitUnreachable, c.injectFault(l, "the node is lost", crashNode, restartNode))
	logs.wantShort(t)
	c.check(l)
}

// stoppedAgent stops only the agent of a primary (SIGSTOP), in asynchronous mode, with a client connected to its server. The server is dead
// before another instance acknowledges its first row.
func stoppedAgent(t *testing.T) {
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
		wantLastBefore(t, primary, inside.Last(), l)
		_ = syscall.Kill(agent, syscall.SIGCONT)
	}))
	c.eventually("a new watchdog", timeout, func() bool { return len(primary.watchdogs()) == 1 })
}

// TestAPIServerDown_keepsPrimary disconnects all instances from the API server.
func TestAPIServerDown_keepsPrimary(t *testing.T) {
	t.Parallel()
	c, l := newClusterWithWriter(t, synchronous)
	primary := c.waitSettled()
	begun := time.Now()
	for _, i := range c.instances {
		i.disconnect("api")
	}
	time.Sleep(20 * time.Second)
	for _, i := range c.instances {
		i.reconnect()
	}
	time.Sleep(5 * time.Second)
	c.wantStillPrimary(primary)
	if failures := l.Failed(begun); failures > 0 {
		t.Errorf("the client saw %d errors", failures)
	}
	t.Logf("the longest time without an acknowledged row: %s", l.Gap(begun).Length().Round(time.Millisecond))
	c.check(l)
}

// TestSingleInstance_withoutAPIServer: a single instance keeps running without the API server, and restarts after a crash.
func TestSingleInstance_withoutAPIServer(t *testing.T) {
	t.Parallel()
	c := newCluster(t, 1, nil)
	primary := c.waitSettled()
	c.prepareWrites()
	l := c.newWriter("service", "")
	c.waitForWrites(l, time.Now())
	if dogs := primary.watchdogs(); len(dogs) > 0 {
		t.Errorf("there is no other instance, but watchdogs %v run", dogs)
	}
	begun := time.Now()
	primary.disconnect("api")
	time.Sleep(12 * time.Second)
	if failures := l.Failed(begun); failures > 0 {
		t.Errorf("without the API server the client saw %d errors", failures)
	}
	begun = time.Now()
	killServer(primary)
	c.eventually("writes after a crash, without the API server", timeout, func() bool {
		return l.Failed(begun) > 0 && l.Last().After(begun.Add(time.Second))
	})
	t.Logf("SIGKILL of the postmaster: %s without an acknowledged row", l.Gap(begun).Length().Round(time.Millisecond))
	primary.reconnect()
	c.waitSettled()
	c.check(l)
}

// TestAPIServerDown_oneStandbyDown disconnects the API server while a standby has been down for longer than the Lease
// duration.
func TestAPIServerDown_oneStandbyDown(t *testing.T) {
	t.Parallel()
	c, l := newClusterWithWriter(t, nil)
	primary := c.waitSettled()
	down := c.other(primary)
	down.kill()
	c.eventually("the Lease not to list "+down.pod, timeout, func() bool {
		_, record := c.lease()
		return record != nil && !strings.Contains(fmt.Sprint(record["instances"]), down.pod)
	})
	c.waitForWrites(l, time.Now())
	begun := time.Now()
	for _, i := range c.instances {
		i.disconnect("api")
	}
	time.Sleep(20 * time.Second)
	for _, i := range c.instances {
		i.reconnect()
	}
	c.waitForWrites(l, time.Now())
	c.wantStillPrimary(primary)
	if failures := l.Failed(begun); failures > 0 {
		t.Errorf("the client saw %d errors", failures)
	}
	t.Logf("the longest time without an acknowledged row: %s", l.Gap(begun).Length().Round(time.Millisecond))
	down.start()
	c.waitSettled()
	c.eventually("the Lease to list "+down.pod+" again", timeout, func() bool {
		_, record := c.lease()
		return strings.Contains(fmt.Sprint(record["instances"]), down.pod)
	})
	c.check(l)
}

// TestAPIServerReadOnly_keepsPrimary: the API server serves reads but rejects all writes, as with a broken admission
// webhook or a full etcd.
func TestAPIServerReadOnly_keepsPrimary(t *testing.T) {
	t.Parallel()
	c, l := newClusterWithWriter(t, synchronous)
	primary := c.waitSettled()
	c.waitForWrites(l, time.Now())
	begun := time.Now()
	writable := c.refuseWrites()
	time.Sleep(25 * time.Second)
	c.wantStillPrimary(primary)
	writable()
	c.waitForWrites(l, time.Now())
	time.Sleep(5 * time.Second)
	c.wantStillPrimary(primary)
	gap := l.Gap(begun).Length()
	t.Logf("the longest time without an acknowledged row: %s", gap.Round(time.Millisecond))
	if gap > 5*time.Second {
		t.Errorf("no row was acknowledged for %s", gap)
	}
	if failures := l.Failed(begun); failures > 0 {
		t.Errorf("the client saw %d errors", failures)
	}
	c.check(l)
}

// refuseWrites makes the API server reject all writes in the cluster's namespace until the returned function is called.
func (c *cluster) refuseWrites() (end func()) {
	c.t.Helper()
	admin, err := client.New(env.Admin, client.Options{Scheme: clientgoscheme.Scheme})
	if err != nil {
		c.t.Fatal(err)
	}
	hook := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "down-for-" + c.namespace},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "all.policy.example.com", FailurePolicy: new(admissionv1.Fail), SideEffects: new(admissionv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"}, TimeoutSeconds: new(int32(1)),
			ClientConfig: admissionv1.WebhookClientConfig{URL: new("https://127.0.0.1:1/policy")},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{"*"}, APIVersions: []string{"*"}, Resources: []string{"*"}},
			}},
			NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"kubernetes.io/metadata.name": c.namespace}},
		}},
	}
	if err := admin.Create(c.t.Context(), hook); err != nil {
		c.t.Fatal(err)
	}
	end = sync.OnceFunc(func() {
		if err := admin.Delete(context.Background(), hook); err != nil {
			c.t.Error(err)
		}
	})
	c.t.Cleanup(end)
	return end
}
