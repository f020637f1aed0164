package fakepg

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// schedule binds a pod to the node of its volume, or returns the scheduler's message why that node is not possible.
func (p *Kubelet) schedule(ctx context.Context, pod *corev1.Pod) (closed string, err error) {
	p.mu.Lock()
	name := p.VolumeNodes[pod.Name]
	p.mu.Unlock()
	if name == "" || pod.Spec.NodeName != "" {
		return "", nil
	}
	node := &corev1.Node{}
	if err := p.client.Get(ctx, types.NamespacedName{Name: name}, node); err != nil {
		return "", err
	}
	elsewhere := "0/2 nodes are available: 1 node(s) didn't match PersistentVolume's node affinity, "
	switch {
	case node.Spec.Unschedulable:
		return elsewhere + "1 node(s) were unschedulable.", nil
	case tainted(node):
		return elsewhere + "1 node(s) had untolerated taint(s).", nil
	}
	err = p.client.SubResource("binding").Create(ctx, pod.DeepCopy(), &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name, UID: pod.UID}, Target: corev1.ObjectReference{Kind: "Node", Name: name},
	})
	if err != nil {
		return "", fmt.Errorf("bind %s to %s: %w", pod.Name, name, err)
	}
	return "", p.client.Get(ctx, client.ObjectKeyFromObject(pod), pod)
}

// tainted returns whether a node has a taint that pods do not tolerate. The API server adds a not-ready taint to each node,
// which no kubelet removes here: it does not count.
func tainted(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Key != corev1.TaintNodeNotReady && t.Effect != corev1.TaintEffectPreferNoSchedule
	})
}

// Evict evicts a pod like a drain. apierrors.IsTooManyRequests means that the PodDisruptionBudget does not allow it yet.
// The precondition is the version of the pod that was passed.
func (p *Kubelet) Evict(ctx context.Context, pod *corev1.Pod) error {
	// The client retries rejected requests for longer than the budget's status is valid.
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	allowed, err := p.syncBudget(ctx, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Labels[labelOwner]})
	if err != nil {
		return err
	}
	if !allowed && isReady(pod) {
		return apierrors.NewTooManyRequests("the budget does not allow it", 1)
	}
	return p.client.SubResource("eviction").Create(ctx, pod, &policyv1.Eviction{
		ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{
			GracePeriodSeconds: new(int64(0)), Preconditions: &metav1.Preconditions{UID: &pod.UID, ResourceVersion: &pod.ResourceVersion},
		},
	})
}

// syncBudget computes the status of the PodDisruptionBudget like its controller, and returns whether an eviction is
// allowed.
func (p *Kubelet) syncBudget(ctx context.Context, key types.NamespacedName) (allowed bool, err error) {
	budget := &policyv1.PodDisruptionBudget{}
	if err := p.client.Get(ctx, key, budget); err != nil {
		return true, client.IgnoreNotFound(err)
	}
	selector, err := metav1.LabelSelectorAsSelector(budget.Spec.Selector)
	if err != nil {
		return false, err
	}
	pods := &corev1.PodList{}
	if err := p.client.List(ctx, pods, client.InNamespace(key.Namespace), client.MatchingLabelsSelector{Selector: selector}); err != nil {
		return false, err
	}
	w, err := p.observe(ctx, key)
	if err != nil || w.set == nil {
		return false, err
	}
	st := &budget.Status
	st.ObservedGeneration, st.DisruptedPods, st.CurrentHealthy = budget.Generation, nil, 0
	for i := range pods.Items {
		if isReady(&pods.Items[i]) && pods.Items[i].DeletionTimestamp == nil {
			st.CurrentHealthy++
		}
	}
	st.ExpectedPods = *w.set.Spec.Replicas
	st.DesiredHealthy = max(0, st.ExpectedPods-budget.Spec.MaxUnavailable.IntVal)
	st.DisruptionsAllowed = max(0, st.CurrentHealthy-st.DesiredHealthy)
	err = p.client.Status().Update(ctx, budget)
	if apierrors.IsConflict(err) {
		return false, nil // it has changed
	}
	return st.DisruptionsAllowed > 0, err
}
