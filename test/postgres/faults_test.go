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
)

// isolate cuts an instance off from everybody but the clients that are with it.
func (i *instance) isolate() { i.cutOff() }

// freeze stops the whole instance, thaw has it go on.
func freeze(leader *instance) { leader.signal(syscall.SIGSTOP) }
func thaw(leader *instance)   { leader.signal(syscall.SIGCONT) }

// lose has an instance end without a word to anybody, find starts it again.
func lose(leader *instance) {
	leader.isolate()
	leader.kill()
}

func find(leader *instance) {
	leader.rejoin()
	leader.start()
}

func TestSwitchoverAndCrashes(t *testing.T) {
	c, l := newWritten(t, synchronous)
	c.within(limitPlanned, c.fault(l, "switchover", c.switchover, c.switchedOver))
	c.within(limitCrash, c.fault(l, "SIGKILL of the postmaster", killServer, nil))
	c.within(limitCrash, c.fault(l, "SIGKILL of the agent", killAgent, nil))
	c.within(limitCrash, c.fault(l, "SIGKILL of the container", killAll, nil))
	c.within(limitPlanned, c.fault(l, "the pod is replaced", replacePod, nil))
	c.check(l)
}

func TestHungServer(t *testing.T) {
	c, l := newWritten(t, synchronous)
	var former *instance
	c.within(limitUnreachable, c.fault(l, "SIGSTOP of PostgreSQL", hang, func(leader *instance) { former = leader }))
	if status, ok := former.status(); !ok || !status.Election.RecentlyUnresponsive {
		t.Errorf("%s answers %v, and does not say that it stood still: %+v", former.pod, ok, status)
	}
	c.check(l)
}

// TestPartition cuts the primary off while a client stays with it: it must have acknowledged its last row before the new
// primary acknowledges its first.
func TestPartition(t *testing.T) {
	for name, change := range map[string]func(*databasev1alpha1.PostgreSQL){"synchronous": synchronous, "asynchronous": nil} {
		t.Run(name, func(t *testing.T) {
			c, l := newWritten(t, change)
			inside := c.newLedger("inside", c.settled().address(0))
			c.flows(inside, time.Now())
			c.within(limitUnreachable, c.fault(l, "partition", (*instance).isolate, func(leader *instance) {
				last := inside.Last()
				leader.rejoin()
				gap := l.Gap(time.Time{})
				first := gap.To.Answered
				t.Logf("inside %s, the last row was acknowledged %s before the new primary's first", leader.pod, first.Sub(last).Round(time.Millisecond))
				if !last.Before(first) {
					t.Errorf("a row was acknowledged inside at %s; the new primary's first was at %s, after %s", last, first, gap.From.Answered)
				}
			}))
			if change != nil {
				c.check(l, inside)
				return
			}
			inside.End()
			l.End()
			t.Logf("%d acknowledged rows were lost, which were written during the partition", c.audit(t, inside, l).Lost)
		})
	}
}

// TestLostNode has the agent and its server go together, until another has taken over: as a machine that stands still, and as one
// that is gone.
func TestLostNode(t *testing.T) {
	c, l := newWritten(t, synchronous)
	c.within(limitUnreachable, c.fault(l, "the machine stands still", freeze, thaw))
	c.within(limitUnreachable, c.fault(l, "the machine is lost", lose, find))
	c.check(l)
}

// TestNoAPIServer takes the API server away from everybody.
func TestNoAPIServer(t *testing.T) {
	c, l := newWritten(t, synchronous)
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
	c.leadsStill(leader)
	if failures := l.Failed(begun); failures > 0 {
		t.Errorf("the client saw %d errors", failures)
	}
	t.Logf("the longest time without an acknowledged row: %s", l.Gap(begun).Length().Round(time.Millisecond))
	c.check(l)
}

// TestSingleInstance has nobody to take over: it goes on without the API server, and starts again after a crash.
func TestSingleInstance(t *testing.T) {
	c := newCluster(t, 1, nil)
	leader := c.settled()
	c.prepareLedger()
	l := c.newLedger("service", "")
	c.flows(l, time.Now())
	if dogs := leader.watchdogs(); len(dogs) > 0 {
		t.Errorf("nobody can take over, and watchdogs %v run", dogs)
	}
	begun := time.Now()
	leader.cutOff("api")
	time.Sleep(12 * time.Second)
	if failures := l.Failed(begun); failures > 0 {
		t.Errorf("without the API server the client saw %d errors", failures)
	}
	begun = time.Now()
	killServer(leader)
	c.eventually("writes after a crash, without the API server", patience, func() bool {
		return l.Failed(begun) > 0 && l.Last().After(begun.Add(time.Second))
	})
	t.Logf("SIGKILL of the postmaster: %s without an acknowledged row", l.Gap(begun).Length().Round(time.Millisecond))
	leader.rejoin()
	c.settled()
	c.check(l)
}

// TestNoAPIServerWithOneDown takes the API server away when an instance has been down for longer than the Lease.
func TestNoAPIServerWithOneDown(t *testing.T) {
	c, l := newWritten(t, nil)
	leader := c.settled()
	down := c.other(leader)
	down.kill()
	c.eventually("the Lease not to list "+down.pod, patience, func() bool {
		_, record := c.lease()
		return record != nil && !strings.Contains(fmt.Sprint(record["instances"]), down.pod)
	})
	c.flows(l, time.Now())
	begun := time.Now()
	for _, i := range c.instances {
		i.cutOff("api")
	}
	time.Sleep(20 * time.Second)
	for _, i := range c.instances {
		i.rejoin()
	}
	c.flows(l, time.Now())
	c.leadsStill(leader)
	if failures := l.Failed(begun); failures > 0 {
		t.Errorf("the client saw %d errors", failures)
	}
	t.Logf("the longest time without an acknowledged row: %s", l.Gap(begun).Length().Round(time.Millisecond))
	down.start()
	c.settled()
	c.eventually("the Lease to list "+down.pod+" again", patience, func() bool {
		_, record := c.lease()
		return strings.Contains(fmt.Sprint(record["instances"]), down.pod)
	})
	c.check(l)
}

// TestReadOnlyAPI has the API server answer reads and refuse all writes: a policy engine that is down, an etcd that is full.
func TestReadOnlyAPI(t *testing.T) {
	c, l := newWritten(t, synchronous)
	leader := c.settled()
	c.flows(l, time.Now())
	begun := time.Now()
	writable := c.refuseWrites()
	time.Sleep(25 * time.Second)
	c.leadsStill(leader)
	writable()
	c.flows(l, time.Now())
	time.Sleep(5 * time.Second)
	c.leadsStill(leader)
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

// refuseWrites has the API server refuse all writes in the cluster's namespace, until the function that it returns is called.
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
