package postgresql

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/fettle-dev/fettle/internal/podproblem"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// annotationSelectedNode is where the scheduler notes the node of the pod for which a volume is made first.
const annotationSelectedNode = "volume.kubernetes.io/selected-node"

// podProblemOf says what is wrong with the pod of an instance that is not ready; nil when it is just starting.
func podProblemOf(in *instance) *podproblem.Problem {
	switch {
	case in.pod == nil || in.ready():
		return nil
	case !in.unschedulable():
		return podproblem.Of(in.pod)
	}
	scheduler, _ := podproblem.Unschedulable(in.pod)
	return &podproblem.Problem{Reason: corev1.PodReasonUnschedulable, Message: fmt.Sprintf("pod %s cannot be scheduled: no node that takes pods can use its volume%s. "+
		"It starts when such a node takes pods again: see kubectl get nodes, and kubectl uncordon after a drain. The scheduler says: %s",
		in.pod.Name, madeFor(in.claim), scheduler)}
}

// madeFor names the node for which a volume was made, where that is known: the only one that can use a local volume.
func madeFor(claim *corev1.PersistentVolumeClaim) string {
	if node := claim.Annotations[annotationSelectedNode]; node != "" {
		return ", which was made for node " + node
	}
	return ""
}

// agentMessage is what an agent says of an instance that does not serve; empty when it says nothing.
func agentMessage(s *agentapi.Status) string {
	if s == nil || s.Ready {
		return ""
	}
	return s.Message
}
