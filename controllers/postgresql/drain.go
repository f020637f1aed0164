package postgresql

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/podproblem"
)

// A drain evicts all pods of a node, and each eviction waits for the PodDisruptionBudget: one instance may be away at a time.
// Where volumes are bound to the node, the first that was evicted can't come back before the drain is over, and the drain
// would wait for ever for the others. So those that can't come back are not counted while others are to leave their nodes
// too. The primary is moved away from such a node first, if there is an instance elsewhere.

// handoverTimeout is how long an eviction waits for the primary to be moved. It bounds what a switchover that can't succeed holds up.
const handoverTimeout = 2 * time.Minute

// unschedulable is true for an instance that no node takes, although its volume is there: it has to wait for a node.
func (i *instance) unschedulable() bool {
	if i.pod == nil || i.terminating() || i.pod.Spec.NodeName != "" || i.claim == nil || i.claim.Status.Phase != corev1.ClaimBound {
		return false
	}
	message, unschedulable := podproblem.Unschedulable(i.pod)
	return unschedulable && nodesClosed(message)
}

// nodesClosed is true where the scheduler says that nodes are closed, or that the volume is elsewhere. Some nodes have a taint all the
// time: where another one only lacks room, the instance waits for room.
func nodesClosed(scheduler string) bool {
	said := strings.ToLower(scheduler)
	return strings.Contains(said, "volume") || strings.Contains(said, "unschedulable") ||
		strings.Contains(said, "untolerated taint") && !strings.Contains(said, "insufficient")
}

// unschedulable are the instances that wait for a node, and since when the last of them does.
func (c *cluster) unschedulable() (count int, since time.Time) {
	for i := range c.instances {
		if in := &c.instances[i]; in.unschedulable() {
			count++
			if at := podproblem.Condition(in.pod, corev1.PodScheduled).LastTransitionTime.Time; at.After(since) {
				since = at
			}
		}
	}
	return count, since
}

// failoverTarget is the instance that takes over from a primary that is to leave its node, which others did that can't come back; nil
// where the primary may stay, or no standby elsewhere can take over.
func (c *cluster) failoverTarget() *instance {
	primary, to := c.primary(), c.successor(maxInstances)
	if count, _ := c.unschedulable(); count == 0 || primary == nil || !primary.onClosedNode || to == nil || to.onClosedNode {
		return nil
	}
	return to
}

// failoverTargetStarting is true while the primary is to leave its node, and an instance that may stay is on its way: after each change of the
// primary the others are not ready for a moment.
func (c *cluster) failoverTargetStarting() bool {
	primary := c.primary()
	return primary != nil && primary.onClosedNode && slices.ContainsFunc(c.instances, func(i instance) bool {
		return i.pod != nil && i.pod.Spec.NodeName != "" && !i.terminating() && !i.ready() && !i.fenced && !i.onClosedNode
	})
}

// moveOffDrainingNode moves the primary away from a node that is being drained.
func moveOffDrainingNode(c *cluster) Step {
	to := c.failoverTarget()
	if to == nil {
		return Step{}
	}
	return switchover(to, fmt.Sprintf("the node of %s is being drained, and the instances evicted before cannot be scheduled yet", c.primary().name))
}

// extraDisruptions is how many instances may be away beside the one that always may.
func extraDisruptions(c *cluster, now time.Time) int {
	count, since := c.unschedulable()
	leaving := false
	for i := range c.instances {
		leaving = leaving || c.instances[i].onClosedNode && c.instances[i].ready()
	}
	if !leaving {
		return 0
	}
	if now.Sub(since) < handoverTimeout && (c.primary() == nil || c.failoverTarget() != nil) {
		return 0
	}
	if now.Sub(since) < handoverTimeout && c.failoverTargetStarting() {
		return 0
	}
	return count
}

// checkNodes finds out which instances are to leave their nodes, while others can't come back.
func (r *Reconciler) checkNodes(ctx context.Context, pg *databasev1alpha1.PostgreSQL, c *cluster) error {
	if count, _ := c.unschedulable(); count == 0 || !wantsPDB(pg) {
		return nil
	}
	for _, in := range c.running() {
		if in.pod.Spec.NodeName != "" && !in.terminating() {
			node, err := r.nodes.get(ctx, in.pod.Spec.NodeName)
			if err != nil {
				return err
			}
			in.onClosedNode = closedTo(node, in.pod)
		}
	}
	return nil
}
