package postgresql

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/fettle-dev/fettle/internal/postgres/peer"
)

// trouble is why an instance doesn't serve, in the words of the kubelet, the scheduler or the agent, and what to do.
type trouble struct {
	reason, message string
}

// troubleOf says what is wrong with an instance that is not ready; nil when it is just starting. The message depends on
// nothing that changes from one attempt to the next, so that status is not written with every back-off.
func troubleOf(in *instance) *trouble {
	if in.pod == nil || in.terminating() || in.ready() {
		return nil
	}
	pod := in.pod
	if c := podCondition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
		return &trouble{c.Reason, fmt.Sprintf("pod %s can't be scheduled: %s", pod.Name, c.Message) + placementAdvice(in, c.Message)}
	}
	if pod.Status.Phase == corev1.PodFailed && pod.Status.Reason != "" {
		return &trouble{pod.Status.Reason, fmt.Sprintf("pod %s failed: %s", pod.Name, pod.Status.Message)}
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if t := containerTrouble(pod, &c); t != nil {
			return t
		}
	}
	return nil
}

func containerTrouble(pod *corev1.Pod, c *corev1.ContainerStatus) *trouble {
	if c.Ready {
		return nil
	}
	if w := c.State.Waiting; w != nil {
		switch w.Reason {
		case "", "ContainerCreating", "PodInitializing", "CrashLoopBackOff":
			// The first three are ordinary; a crash loop is told below, where its exit code is known.
		case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull":
			// The kubelet goes back and forth between the attempt and the wait for the next one.
			reason := w.Reason
			if reason == "ErrImagePull" {
				reason = "ImagePullBackOff"
			}
			return &trouble{reason, fmt.Sprintf("pod %s can't pull image %q: check %s", pod.Name, c.Image, imageFrom(c.Name))}
		default:
			return &trouble{w.Reason, fmt.Sprintf("container %s of pod %s can't start: %s", c.Name, pod.Name, w.Message)}
		}
	}
	last := cmp.Or(c.State.Terminated, c.LastTerminationState.Terminated)
	if last == nil || c.RestartCount == 0 {
		return nil
	}
	if last.Reason == "OOMKilled" {
		return &trouble{last.Reason, fmt.Sprintf("container %s of pod %s needs more memory than its limit: raise spec.resources.limits.memory", c.Name, pod.Name)}
	}
	return &trouble{"CrashLoopBackOff", fmt.Sprintf("container %s of pod %s keeps ending (%s, exit code %d): see kubectl logs --previous %s",
		c.Name, pod.Name, last.Reason, last.ExitCode, pod.Name)}
}

// placementAdvice says what keeps pods from nodes; what is wrong with volumes is told of the claim.
func placementAdvice(in *instance, scheduler string) string {
	if in.stranded() {
		return " It starts when a node takes pods again from which its volume can be used: see kubectl get nodes."
	}
	if strings.Contains(strings.ToLower(scheduler), "volume") {
		return ""
	}
	return " See spec.resources, spec.nodeSelector, spec.affinity and spec.tolerations."
}

// imageFrom says where the image of a container comes from.
func imageFrom(container string) string {
	if container == initContainer {
		return "that the nodes can reach the registry of the operator's image, and spec.imagePullSecrets"
	}
	return "spec.version, spec.image and spec.imagePullSecrets"
}

// told is what an agent says of an instance that does not serve; empty when it says nothing.
func told(s *peer.Status) string {
	if s == nil || s.Ready {
		return ""
	}
	return s.Message
}
