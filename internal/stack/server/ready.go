package server

import (
	"fmt"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/podproblem"
)

// Ready is the state of a server from its StatefulSet, nil if there is none, and its pods. It is True if the pod of the current version
// passes its probes, False with the problem of the pod, and Unknown while the pod is created or replaced.
func Ready(set *k8sappsv1.StatefulSet, pods []corev1.Pod) conditions.State {
	switch {
	case set == nil:
		return conditions.Unknown(fettlev1.ReasonReconciling, "the StatefulSet is not created yet")
	case set.DeletionTimestamp != nil:
		return conditions.False(fettlev1.ReasonTerminating, "StatefulSet "+set.Name+" is being deleted")
	case set.Status.ObservedGeneration < set.Generation:
		return conditions.Unknown(fettlev1.ReasonReconciling, "waiting for Kubernetes to apply StatefulSet "+set.Name)
	}
	pod := podOf(set, pods)
	switch {
	case pod == nil:
		return conditions.Unknown(fettlev1.ReasonReconciling, fmt.Sprintf(
			"pod %s-0 is not created yet. If it takes long, check kubectl describe statefulset %s", set.Name, set.Name))
	case pod.DeletionTimestamp != nil:
		return conditions.Unknown(fettlev1.ReasonReconciling, fmt.Sprintf(
			"pod %s stops, and starts again afterwards. If it takes long, check node %s: after the loss of the node, give it the taint node.kubernetes.io/out-of-service",
			pod.Name, pod.Spec.NodeName))
	case pod.Labels[k8sappsv1.ControllerRevisionHashLabelKey] != set.Status.UpdateRevision:
		return conditions.Unknown(fettlev1.ReasonReconciling, "pod "+pod.Name+" is about to restart in its new version")
	case podproblem.IsTrue(pod, corev1.PodReady):
		return conditions.True(fettlev1.Ready, "")
	}
	if p := problemOf(pod); p != nil {
		return conditions.False(p.Reason, p.Message)
	}
	if hasStarted(pod) {
		return conditions.False(appsv1.ReasonUnavailable, fmt.Sprintf("pod %s runs, but fails its readiness probe: check kubectl describe pod %s, kubectl logs %s, and its node %s",
			pod.Name, pod.Name, pod.Name, pod.Spec.NodeName))
	}
	return conditions.Unknown(fettlev1.ReasonReconciling, "pod "+pod.Name+" is starting")
}

// podOf is the pod of the StatefulSet, and not that of a former one with the same name; nil if there is none.
func podOf(set *k8sappsv1.StatefulSet, pods []corev1.Pod) *corev1.Pod {
	for i := range pods {
		owner := metav1.GetControllerOfNoCopy(&pods[i])
		if pods[i].Name == set.Name+"-0" && (owner == nil || owner.UID == set.UID) {
			return &pods[i]
		}
	}
	return nil
}

// problemOf is the problem of a pod in the words of a component, which has fewer fields than a WebApp; nil if it is just starting.
func problemOf(pod *corev1.Pod) *podproblem.Problem {
	if message, ok := podproblem.Unschedulable(pod); ok {
		return &podproblem.Problem{Reason: corev1.PodReasonUnschedulable, Message: fmt.Sprintf("pod %s cannot be scheduled: %s", pod.Name, message)}
	}
	p := podproblem.Of(pod)
	if p == nil {
		return nil
	}
	switch p.Reason {
	case "OOMKilled":
		field := "resources.limits.memory"
		if pod.Spec.Containers[0].Name == cacheContainer {
			field = "memory"
		}
		p.Message = fmt.Sprintf("pod %s needs more memory than its limit: raise %s of the component", pod.Name, field)
	case "ImagePullBackOff", "InvalidImageName", "ErrImageNeverPull":
		p.Message = fmt.Sprintf("pod %s cannot pull image %q: check version and image of the component, and that the nodes can reach the registry",
			pod.Name, pod.Spec.Containers[0].Image)
	}
	return p
}

// hasStarted reports whether the server passed its startup probe since its last start.
func hasStarted(pod *corev1.Pod) bool {
	for _, c := range pod.Status.ContainerStatuses {
		if c.Started == nil || !*c.Started {
			return false
		}
	}
	return len(pod.Status.ContainerStatuses) > 0
}
