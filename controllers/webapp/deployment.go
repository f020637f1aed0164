package webapp

import (
	"fmt"
	"slices"
	"strings"
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
)

// wanted is the desired number of pods of the Deployment.
func wanted(d *k8sappsv1.Deployment) int32 {
	if d.Spec.Replicas == nil {
		return 1
	}
	return *d.Spec.Replicas
}

// complete reports whether the Deployment controller has observed the spec, and all pods run the current pod template and are
// available.
func complete(d *k8sappsv1.Deployment) bool {
	n := wanted(d)
	return d.Status.ObservedGeneration >= d.Generation &&
		d.Status.UpdatedReplicas == n && d.Status.Replicas == n && d.Status.AvailableReplicas == n
}

// replacing reports whether pods of the current pod template are missing, or older pods still exist.
func replacing(d *k8sappsv1.Deployment) bool {
	return d.Status.UpdatedReplicas < wanted(d) || d.Status.Replicas > d.Status.UpdatedReplicas
}

// scaling reports whether d has rolled out its pod template, and at least as many pods are available as the autoscaler's minimum.
// Pods that it just requested may still be starting.
func scaling(d *k8sappsv1.Deployment, least int32) bool {
	return d.Status.ObservedGeneration >= d.Generation && d.Status.UpdatedReplicas == d.Status.Replicas &&
		d.Status.AvailableReplicas >= min(least, wanted(d))
}

// readyRevision is the revision of d if its rollout is complete, otherwise "".
func readyRevision(d *k8sappsv1.Deployment) string {
	if d == nil || wanted(d) == 0 || !complete(d) {
		return ""
	}
	return d.Spec.Template.Annotations[annotationRevision]
}

func deadlineExceeded(d *k8sappsv1.Deployment) bool {
	c := deploymentCondition(d, k8sappsv1.DeploymentProgressing)
	return c != nil && c.Status == corev1.ConditionFalse && c.Reason == "ProgressDeadlineExceeded"
}

// replicaFailure says why pods can't be created; nil if they can.
func replicaFailure(d *k8sappsv1.Deployment) *conditionState {
	c := deploymentCondition(d, k8sappsv1.DeploymentReplicaFailure)
	if c == nil || c.Status != corev1.ConditionTrue {
		return nil
	}
	reason := appsv1.ReasonReplicaFailure
	if strings.Contains(c.Message, quotaText) {
		reason = quotaExceeded
	}
	v := no(reason, fmt.Sprintf("pods can't be created: %s", c.Message))
	return &v
}

func deploymentCondition(d *k8sappsv1.Deployment, t k8sappsv1.DeploymentConditionType) *k8sappsv1.DeploymentCondition {
	for i := range d.Status.Conditions {
		if d.Status.Conditions[i].Type == t {
			return &d.Status.Conditions[i]
		}
	}
	return nil
}

// current returns the pods of d's current pod template, without the failed ones (evicted, or lost with their node) that were
// replaced. Kubernetes keeps those for inspection.
func current(pods []corev1.Pod, d *k8sappsv1.Deployment) []corev1.Pod {
	hash := d.Spec.Template.Annotations[annotationRevision]
	var out []corev1.Pod
	var newest time.Time
	for i := range pods {
		if pods[i].Annotations[annotationRevision] == hash {
			out = append(out, pods[i])
			newest = latest(newest, pods[i].CreationTimestamp.Time)
		}
	}
	return slices.DeleteFunc(out, func(p corev1.Pod) bool {
		return p.Status.Phase == corev1.PodFailed && p.CreationTimestamp.Time.Before(newest)
	})
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
