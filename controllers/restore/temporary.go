package restore

import (
	"cmp"
	"context"
	"fmt"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/backupjob"
	"github.com/fettle-dev/fettle/internal/backup/job"
)

// verificationRetries is how often a verification is repeated: it leaves nothing behind.
const verificationRetries = 1

// verification restores into a temporary server, of the image that the runs of the Backup have.
func (r *Reconciler) verification(ctx context.Context, restore *backupv1alpha1.Restore, from *backupv1alpha1.BackupLocation) (*backupjob.Pod, error) {
	server, database := backupjob.Server{}, ""
	if restore.Spec.From.Location == nil {
		b := &backupv1alpha1.Backup{}
		if err := r.get(ctx, restore, from.Backup, b, backupv1alpha1.ReasonBackupMissing, "from: Backup"); err != nil {
			return nil, err
		}
		var pg *databasev1alpha1.PostgreSQL
		if name := b.Spec.PostgresRef; name != "" {
			pg = &databasev1alpha1.PostgreSQL{}
			if err := r.get(ctx, restore, name, pg, backupv1alpha1.ReasonPostgreSQLMissing, "postgresRef of the Backup: PostgreSQL"); err != nil {
				return nil, err
			}
			database = string(pg.Spec.DatabaseName)
		}
		of := backupjob.OfBackup(b, pg).Server
		if of.Type == backupv1alpha1.ServerMongoDB {
			return nil, &backupjob.BlockedError{
				Reason: backupv1alpha1.ReasonBackupUnsuitable, Final: true,
				Message: fmt.Sprintf("Backup %q is of MongoDB, which cannot be verified in a temporary server: restore it into a server", b.Name),
			}
		}
		// Neither logins nor certificates: the pod does not connect to the source.
		server.Image = cmp.Or(b.Spec.Pod.Image, of.Image)
		if b.Spec.Method == backupv1alpha1.MethodLogical {
			database = ""
		}
	}
	p := pod(restore, from, server, r.image)
	how := restore.Spec.To.Temporary
	p.Temporary, p.Retries = how, verificationRetries
	p.Config.Restore.Temporary = &job.Temporary{Query: how.Query, Expect: how.Expect, Database: database}
	return p, nil
}
