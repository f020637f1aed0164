package fakepg

import (
	"context"
	"slices"

	k8sappsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
)

// owned are the kinds that a PostgreSQL or a StatefulSet may own.
var owned = []schema.GroupVersionKind{
	k8sappsv1.SchemeGroupVersion.WithKind("StatefulSet"), coordinationv1.SchemeGroupVersion.WithKind("Lease"),
	corev1.SchemeGroupVersion.WithKind("Service"), corev1.SchemeGroupVersion.WithKind("Secret"), corev1.SchemeGroupVersion.WithKind("ServiceAccount"),
	rbacv1.SchemeGroupVersion.WithKind("Role"), rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"),
	networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"), corev1.SchemeGroupVersion.WithKind("Pod"), corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"),
}

// collectGarbage deletes the dependents of a deleted PostgreSQL or StatefulSet. It does nothing while both exist.
func (p *Kubelet) collectGarbage(ctx context.Context, w *fixture) error {
	var alive []types.UID
	if w.pg != nil {
		alive = append(alive, w.pg.UID)
	}
	if w.set != nil {
		alive = append(alive, w.set.UID)
	}
	if len(alive) == 2 && metav1.IsControlledBy(w.set, w.pg) {
		return nil
	}
	for _, kind := range owned {
		if err := p.collectKind(ctx, w, kind, alive); err != nil {
			return err
		}
	}
	return nil
}

func (p *Kubelet) collectKind(ctx context.Context, w *fixture, kind schema.GroupVersionKind, alive []types.UID) error {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	// List from the API server: a stale cache would delete the children of a new owner with those of the old one.
	if err := p.client.List(ctx, list, client.InNamespace(w.key.Namespace), client.MatchingLabels{labelOwner: w.key.Name}); err != nil {
		return err
	}
	for i := range list.Items {
		object := &list.Items[i]
		object.SetGroupVersionKind(kind)
		gone := slices.ContainsFunc(object.OwnerReferences, func(o metav1.OwnerReference) bool { return !slices.Contains(alive, o.UID) })
		if !gone || p.exists(ctx, object) {
			continue
		}
		if controllerutil.RemoveFinalizer(object, "kubernetes.io/pvc-protection") {
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
			if err := p.client.Patch(ctx, object, patch); client.IgnoreNotFound(err) != nil {
				return err
			}
		}
		err := p.client.Delete(ctx, object, client.GracePeriodSeconds(0), client.Preconditions{UID: &object.UID})
		if client.IgnoreNotFound(err) != nil {
			return err
		}
	}
	return nil
}

// exists asks the API server whether the owner of an object exists, because the cache may be stale.
func (p *Kubelet) exists(ctx context.Context, object *metav1.PartialObjectMetadata) bool {
	for _, o := range object.OwnerReferences {
		owner := &metav1.PartialObjectMetadata{}
		owner.SetGroupVersionKind(schema.FromAPIVersionAndKind(o.APIVersion, o.Kind))
		err := p.client.Get(ctx, types.NamespacedName{Namespace: object.Namespace, Name: o.Name}, owner)
		if client.IgnoreNotFound(err) != nil || err == nil && owner.UID == o.UID {
			return true
		}
	}
	return false
}

// orphanDependents finishes the deletion of a StatefulSet with propagation policy Orphan: its pods and claims lose their
// owner.
func (p *Kubelet) orphanDependents(ctx context.Context, w *fixture) error {
	if !slices.Contains(w.set.Finalizers, metav1.FinalizerOrphanDependents) {
		return nil
	}
	for _, pod := range w.pods {
		if err := p.removeOwners(ctx, pod); err != nil {
			return err
		}
	}
	claims := &corev1.PersistentVolumeClaimList{}
	if err := p.cache.List(ctx, claims, client.InNamespace(w.key.Namespace), client.MatchingLabels{labelOwner: w.key.Name}); err != nil {
		return err
	}
	for i := range claims.Items {
		if err := p.removeOwners(ctx, &claims.Items[i]); err != nil {
			return err
		}
	}
	controllerutil.RemoveFinalizer(w.set, metav1.FinalizerOrphanDependents)
	return p.client.Update(ctx, w.set)
}

func (p *Kubelet) removeOwners(ctx context.Context, object client.Object) error {
	if len(object.GetOwnerReferences()) == 0 {
		return nil
	}
	return client.IgnoreNotFound(p.client.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"ownerReferences":null}}`))))
}
