package postgresql

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// podProblem is why an instance doesn't serve, in the words of the kubelet, the scheduler or the agent, and what to do.
type podProblem struct {
	reason, message string
}

// annotationSelectedNode is where the scheduler notes the node of the pod for which a volume is made first.
const annotationSelectedNode = "volume.kubernetes.io/selected-node"

// podProblemOf says what is wrong with an instance that is not ready; nil when it is just starting. The message depends on
// nothing that changes from one attempt to the next, so that status is not written with every back-off.
func podProblemOf(in *instance) *podProblem {
	if in.pod == nil || in.terminating() || in.ready() {
		return nil
	}
	pod := in.pod
	if c := podCondition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
		return &podProblem{c.Reason, fmt.Sprintf("pod %s cannot be scheduled: %s", pod.Name, unschedulableMessage(in, c.Message))}
	}
	if pod.Status.Phase == corev1.PodFailed && pod.Status.Reason != "" {
		return &podProblem{pod.Status.Reason, fmt.Sprintf("pod %s failed: %s", pod.Name, pod.Status.Message)}
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if t := containerProblem(pod, &c); t != nil {
			return t
		}
	}
	return nil
}

func containerProblem(pod *corev1.Pod, c *corev1.ContainerStatus) *podProblem {
	if c.Ready {
		return nil
	}
	if w := c.State.Waiting; w != nil {
		switch w.Reason {
		case "", "ContainerCreating", "PodInitializing", "CrashLoopBackOff":
			// The first three are ordinary; a crash loop is reported below, where its exit code is known.
		case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull":
			// The kubelet goes back and forth between the attempt and the wait for the next one.
			reason := w.Reason
			if reason == "ErrImagePull" {
				reason = "ImagePullBackOff"
			}
			return &podProblem{reason, fmt.Sprintf("pod %s cannot pull image %q: check %s", pod.Name, c.Image, imageFrom(c.Name))}
		default:
			return &podProblem{w.Reason, fmt.Sprintf("container %s of pod %s cannot start: %s", c.Name, pod.Name, w.Message)}
		}
	}
	last := cmp.Or(c.State.Terminated, c.LastTerminationState.Terminated)
	if last == nil || c.RestartCount == 0 {
		return nil
	}
	if last.Reason == "OOMKilled" {
		return &podProblem{last.Reason, fmt.Sprintf("container %s of pod %s needs more memory than its limit: raise spec.resources.limits.memory", c.Name, pod.Name)}
	}
	return &podProblem{"CrashLoopBackOff", fmt.Sprintf("container %s of pod %s keeps exiting (%s, exit code %d): see kubectl logs --previous %s",
		c.Name, pod.Name, last.Reason, last.ExitCode, pod.Name)}
}

// unschedulableMessage says what keeps a pod from nodes, and what to do; problems of volumes are reported for the PVC.
func unschedulableMessage(in *instance, scheduler string) string {
	// What follows tells why it would not help to evict others.
	if first, _, more := strings.Cut(scheduler, ". "); more {
		scheduler = first + "."
	}
	switch {
	case in.unschedulable():
		return fmt.Sprintf("no node that takes pods can use its volume%s. It starts when such a node takes pods again: see kubectl get nodes, "+
			"and kubectl uncordon after a drain. The scheduler says: %s", madeFor(in.claim), scheduler)
	case strings.Contains(strings.ToLower(scheduler), "volume"):
		return scheduler
	}
	return scheduler + " See spec.resources, spec.nodeSelector, spec.affinity and spec.tolerations."
}

// madeFor names the node for which a volume was made, where that is known: the only one that can use a local volume.
func madeFor(claim *corev1.PersistentVolumeClaim) string {
	if node := claim.Annotations[annotationSelectedNode]; node != "" {
		return ", which was made for node " + node
	}
	return ""
}

// imageFrom says where the image of a container comes from.
func imageFrom(container string) string {
	if container == initContainer {
		return "that the nodes can reach the registry of the operator's image, and spec.imagePullSecrets"
	}
	return "spec.version, spec.image and spec.imagePullSecrets"
}

// agentMessage is what an agent says of an instance that does not serve; empty when it says nothing.
func agentMessage(s *agentapi.Status) string {
	if s == nil || s.Ready {
		return ""
	}
	return s.Message
}
