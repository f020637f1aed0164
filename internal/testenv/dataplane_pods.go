package testenv

import (
	"context"
	"fmt"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// syncPods creates one waiting pod if the Deployment's rollout waits, and removes it otherwise.
func (d *DataPlane) syncPods(ctx context.Context, deployment *k8sappsv1.Deployment, rollout Rollout) error {
	pods := d.client.CoreV1().Pods(deployment.Namespace)
	name := deployment.Name + "-fake-0"
	if rollout.Waiting == "" {
		if !d.hasRollout(client.ObjectKeyFromObject(deployment)) {
			return nil
		}
		err := pods.Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: new(int64(0))})
		return client.IgnoreNotFound(err)
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: deployment.Spec.Template.Labels, Annotations: deployment.Spec.Template.Annotations,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: k8sappsv1.SchemeGroupVersion.String(), Kind: "ReplicaSet", Name: deployment.Name + "-fake",
				UID: deployment.UID, Controller: new(true),
			}},
		},
		Spec: *deployment.Spec.Template.Spec.DeepCopy(),
	}
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create the waiting pod: %w", err)
	}
	pod, err := pods.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("read the waiting pod: %w", err)
	}
	if len(pod.Status.ContainerStatuses) > 0 && pod.Status.ContainerStatuses[0].State.Waiting.Reason == rollout.Waiting {
		return nil
	}
	pod.Status = waitingStatus(pod, rollout)
	_, err = pods.UpdateStatus(ctx, pod, metav1.UpdateOptions{})
	return err
}

// hasRollout returns whether Set was called for this Deployment. Only then there can be a pod.
func (d *DataPlane) hasRollout(key client.ObjectKey) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, known := d.rollouts[key]
	return known
}

func waitingStatus(pod *corev1.Pod, rollout Rollout) corev1.PodStatus {
	container := pod.Spec.Containers[0]
	return corev1.PodStatus{
		Phase: corev1.PodPending,
		Conditions: []corev1.PodCondition{{
			Type: corev1.ContainersReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady",
			Message: "containers with unready status: [" + container.Name + "]",
		}, {
			Type: corev1.PodReady, Status: corev1.ConditionFalse, Reason: "ContainersNotReady",
			Message: "containers with unready status: [" + container.Name + "]",
		}},
		ContainerStatuses: []corev1.ContainerStatus{{
			Name: container.Name, Image: container.Image,
			State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: rollout.Waiting, Message: rollout.Message}},
		}},
	}
}
