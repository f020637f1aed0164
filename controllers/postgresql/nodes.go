package postgresql

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// unwell are the taints by which Kubernetes says what state a node is in. A node with one of them is not being drained: nobody
// asks for its pods to leave, and it may be well again in a moment. What becomes of a primary on a node that has failed is
// decided by the agents' election, and a node under pressure evicts by itself, whatever a budget says.
//
// All others close a node, also those of makers and administrators that nobody here knows. To take one for a drain that is none
// does little: the primary moves, and one more eviction is allowed, which somebody still has to ask for, while an instance waits
// for a node. Not to see a drain would block it.
var unwell = []string{
	corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable, corev1.TaintNodeNetworkUnavailable,
	corev1.TaintNodeMemoryPressure, corev1.TaintNodeDiskPressure, corev1.TaintNodePIDPressure,
	"node.cloudprovider.kubernetes.io/uninitialized", "node.cloudprovider.kubernetes.io/shutdown",
}

// closedTo reports whether the pod is to leave the node, or could not come back to it: it is cordoned, or has a taint that keeps
// the pod away.
func closedTo(node *corev1.Node, pod *corev1.Pod) bool {
	return node.Spec.Unschedulable || slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Effect != corev1.TaintEffectPreferNoSchedule && !slices.Contains(unwell, t.Key) && !tolerates(pod, &t)
	})
}

// tolerates reports whether the pod may stay in spite of the taint. One that may for a time only is to leave.
func tolerates(pod *corev1.Pod, taint *corev1.Taint) bool {
	return slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool {
		// Operators that compare numbers are in a pod only where the API server knows them.
		return t.TolerationSeconds == nil && t.ToleratesTaint(klog.Background(), taint, true)
	})
}

// nodesAge is how long it is believed whether a node takes pods.
const nodesAge = 5 * time.Second

// nodes knows which ones take pods. Nodes are not watched: they are asked for while an instance is stranded, which is seldom,
// and a cluster may have thousands. It is safe for concurrent use.
type nodes struct {
	live  client.Reader
	clock clock.PassiveClock

	mu   sync.Mutex
	seen map[string]seenNode
}

// seenNode is what matters of a node, which is large.
type seenNode struct {
	unschedulable bool
	taints        []corev1.Taint
	at            time.Time
}

func newNodes(live client.Reader, c clock.PassiveClock) *nodes {
	return &nodes{live: live, clock: c, seen: map[string]seenNode{}}
}

// get returns a node with nothing but what closes it. One that is gone, or that the operator may not read, is open.
func (n *nodes) get(ctx context.Context, name string) (*corev1.Node, error) {
	n.mu.Lock()
	known, ok := n.seen[name]
	n.mu.Unlock()
	if now := n.clock.Now(); ok && now.Sub(known.at) < nodesAge {
		return known.node(), nil
	}
	node := &corev1.Node{}
	err := n.live.Get(ctx, types.NamespacedName{Name: name}, node)
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
		return nil, fmt.Errorf("get node %q: %w", name, err)
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.clock.Now()
	for old, c := range n.seen {
		if now.Sub(c.at) >= nodesAge {
			delete(n.seen, old)
		}
	}
	known = seenNode{node.Spec.Unschedulable, node.Spec.Taints, now}
	n.seen[name] = known
	return known.node(), nil
}

func (s seenNode) node() *corev1.Node {
	return &corev1.Node{Spec: corev1.NodeSpec{Unschedulable: s.unschedulable, Taints: s.taints}}
}
