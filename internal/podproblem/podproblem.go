// Package podproblem says in one sentence why a pod is not ready, and what to check, for the status of the kinds that run pods.
package podproblem

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

const (
	reasonBackOff     = "ImagePullBackOff"
	reasonCrashLoop   = "CrashLoopBackOff"
	reasonOutOfMemory = "OOMKilled"
)

// Problem is the reason why a pod is not ready, as the kubelet or the scheduler reports it.
type Problem struct {
	Reason, Message string
}

// Of returns the problem of a pod; nil if the pod is ready, is terminating or is just starting. The message does not change from one
// attempt to the next, so that a back-off does not cause status writes.
func Of(pod *corev1.Pod) *Problem {
	if pod.DeletionTimestamp != nil || IsTrue(pod, corev1.PodReady) {
		return nil
	}
	if message, ok := Unschedulable(pod); ok {
		if !strings.Contains(strings.ToLower(message), "volume") { // the problem of a volume is reported by its claim
			message += " See spec.resources, spec.nodeSelector, spec.affinity and spec.tolerations."
		}
		return &Problem{corev1.PodReasonUnschedulable, fmt.Sprintf("pod %s cannot be scheduled: %s", pod.Name, message)}
	}
	if pod.Status.Phase == corev1.PodFailed && pod.Status.Reason != "" {
		return &Problem{pod.Status.Reason, fmt.Sprintf("pod %s failed: %s", pod.Name, pod.Status.Message)}
	}
	for _, c := range slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses) {
		if p := ofContainer(pod, &c); p != nil {
			return p
		}
	}
	return nil
}

func ofContainer(pod *corev1.Pod, c *corev1.ContainerStatus) *Problem {
	if c.Ready {
		return nil
	}
	if w := c.State.Waiting; w != nil {
		switch w.Reason {
		case "", "ContainerCreating", "PodInitializing", reasonCrashLoop:
			// The first three are normal. A crash loop is reported below, where its exit code is known.
		case "ErrImagePull", reasonBackOff, "InvalidImageName", "ErrImageNeverPull":
			// The kubelet alternates between the attempt and the wait for the next one.
			reason := w.Reason
			if reason == "ErrImagePull" {
				reason = reasonBackOff
			}
			return &Problem{reason, fmt.Sprintf("pod %s cannot pull image %q: check its name and tag, spec.imagePullSecrets, and that the nodes can reach the registry",
				pod.Name, c.Image)}
		default:
			return &Problem{w.Reason, fmt.Sprintf("container %s of pod %s cannot start: %s", c.Name, pod.Name, w.Message)}
		}
	}
	last := cmp.Or(c.State.Terminated, c.LastTerminationState.Terminated)
	if last == nil || c.RestartCount == 0 {
		return nil
	}
	if last.Reason == reasonOutOfMemory {
		return &Problem{last.Reason, fmt.Sprintf("container %s of pod %s needs more memory than its limit: raise spec.resources.limits.memory", c.Name, pod.Name)}
	}
	return &Problem{reasonCrashLoop, fmt.Sprintf("container %s of pod %s keeps exiting (%s, exit code %d): check kubectl logs --previous %s",
		c.Name, pod.Name, last.Reason, last.ExitCode, pod.Name)}
}

// Unschedulable reports whether the scheduler found no node for the pod, and its reason. What the scheduler adds about evictions, which
// would not help, is left out.
func Unschedulable(pod *corev1.Pod) (message string, ok bool) {
	c := Condition(pod, corev1.PodScheduled)
	if c == nil || c.Status != corev1.ConditionFalse || c.Reason != corev1.PodReasonUnschedulable {
		return "", false
	}
	if first, _, more := strings.Cut(c.Message, ". "); more {
		return first + ".", true
	}
	return c.Message, true
}

// IsTrue reports whether a condition of the pod is True.
func IsTrue(pod *corev1.Pod, conditionType corev1.PodConditionType) bool {
	c := Condition(pod, conditionType)
	return c != nil && c.Status == corev1.ConditionTrue
}

// Condition returns a condition of the pod; nil if the pod has none of that type.
func Condition(pod *corev1.Pod, conditionType corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == conditionType {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}
