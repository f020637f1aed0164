package postgresql

import (
	k8sappsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	appsv1ac "k8s.io/client-go/applyconfigurations/apps/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// statefulSet runs count instances. Its pods are all started at once, and replaced by the operator alone. A claim outlives
// its pod and the StatefulSet always; see deletion.go.
func statefulSet(pg *databasev1alpha1.PostgreSQL, in inputs, count int) *appsv1ac.StatefulSetApplyConfiguration {
	template := podTemplate(pg, in.agentImage, in.cluster.volumes)
	template.WithAnnotations(map[string]string{annotationRevision: revisionOf(pg), annotationAgentImage: in.agentImage})
	if in.identity[azureIdentity] != "" {
		template.WithLabels(map[string]string{azureIdentityUse: "true"}) // for new pods: it is not in the revision
	}
	return appsv1ac.StatefulSet(pg.Name, pg.Namespace).
		WithLabels(labels(pg)).
		WithSpec(appsv1ac.StatefulSetSpec().
			WithReplicas(int32(count)).
			WithServiceName(podsService(pg)).
			WithSelector(metav1ac.LabelSelector().WithMatchLabels(selector(pg))).
			WithPodManagementPolicy(k8sappsv1.ParallelPodManagement).
			WithUpdateStrategy(appsv1ac.StatefulSetUpdateStrategy().WithType(k8sappsv1.OnDeleteStatefulSetStrategyType)).
			WithRevisionHistoryLimit(1).
			WithPersistentVolumeClaimRetentionPolicy(appsv1ac.StatefulSetPersistentVolumeClaimRetentionPolicy().
				WithWhenDeleted(k8sappsv1.RetainPersistentVolumeClaimRetentionPolicyType).
				WithWhenScaled(k8sappsv1.RetainPersistentVolumeClaimRetentionPolicyType)).
			WithTemplate(template).
			WithVolumeClaimTemplates(claimTemplate(pg, in.cluster.volumes, in.templateSize)))
}

// claimTemplate is immutable: the StatefulSet is re-created for another size, see growth.replaceSet, and for other volumes.
func claimTemplate(pg *databasev1alpha1.PostgreSQL, volumeSet int, size resource.Quantity) *corev1ac.PersistentVolumeClaimApplyConfiguration {
	spec := corev1ac.PersistentVolumeClaimSpec().
		WithAccessModes(corev1.ReadWriteOnce).
		WithVolumeMode(corev1.PersistentVolumeFilesystem).
		WithResources(corev1ac.VolumeResourceRequirements().WithRequests(corev1.ResourceList{corev1.ResourceStorage: size}))
	if pg.Spec.StorageClassName != nil {
		spec.WithStorageClassName(*pg.Spec.StorageClassName)
	}
	claim := &corev1ac.PersistentVolumeClaimApplyConfiguration{}
	return claim.WithName(agentapi.ClaimTemplate(volumeSet)).WithLabels(labels(pg)).WithSpec(spec)
}
