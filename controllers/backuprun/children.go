package backuprun

import (
	"slices"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/backupjob"
	"github.com/fettle-dev/fettle/internal/backup/job"
)

const controllerName = "backuprun"

// pod is what the Job of a run is made of. pg is nil for a server that Fettle does not run.
func pod(
	run *backupv1alpha1.BackupRun, b *backupv1alpha1.Backup, pg *databasev1alpha1.PostgreSQL, restores []backupv1alpha1.Restore, image string,
) *backupjob.Pod {
	p := backupjob.OfBackup(b, pg)
	p.Config.Object = run.Name
	p.Config.Backup = &job.Backup{
		Name: b.Name, Method: b.Spec.Method, Destination: b.Spec.Destination, Server: p.Server.Server, Compression: b.Spec.Compression,
		Retention: b.Spec.Retention, Policy: b.Spec.RetentionPolicy, Keep: kept(b, restores),
	}
	if b.Spec.Encryption != nil {
		p.Config.Backup.Recipients = b.Spec.Encryption.Recipients
	}
	p.FettleImage = image
	return p
}

// kept are the runs that the retention does not delete: the last verified one, the one that is verified next, and those that the Restores of
// the namespace read.
func kept(b *backupv1alpha1.Backup, restores []backupv1alpha1.Restore) []string {
	runs := []string{b.Status.LastVerifiedRun}
	if b.Spec.Verify != nil {
		runs = append(runs, b.Status.LastSuccessfulRun)
	}
	for i := range restores {
		if !backupjob.HasEnded(restores[i].Status.Phase) {
			runs = append(runs, restores[i].Spec.From.Run)
		}
	}
	slices.Sort(runs)
	return slices.DeleteFunc(slices.Compact(runs), func(run string) bool { return run == "" })
}
