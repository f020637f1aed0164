package fakepg

import (
	"context"
	"maps"
	"slices"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

// elect labels one pod primary and the others replica. Without a Lease there is no primary.
func (p *Kubelet) elect(ctx context.Context, w *fixture) error {
	if w.pg == nil {
		return nil
	}
	names := slices.Sorted(maps.Keys(w.pods))
	primary := ""
	if w.lease != nil {
		primary = p.choosePrimary(w, names)
	}
	if primary != "" {
		if err := p.writeHolder(ctx, w.lease, w.pods[primary]); err != nil {
			return err
		}
	}
	for _, name := range names {
		role := databasev1alpha1.LabelRoleReplica
		if name == primary {
			role = databasev1alpha1.LabelRolePrimary
		}
		pod := w.pods[name]
		if isReady(pod) && pod.Labels[databasev1alpha1.LabelRole] != role {
			before := pod.DeepCopy()
			pod.Labels[databasev1alpha1.LabelRole] = role
			if err := p.client.Patch(ctx, pod, client.MergeFrom(before)); err != nil {
				return err
			}
		}
	}
	return nil
}

// choosePrimary returns the pod that should be primary: the requested one, or the current one (also while its server
// restarts), or the lowest ready one.
func (p *Kubelet) choosePrimary(w *fixture, names []string) (primary string) {
	if wanted := w.pg.Annotations[databasev1alpha1.AnnotationSwitchover]; isReady(w.pods[wanted]) {
		return wanted
	}
	for _, name := range names {
		pod := w.pods[name]
		if pod.Labels[databasev1alpha1.LabelRole] == databasev1alpha1.LabelRolePrimary && p.startupLeft(pod.UID) > 0 {
			return name
		}
		if isReady(w.pods[name]) && (primary == "" || w.pods[name].Labels[databasev1alpha1.LabelRole] == databasev1alpha1.LabelRolePrimary) {
			primary = name
		}
	}
	return primary
}

// writeHolder writes the primary into the Lease once.
func (p *Kubelet) writeHolder(ctx context.Context, lease *coordinationv1.Lease, pod *corev1.Pod) error {
	holder := pod.Name + "/" + string(pod.UID)
	if lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity == holder {
		return nil
	}
	before := lease.DeepCopy()
	lease.Spec.HolderIdentity = &holder
	lease.Spec.RenewTime = new(metav1.NewMicroTime(time.Now()))
	return p.client.Patch(ctx, lease, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
}

// isReady returns whether a pod exists and is Ready.
func isReady(pod *corev1.Pod) bool {
	return pod != nil && slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
	})
}
