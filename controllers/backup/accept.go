package backup

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/backupjob"
	"github.com/fettle-dev/fettle/internal/backup/schedule"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/reconciler"
)

// Indexes of the Backups that an event concerns.
const (
	indexPostgreSQL = "spec.postgresRef"
	indexSecrets    = "secrets"
)

// indexes are those that the watches need. The Secrets are those that the spec names.
var indexes = []reconciler.Index{
	{Object: &backupv1alpha1.Backup{}, Field: indexPostgreSQL, Values: func(o client.Object) []string {
		return []string{o.(*backupv1alpha1.Backup).Spec.PostgresRef}
	}},
	{Object: &backupv1alpha1.Backup{}, Field: indexSecrets, Values: func(o client.Object) []string {
		return backupjob.OfBackup(o.(*backupv1alpha1.Backup), nil).Secrets()
	}},
}

// watch adds the triggers of the controller.
func (r *Reconciler) watch(b *builder.Builder) {
	b.Owns(&backupv1alpha1.Restore{}).
		Watches(&backupv1alpha1.BackupRun{}, r.enqueueBackup()).
		Watches(&databasev1alpha1.PostgreSQL{}, r.EnqueueBy(indexPostgreSQL, ""))
	if r.WatchSecrets {
		b.WatchesMetadata(&corev1.Secret{}, r.EnqueueBy(indexSecrets, ""))
	}
}

// accept says whether runs can start: the state of the condition Accepted. The schedule is nil if there is none, or an invalid one.
func (r *Reconciler) accept(ctx context.Context, b *backupv1alpha1.Backup) (*schedule.Schedule, conditions.State, error) {
	times, invalid := parseSchedule(b)
	if invalid == "" {
		_, invalid = parseVerification(b)
	}
	if invalid != "" {
		return nil, conditions.False(backupv1alpha1.ReasonScheduleInvalid, invalid), nil
	}
	var pg *databasev1alpha1.PostgreSQL
	if name := b.Spec.PostgresRef; name != "" {
		pg = &databasev1alpha1.PostgreSQL{}
		err := r.Client.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: name}, pg)
		if apierrors.IsNotFound(err) {
			pg = nil
		} else if err != nil {
			return nil, conditions.State{}, fmt.Errorf("get PostgreSQL %q: %w", name, err)
		}
	}
	recordArchive(b, pg)
	if state, ok := acceptSource(b, pg); !ok {
		return times, state, nil
	}
	missing, err := backupjob.MissingSecret(ctx, &r.Tools, b.Namespace, backupjob.OfBackup(b, pg).Secrets())
	switch {
	case err != nil:
		return nil, conditions.State{}, err
	case missing != "":
		return times, conditions.False(backupv1alpha1.ReasonSourceSecretMissing, fmt.Sprintf("Secret %q does not exist: create it, or correct the spec", missing)), nil
	}
	return times, conditions.True(backupv1alpha1.ReasonAccepted, ""), nil
}

// parseSchedule returns the schedule, nil if there is none, or what is wrong with it.
func parseSchedule(b *backupv1alpha1.Backup) (times *schedule.Schedule, invalid string) {
	if b.Spec.Schedule == "" {
		return nil, ""
	}
	times, err := schedule.Parse(b.Spec.Schedule, b.Spec.TimeZone)
	if err != nil {
		return nil, "spec." + err.Error()
	}
	return times, ""
}

// recordArchive takes the end of the time window of recovery from the PostgreSQL, whose primary archives the WAL. Without a base backup,
// there is no window.
func recordArchive(b *backupv1alpha1.Backup, pg *databasev1alpha1.PostgreSQL) {
	if b.Spec.Method == backupv1alpha1.MethodPhysical && pg != nil && pg.Status.LastArchivedTime != nil && b.Status.FirstRecoverableTime != nil {
		b.Status.LastRecoverableTime = pg.Status.LastArchivedTime.DeepCopy()
	}
}

// acceptSource says whether the PostgreSQL, nil if it does not exist, can be backed up.
func acceptSource(b *backupv1alpha1.Backup, pg *databasev1alpha1.PostgreSQL) (conditions.State, bool) {
	name := b.Spec.PostgresRef
	switch {
	case name == "":
	case b.Spec.Method == backupv1alpha1.MethodPhysical && !managed(b):
		return conditions.False(backupv1alpha1.ReasonNotManaged,
			fmt.Sprintf("a Physical Backup must be created by its PostgreSQL: set spec.backup of PostgreSQL %q, and delete this Backup", name)), false
	case pg == nil:
		return conditions.False(backupv1alpha1.ReasonPostgreSQLMissing, fmt.Sprintf("PostgreSQL %q does not exist: create it, or correct spec.postgresRef", name)), false
	case !backupjob.IsReady(pg):
		return conditions.False(backupv1alpha1.ReasonPostgreSQLNotReady, fmt.Sprintf("PostgreSQL %q is not ready: wait, or look at its conditions", name)), false
	}
	return conditions.State{}, true
}

// managed reports whether the PostgreSQL that the Backup names is its controller. Only that archives the WAL that recovery needs.
func managed(b *backupv1alpha1.Backup) bool {
	owner := metav1.GetControllerOfNoCopy(b)
	return owner != nil && owner.Kind == "PostgreSQL" && owner.Name == b.Spec.PostgresRef &&
		owner.APIVersion == databasev1alpha1.GroupVersion.String()
}
