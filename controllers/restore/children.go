package restore

import (
	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/backupjob"
	"github.com/fettle-dev/fettle/internal/backup/job"
)

// pod is what the Job of a Restore is made of. A restore that was cut off has left data behind: it is not repeated.
func pod(restore *backupv1alpha1.Restore, from *backupv1alpha1.BackupLocation, to backupjob.Server, image string) *backupjob.Pod {
	return &backupjob.Pod{
		Kind: backupjob.KindRestore, Store: from.Destination, Identity: restore.Spec.IdentitySecretRef, Server: to, Spec: restore.Spec.Pod,
		TimeoutSeconds: restore.Spec.TimeoutSeconds, FettleImage: image,
		Config: job.Config{
			Namespace: restore.Namespace, Object: restore.Name,
			Restore: &job.Restore{From: *from, To: to.Server, Overwrite: restore.Spec.Overwrite != ""},
		},
	}
}

// locationOf is a location with the namespace that it defaults to.
func locationOf(restore *backupv1alpha1.Restore, location *backupv1alpha1.BackupLocation) *backupv1alpha1.BackupLocation {
	out := location.DeepCopy()
	if out.Namespace == "" {
		out.Namespace = restore.Namespace
	}
	return out
}
