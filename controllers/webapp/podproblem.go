package webapp

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// neverReadyWithin is the time after a pod's creation within which its Ready condition is first written. A later transition means
// that the pod was ready once.
const neverReadyWithin = 10 * time.Second

// podProblem is the reason why a pod is not ready, as the kubelet or the scheduler reports it.
type podProblem struct {
	reason, message string
}

// worstPodProblem returns the worst problem of pods that are not ready; nil if they are just starting. The message does not change
// from one attempt to the next, so that a back-off does not cause status writes.
func worstPodProblem(pods []corev1.Pod) *podProblem {
	byName := slices.SortedFunc(slices.Values(pods), func(a, b corev1.Pod) int { return cmp.Compare(a.Name, b.Name) })
	for i := range byName {
		if p := &byName[i]; p.DeletionTimestamp == nil && !podReady(p) {
			if t := problemOf(p); t != nil {
				return t
			}
		}
	}
	return nil
}

// starting reports whether no unready pod was ever ready.
func starting(pods []corev1.Pod) bool {
	for i := range pods {
		c := podCondition(&pods[i], corev1.PodReady)
		if c == nil || c.Status == corev1.ConditionTrue || pods[i].DeletionTimestamp != nil {
			continue
		}
		if c.LastTransitionTime.Sub(pods[i].CreationTimestamp.Time) > neverReadyWithin {
			return false
		}
	}
	return true
}

func problemOf(p *corev1.Pod) *podProblem {
	if c := podCondition(p, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse && c.Reason == corev1.PodReasonUnschedulable {
		return &podProblem{c.Reason, fmt.Sprintf("pod %s can't be scheduled: %s", p.Name, c.Message)}
	}
	if p.Status.Phase == corev1.PodFailed && p.Status.Reason != "" {
		return &podProblem{p.Status.Reason, fmt.Sprintf("pod %s failed: %s", p.Name, p.Status.Message)}
	}
	for _, list := range [][]corev1.ContainerStatus{p.Status.InitContainerStatuses, p.Status.ContainerStatuses} {
		for i := range list {
			if t := containerProblem(p, &list[i]); t != nil {
				return t
			}
		}
	}
	return nil
}

func containerProblem(p *corev1.Pod, c *corev1.ContainerStatus) *podProblem {
	if c.Ready {
		return nil
	}
	if w := c.State.Waiting; w != nil {
		switch w.Reason {
		case "", "ContainerCreating", "PodInitializing", "CrashLoopBackOff":
			// The first three are normal. A crash loop is reported below, where its exit code is known.
		case "ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull":
			// The kubelet alternates between the attempt and the wait for the next one.
			reason := w.Reason
			if reason == "ErrImagePull" {
				reason = "ImagePullBackOff"
			}
			return &podProblem{reason, fmt.Sprintf("pod %s can't pull image %q: check its name, its tag and the pull Secret", p.Name, c.Image)}
		default:
			return &podProblem{w.Reason, fmt.Sprintf("container %s of pod %s can't start: %s", c.Name, p.Name, w.Message)}
		}
	}
	last := cmp.Or(c.State.Terminated, c.LastTerminationState.Terminated)
	if last == nil || c.RestartCount == 0 {
		return nil
	}
	reason := "CrashLoopBackOff"
	if last.Reason == "OOMKilled" {
		reason = last.Reason
	}
	return &podProblem{reason, fmt.Sprintf("container %s of pod %s keeps exiting (%s, exit code %d): check kubectl logs --previous %s",
		c.Name, p.Name, last.Reason, last.ExitCode, p.Name)}
}

func podReady(p *corev1.Pod) bool {
	c := podCondition(p, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

func podCondition(p *corev1.Pod, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range p.Status.Conditions {
		if p.Status.Conditions[i].Type == t {
			return &p.Status.Conditions[i]
		}
	}
	return nil
}
