package cache

import (
	"fmt"
	"maps"
	"strings"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ownPrefix is the prefix of Fettle's own annotations.
const ownPrefix = "fettle.dev/"

// Transforms run on every object that enters the cache; dropped fields cost no memory. They must accept their own output.

// trimBookkeeping drops the bookkeeping of clients, which is often larger than the object. A full update from a cached object would delete
// it on the server: all changes must be patches.
func trimBookkeeping(in any) (any, error) {
	object, ok := in.(metav1.Object)
	if !ok {
		return in, nil
	}
	if object.GetManagedFields() != nil {
		object.SetManagedFields(nil)
	}
	delete(object.GetAnnotations(), corev1.LastAppliedConfigAnnotation)
	return in, nil
}

// trimIdentity keeps the identity and the resourceVersion of the object.
func trimIdentity(in any) (any, error) {
	object, err := metadataOnly(in)
	if err != nil || object == nil {
		return in, err
	}
	object.ObjectMeta = identity(object.ObjectMeta)
	return object, nil
}

// trimToLabels keeps the labels too.
func trimToLabels(in any) (any, error) {
	object, err := metadataOnly(in)
	if err != nil || object == nil {
		return in, err
	}
	labels := object.Labels
	object.ObjectMeta = identity(object.ObjectMeta)
	object.Labels = labels
	return object, nil
}

// metadataOnly rejects complete objects of kinds whose contents must not be cached. It returns nil for a tombstone or another value that is
// not an object.
func metadataOnly(in any) (*metav1.PartialObjectMetadata, error) {
	if object, ok := in.(*metav1.PartialObjectMetadata); ok {
		return object, nil
	}
	if _, ok := in.(metav1.Object); ok {
		return nil, fmt.Errorf("%T must not be cached: watch its metadata, and read it by name from the API server", in)
	}
	return nil, nil
}

func identity(m metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: m.Name, Namespace: m.Namespace, UID: m.UID, ResourceVersion: m.ResourceVersion, Generation: m.Generation,
		CreationTimestamp: m.CreationTimestamp, DeletionTimestamp: m.DeletionTimestamp,
	}
}

// trimPod keeps the status of one of our pods: its owner, its template, its node and address, and the kubelet's report.
func trimPod(in any) (any, error) {
	pod, ok := in.(*corev1.Pod)
	if !ok {
		return in, nil
	}
	m := identity(pod.ObjectMeta)
	m.Labels, m.OwnerReferences = pod.Labels, pod.OwnerReferences
	maps.DeleteFunc(pod.Annotations, func(key, _ string) bool { return !strings.HasPrefix(key, ownPrefix) })
	m.Annotations = pod.Annotations
	pod.ObjectMeta = m
	pod.Spec = corev1.PodSpec{NodeName: pod.Spec.NodeName}
	pod.Status = corev1.PodStatus{
		Phase:                 pod.Status.Phase,
		Reason:                pod.Status.Reason,
		Message:               pod.Status.Message,
		PodIP:                 pod.Status.PodIP,
		Conditions:            pod.Status.Conditions,
		ContainerStatuses:     pod.Status.ContainerStatuses,
		InitContainerStatuses: pod.Status.InitContainerStatuses,
	}
	return pod, nil
}

// trimAutoscaler keeps the owner, the scale target, and the limits.
func trimAutoscaler(in any) (any, error) {
	scaler, ok := in.(*autoscalingv1.HorizontalPodAutoscaler)
	if !ok {
		return in, nil
	}
	m := identity(scaler.ObjectMeta)
	m.OwnerReferences = scaler.OwnerReferences
	scaler.ObjectMeta = m
	scaler.Spec.TargetCPUUtilizationPercentage = nil
	scaler.Status = autoscalingv1.HorizontalPodAutoscalerStatus{}
	return scaler, nil
}
