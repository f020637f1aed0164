package agent

import (
	"cmp"
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/server"
)

// backupLocation is the place of the backup to restore. That of a Backup is read from the object.
func (a *Agent) backupLocation(ctx context.Context, from *databasev1alpha1.PostgreSQLRecovery) (backupv1alpha1.BackupLocation, error) {
	if from.Location != nil {
		location := *from.Location
		location.Namespace = cmp.Or(location.Namespace, a.options.Namespace)
		return location, nil
	}
	ctx, cancel := context.WithTimeout(ctx, apiTimeout)
	defer cancel()
	backup := &backupv1alpha1.Backup{}
	err := a.backups.Get().Namespace(a.options.Namespace).Resource("backups").Name(from.Backup).Do(ctx).Into(backup)
	switch {
	case apierrors.IsNotFound(err):
		return backupv1alpha1.BackupLocation{}, &server.SourceError{Kind: backupv1alpha1.ReasonBackupMissing, Message: fmt.Sprintf(
			"spec.bootstrap.recovery: Backup %q does not exist: correct the name, or set location to the place of its backups", from.Backup)}
	case err != nil:
		return backupv1alpha1.BackupLocation{}, fmt.Errorf("%w: read Backup %s: %w", errAPI, from.Backup, err)
	case backup.Spec.Method != backupv1alpha1.MethodPhysical:
		return backupv1alpha1.BackupLocation{}, &server.SourceError{Kind: backupv1alpha1.ReasonBackupUnsuitable, Message: fmt.Sprintf(
			"spec.bootstrap.recovery: Backup %q is Logical: restore it with a Restore, or name a Physical one", from.Backup)}
	}
	return backupv1alpha1.BackupLocation{Destination: backup.Spec.Destination, Namespace: a.options.Namespace, Backup: backup.Name}, nil
}
