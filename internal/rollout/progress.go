package rollout

import (
	"time"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Phase of a rollout.
type Phase string

const (
	// Complete means that all pods have the current template and were available.
	Complete Phase = "Complete"
	// InProgress means that pods are being replaced.
	InProgress Phase = "InProgress"
	// Stuck means that the workload's controller reports no progress before its deadline.
	Stuck Phase = "Stuck"
	// Manual means that pods are replaced only when a person acts.
	Manual Phase = "Manual"
)

// Progress of the rollout of a workload's current template.
type Progress struct {
	Phase Phase
	// Message is why it is Stuck.
	Message string
	// Manual is why pods are replaced only when a person acts; "" if they are replaced automatically.
	Manual string
	// Pods is the desired number of pods.
	Pods int32

	// deadline is true if the workload's controller reports that it is Stuck.
	deadline bool
	// resetsOnPodFailure is true if a pod that fails later looks like an incomplete rollout.
	resetsOnPodFailure bool
	// since is when the workload's controller last reported a change.
	since time.Time
}

const (
	paused        = "is paused; its pods restart when it is resumed"
	onDelete      = "has the update strategy OnDelete; delete its pods to restart them"
	fullPartition = "has a partition that excludes all pods; lower it to restart them"
)

// ofDeployment trusts the Deployment's controller that a rollout was completed. Pods that fail later do not change that.
func ofDeployment(d *k8sappsv1.Deployment) Progress {
	p := Progress{Phase: InProgress, Pods: count(d.Spec.Replicas), deadline: true}
	s := &d.Status
	if d.Spec.Paused {
		p.Manual = paused
	}
	reason, message := "", ""
	for _, c := range s.Conditions {
		if c.Type == k8sappsv1.DeploymentProgressing {
			reason, message = c.Reason, c.Message
		}
	}
	switch {
	case s.ObservedGeneration < d.Generation:
	case s.Replicas == s.UpdatedReplicas && (reason == "NewReplicaSetAvailable" || (s.UpdatedReplicas >= p.Pods && s.AvailableReplicas >= p.Pods)):
		p.Phase = Complete
	case d.Spec.Paused:
		p.Phase = Manual
	case reason == "ProgressDeadlineExceeded":
		p.Phase, p.Message = Stuck, message
	}
	return p
}

func ofStatefulSet(s *k8sappsv1.StatefulSet) Progress {
	p := Progress{Phase: InProgress, Pods: count(s.Spec.Replicas)}
	partition := partitionOf(s)
	p.resetsOnPodFailure = partition > 0
	switch {
	case s.Spec.UpdateStrategy.Type == k8sappsv1.OnDeleteStatefulSetStrategyType:
		p.Manual = onDelete
	case partition > 0 && partition >= p.Pods:
		p.Manual = fullPartition
	}
	switch {
	case s.Status.ObservedGeneration < s.Generation:
	case statefulSetComplete(s, p, partition):
		p.Phase = Complete
	case p.Manual != "":
		p.Phase = Manual
	}
	return p
}

// statefulSetComplete compares the revisions, which stay equal when pods fail later. With OnDelete, the controller never sets them equal
// again.
func statefulSetComplete(s *k8sappsv1.StatefulSet, p Progress, partition int32) bool {
	switch {
	case s.Status.CurrentRevision == s.Status.UpdateRevision, p.Pods == 0:
		return true
	case p.Manual == onDelete:
		return s.Status.UpdatedReplicas >= p.Pods
	case p.Manual == "" && partition > 0:
		return s.Status.UpdatedReplicas >= p.Pods-partition && s.Status.ReadyReplicas >= p.Pods
	default:
		return false
	}
}

func partitionOf(s *k8sappsv1.StatefulSet) int32 {
	if r := s.Spec.UpdateStrategy.RollingUpdate; r != nil && r.Partition != nil {
		return *r.Partition
	}
	return 0
}

func ofDaemonSet(d *k8sappsv1.DaemonSet) Progress {
	s := &d.Status
	p := Progress{Phase: InProgress, Pods: s.DesiredNumberScheduled, resetsOnPodFailure: true}
	if d.Spec.UpdateStrategy.Type == k8sappsv1.OnDeleteDaemonSetStrategyType {
		p.Manual = onDelete
	}
	switch {
	case s.ObservedGeneration < d.Generation:
	case s.UpdatedNumberScheduled < s.DesiredNumberScheduled && p.Manual != "":
		p.Phase = Manual
	case s.UpdatedNumberScheduled >= s.DesiredNumberScheduled && s.NumberAvailable >= s.DesiredNumberScheduled:
		p.Phase = Complete
	}
	return p
}

// count returns the default 1 if the field is not set.
func count(replicas *int32) int32 {
	if replicas == nil {
		return 1
	}
	return *replicas
}

// progressingOnly keeps the only condition that counts.
func progressingOnly(conditions []k8sappsv1.DeploymentCondition) []k8sappsv1.DeploymentCondition {
	for _, c := range conditions {
		if c.Type == k8sappsv1.DeploymentProgressing && c.Status != corev1.ConditionUnknown {
			return []k8sappsv1.DeploymentCondition{{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message}}
		}
	}
	return nil
}
