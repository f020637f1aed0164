package fakepg

import (
	"context"

	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (p *Kubelet) syncClaim(ctx context.Context, w *fixture, pod string) error {
	template := w.set.Spec.VolumeClaimTemplates[0]
	claim := &corev1.PersistentVolumeClaim{}
	found, err := p.get(ctx, types.NamespacedName{Namespace: w.set.Namespace, Name: template.Name + "-" + pod}, claim)
	if err != nil {
		return err
	}
	if !found {
		claim = &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Name: template.Name + "-" + pod, Namespace: w.set.Namespace, Labels: template.Labels}, Spec: *template.Spec.DeepCopy(),
		}
		if err := p.client.Create(ctx, claim); err != nil {
			return err
		}
	}
	if err := p.syncClaimOwner(ctx, w.set, claim); err != nil {
		return err
	}
	before := claim.DeepCopy()
	p.provision(claim, pod)
	if equality.Semantic.DeepEqual(before.Status, claim.Status) {
		return nil
	}
	return p.client.Status().Update(ctx, claim)
}

// syncClaimOwner makes the StatefulSet the owner of the claim if the retention policy is Delete.
func (p *Kubelet) syncClaimOwner(ctx context.Context, set *k8sappsv1.StatefulSet, claim *corev1.PersistentVolumeClaim) error {
	policy := set.Spec.PersistentVolumeClaimRetentionPolicy
	before := claim.DeepCopy()
	claim.OwnerReferences = nil
	if policy != nil && policy.WhenDeleted == k8sappsv1.DeletePersistentVolumeClaimRetentionPolicyType {
		ref := metav1.NewControllerRef(set, k8sappsv1.SchemeGroupVersion.WithKind("StatefulSet"))
		ref.Controller, ref.BlockOwnerDeletion = nil, nil
		claim.OwnerReferences = []metav1.OwnerReference{*ref}
	}
	if equality.Semantic.DeepEqual(before.OwnerReferences, claim.OwnerReferences) {
		return nil
	}
	return p.client.Patch(ctx, claim, client.MergeFrom(before))
}

// provision binds a claim and sets its capacity to the request.
func (p *Kubelet) provision(claim *corev1.PersistentVolumeClaim, pod string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	claim.Status.Conditions = nil
	message, stuck := p.ResizeErrors[pod]
	switch {
	case p.UnboundClaims[pod]:
		claim.Status.Phase = corev1.ClaimPending
	case stuck && claim.Status.Phase == corev1.ClaimBound:
		claim.Status.Conditions = []corev1.PersistentVolumeClaimCondition{
			{Type: corev1.PersistentVolumeClaimControllerResizeError, Status: corev1.ConditionTrue, Message: message},
		}
	default:
		claim.Status.Phase, claim.Status.Capacity = corev1.ClaimBound, claim.Spec.Resources.Requests
	}
}
