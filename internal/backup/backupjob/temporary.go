package backupjob

import (
	corev1 "k8s.io/api/core/v1"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/job"
)

const (
	// temporaryContainer has the temporary server of a verification.
	temporaryContainer = "database"

	volumeShared = "verify"
	volumeData   = "data"
	volumeToken  = "token"

	// tokenFolder is where clients of the API server look for their token, and tokenSeconds how long that is valid. The kubelet renews it.
	tokenFolder  = "/var/run/secrets/kubernetes.io/serviceaccount"
	tokenSeconds = 3607
	rootCA       = "kube-root-ca.crt"
)

// skipContainers are the annotations by which the webhooks of cloud identities leave a container without a token.
var skipContainers = []string{"azure.workload.identity/skip-containers", "eks.amazonaws.com/skip-containers"}

// addTemporary adds the container of the temporary server. What a backup can make a server do must not reach the keys of the store and the
// token of the pod: the container has no volume with them, and the pod mounts its token in the main container only.
func (p *Pod) addTemporary(spec *corev1.PodSpec, annotations map[string]string, image string, context *corev1.SecurityContext) {
	spec.AutomountServiceAccountToken = new(false)
	shared := corev1.VolumeMount{Name: volumeShared, MountPath: job.DirTemporary}
	main := &spec.Containers[0]
	main.VolumeMounts = append(main.VolumeMounts, shared, corev1.VolumeMount{Name: volumeToken, MountPath: tokenFolder, ReadOnly: true})
	empty := corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	spec.Volumes = append(spec.Volumes,
		corev1.Volume{Name: volumeShared, VolumeSource: empty},
		corev1.Volume{Name: temporaryContainer + "-tmp", VolumeSource: empty},
		corev1.Volume{Name: "shm", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{Medium: corev1.StorageMediumMemory}}},
		corev1.Volume{Name: volumeData, VolumeSource: dataVolume(p.Temporary)},
		corev1.Volume{Name: volumeToken, VolumeSource: tokenVolume()})
	// A sidecar: the kubelet ends it after the main container, whatever it does.
	spec.InitContainers = append(spec.InitContainers, corev1.Container{
		Name: temporaryContainer, Image: image, Command: []string{"/fettle-bin/fettle", "backup", "server"},
		RestartPolicy: new(corev1.ContainerRestartPolicyAlways),
		Env:           []corev1.EnvVar{{Name: "HOME", Value: "/tmp"}},
		Resources:     p.Spec.Resources,
		VolumeMounts: []corev1.VolumeMount{
			{Name: volumeBin, MountPath: "/fettle-bin", ReadOnly: true}, shared, {Name: volumeData, MountPath: job.DirTemporaryData},
			{Name: temporaryContainer + "-tmp", MountPath: "/tmp"}, {Name: "shm", MountPath: "/dev/shm"},
		},
		SecurityContext: context,
	})
	if p.Store.ServiceAccountName != "" {
		for _, annotation := range skipContainers {
			annotations[annotation] = temporaryContainer
		}
	}
}

// dataVolume is deleted with the pod.
func dataVolume(t *backupv1alpha1.TemporaryServer) corev1.VolumeSource {
	if t.Storage == nil {
		return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	}
	claim := corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources:   corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: *t.Storage}},
	}
	if t.StorageClassName != "" {
		claim.StorageClassName = new(t.StorageClassName)
	}
	return corev1.VolumeSource{Ephemeral: &corev1.EphemeralVolumeSource{VolumeClaimTemplate: &corev1.PersistentVolumeClaimTemplate{Spec: claim}}}
}

// tokenVolume is what the API server adds to pods with automountServiceAccountToken.
func tokenVolume() corev1.VolumeSource {
	return corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{
		{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: corev1.ServiceAccountTokenKey, ExpirationSeconds: new(int64(tokenSeconds))}},
		{ConfigMap: &corev1.ConfigMapProjection{
			LocalObjectReference: corev1.LocalObjectReference{Name: rootCA}, Items: []corev1.KeyToPath{{Key: keyCA, Path: corev1.ServiceAccountRootCAKey}},
		}},
		{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
			Path: corev1.ServiceAccountNamespaceKey, FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
		}}}},
	}}}
}
