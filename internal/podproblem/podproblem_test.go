package podproblem

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func podWith(change func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web-1"}}
	change(p)
	return p
}

func waitsFor(reason, message string, restarts int32) *corev1.Pod {
	return podWith(func(p *corev1.Pod) {
		c := corev1.ContainerStatus{Name: "app", Image: "nginx:1", RestartCount: restarts}
		c.State.Waiting = &corev1.ContainerStateWaiting{Reason: reason, Message: message}
		if restarts > 0 {
			c.LastTerminationState.Terminated = &corev1.ContainerStateTerminated{Reason: "Error", ExitCode: 3}
		}
		p.Status.ContainerStatuses = []corev1.ContainerStatus{c}
	})
}

func unscheduled(message string) *corev1.Pod {
	return podWith(func(p *corev1.Pod) {
		p.Status.Conditions = []corev1.PodCondition{
			{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable, Message: message},
		}
	})
}

func TestOf(t *testing.T) {
	const (
		pull   = `pod web-1 cannot pull image "nginx:1": check its name and tag, spec.imagePullSecrets, and that the nodes can reach the registry`
		exits  = "container app of pod web-1 keeps exiting (Error, exit code 3): check kubectl logs --previous web-1"
		fields = " See spec.resources, spec.nodeSelector, spec.affinity and spec.tolerations."
	)
	killed := waitsFor("CrashLoopBackOff", "", 1)
	killed.Status.ContainerStatuses[0].LastTerminationState.Terminated.Reason = "OOMKilled"
	ready := waitsFor("ImagePullBackOff", "", 0)
	ready.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}
	terminating := waitsFor("ImagePullBackOff", "", 0)
	terminating.DeletionTimestamp = &metav1.Time{}
	for name, c := range map[string]struct {
		pod  *corev1.Pod
		want *Problem
	}{
		"just created":            {podWith(func(*corev1.Pod) {}), nil},
		"starting":                {waitsFor("ContainerCreating", "", 0), nil},
		"exited once":             {waitsFor("CrashLoopBackOff", "", 0), nil},
		"keeps exiting":           {waitsFor("CrashLoopBackOff", "back-off 10s", 1), &Problem{"CrashLoopBackOff", exits}},
		"the next attempt":        {waitsFor("CrashLoopBackOff", "back-off 5m", 40), &Problem{"CrashLoopBackOff", exits}},
		"out of memory":           {killed, &Problem{"OOMKilled", "container app of pod web-1 needs more memory than its limit: raise spec.resources.limits.memory"}},
		"image":                   {waitsFor("ImagePullBackOff", "x", 0), &Problem{"ImagePullBackOff", pull}},
		"image, the next attempt": {waitsFor("ErrImagePull", "y", 0), &Problem{"ImagePullBackOff", pull}},
		"image name":              {waitsFor("InvalidImageName", "", 0), &Problem{"InvalidImageName", pull}},
		"configuration": {waitsFor("CreateContainerConfigError", `secret "a" not found`, 0),
			&Problem{"CreateContainerConfigError", `container app of pod web-1 cannot start: secret "a" not found`}},
		"evicted": {podWith(func(p *corev1.Pod) {
			p.Status = corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted", Message: "no disk"}
		}), &Problem{"Evicted", "pod web-1 failed: no disk"}},
		"no room": {unscheduled("3 Insufficient cpu. no new claims to deallocate, preemption: 3 Preemption is not helpful."),
			&Problem{"Unschedulable", "pod web-1 cannot be scheduled: 3 Insufficient cpu." + fields}},
		"no volume":   {unscheduled("unbound PersistentVolumeClaims."), &Problem{"Unschedulable", "pod web-1 cannot be scheduled: unbound PersistentVolumeClaims."}},
		"ready":       {ready, nil},
		"terminating": {terminating, nil},
	} {
		if diff := cmp.Diff(c.want, Of(c.pod)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
