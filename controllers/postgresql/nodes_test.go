package postgresql

import (
	"context"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestClosedTo(t *testing.T) {
	const (
		noSchedule = corev1.TaintEffectNoSchedule
		noExecute  = corev1.TaintEffectNoExecute
		exists     = corev1.TolerationOpExists
	)
	taint := func(key string, effect corev1.TaintEffect) []corev1.Taint {
		return []corev1.Taint{{Key: key, Effect: effect}}
	}
	db := []corev1.Taint{{Key: "dedicated", Value: "db", Effect: noSchedule}}
	for _, c := range []struct {
		name        string
		cordoned    bool
		taints      []corev1.Taint
		tolerations []corev1.Toleration
		want        bool
	}{
		{name: "open"},
		{name: "cordoned", cordoned: true, want: true},
		{name: "cordoned, by its taint", taints: taint(corev1.TaintNodeUnschedulable, noSchedule), want: true},
		{name: "Karpenter", taints: taint("karpenter.sh/disrupted", noSchedule), want: true},
		{name: "cluster-autoscaler", taints: taint("ToBeDeletedByClusterAutoscaler", noSchedule), want: true},
		{name: "cluster-autoscaler may take it later", taints: taint("DeletionCandidateOfClusterAutoscaler", corev1.TaintEffectPreferNoSchedule)},
		{name: "an administrator's", taints: taint("maintenance", noExecute), want: true},
		{name: "one of two", taints: append(taint("maintenance", noExecute), db...), tolerations: []corev1.Toleration{{Key: "dedicated", Operator: exists}}, want: true},
		{name: "it may stay", taints: db, tolerations: []corev1.Toleration{{Key: "dedicated", Value: "db"}}},
		{name: "it may stay on others", taints: db, tolerations: []corev1.Toleration{{Key: "dedicated", Value: "web"}}, want: true},
		{name: "it may be scheduled, but not stay", taints: taint("maintenance", noExecute), tolerations: []corev1.Toleration{{Key: "maintenance", Operator: exists, Effect: noSchedule}}, want: true},
		{name: "it may stay anywhere", taints: taint("maintenance", noExecute), tolerations: []corev1.Toleration{{Operator: exists}}},
		{name: "it may stay for a minute", taints: taint("maintenance", noExecute), tolerations: []corev1.Toleration{{Operator: exists, TolerationSeconds: new(int64(60))}}, want: true},
		{name: "it may stay at that level", taints: []corev1.Taint{{Key: "tier", Value: "7", Effect: noSchedule}}, tolerations: []corev1.Toleration{{Key: "tier", Operator: corev1.TolerationOpGt, Value: "5"}}},
		{name: "it may be anywhere and is cordoned", cordoned: true, tolerations: []corev1.Toleration{{Operator: exists}}, want: true},
		{name: "not ready", taints: append(taint(corev1.TaintNodeNotReady, noSchedule), taint(corev1.TaintNodeNotReady, noExecute)...)},
		{name: "unreachable", taints: append(taint(corev1.TaintNodeUnreachable, noSchedule), taint(corev1.TaintNodeUnreachable, noExecute)...)},
		{name: "without a network", taints: taint(corev1.TaintNodeNetworkUnavailable, noSchedule)},
		{name: "short of memory", taints: taint(corev1.TaintNodeMemoryPressure, noSchedule)},
		{name: "short of disk", taints: taint(corev1.TaintNodeDiskPressure, noSchedule)},
		{name: "short of processes", taints: taint(corev1.TaintNodePIDPressure, noSchedule)},
		{name: "not prepared by its cloud", taints: taint("node.cloudprovider.kubernetes.io/uninitialized", noSchedule)},
		{name: "shut down by its cloud", taints: taint("node.cloudprovider.kubernetes.io/shutdown", noSchedule)},
		{name: "not ready, and drained", taints: append(taint(corev1.TaintNodeNotReady, noSchedule), taint("maintenance", noSchedule)...), want: true},
		{name: "given up by a person", taints: taint(corev1.TaintNodeOutOfService, noExecute), want: true},
	} {
		node := &corev1.Node{Spec: corev1.NodeSpec{Unschedulable: c.cordoned, Taints: c.taints}}
		if got := closedTo(node, &corev1.Pod{Spec: corev1.PodSpec{Tolerations: c.tolerations}}); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

// nodeReader answers with a node, and counts how often.
type nodeReader struct {
	client.Reader
	closed bool
	count  int
}

func (r *nodeReader) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	r.count++
	if r.closed {
		object.(*corev1.Node).Spec.Taints = []corev1.Taint{{Key: "maintenance", Effect: corev1.TaintEffectNoExecute}}
	}
	return nil
}

// TestNodesAreAskedSeldom holds that a PostgreSQL that is looked at often does not have nodes read each time.
func TestNodesAreAskedSeldom(t *testing.T) {
	clock := testingclock.NewFakePassiveClock(time.Now())
	live := &nodeReader{closed: true}
	n := newNodes(live, clock)
	ask := func(want bool, reads int) {
		t.Helper()
		node, err := n.get(t.Context(), "n1")
		if err != nil {
			t.Fatal(err)
		}
		if got := closedTo(node, &corev1.Pod{}); got != want || live.count != reads {
			t.Errorf("closed: %v after %d reads; want %v after %d", got, live.count, want, reads)
		}
	}
	ask(true, 1)
	live.closed = false
	ask(true, 1)
	clock.SetTime(clock.Now().Add(nodesAge))
	ask(false, 2)
}
