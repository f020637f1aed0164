package postgresql

import (
	"context"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agent"
)

// +kubebuilder:rbac:groups=backup.fettle.dev,resources=backupruns;restores,verbs=get;list;watch

// resolveRecovery finds the backup that the first data come from: that of a restore in place, or of spec.bootstrap.recovery.
func (r *Reconciler) resolveRecovery(ctx context.Context, pg *databasev1alpha1.PostgreSQL, in *inputs) (err error) {
	if in.restore, err = r.restoreInPlace(ctx, pg); err != nil {
		return err
	}
	in.recovery = in.restore
	if in.recovery == nil {
		in.recovery = pg.Spec.Bootstrap.Recovery
	}
	in.recoverFrom, err = r.recoveryDestination(ctx, pg, in.recovery)
	return err
}

// restoreInPlace is what the Restore restores that the annotation of pg names; nil if there is no such Restore, or it has ended.
func (r *Reconciler) restoreInPlace(ctx context.Context, pg *databasev1alpha1.PostgreSQL) (*databasev1alpha1.PostgreSQLRecovery, error) {
	if !isRestored(pg) {
		return nil, nil //nolint:nilnil // absence is an answer
	}
	restore := &backupv1alpha1.Restore{}
	name, _ := pg.RestoredBy()
	key := client.ObjectKey{Namespace: pg.Namespace, Name: name}
	if err := r.Client.Get(ctx, key, restore); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get Restore %q: %w", key.Name, err)
	} else if err != nil || !restores(restore, pg) {
		return nil, nil //nolint:nilnil,nilerr // absence is an answer
	}
	out := &databasev1alpha1.PostgreSQLRecovery{
		Backup: restore.Spec.From.Backup, Location: restore.Spec.From.Location, RecoveryTarget: restore.Spec.RecoveryTarget,
	}
	if restore.Spec.From.Run == "" {
		return out, nil
	}
	location, err := r.locationOfRun(ctx, pg.Namespace, restore.Spec.From.Run)
	if location == nil || err != nil {
		return nil, err
	}
	out.Location = location
	return out, nil
}

// restores reports whether a Restore that has not ended is about pg.
func restores(restore *backupv1alpha1.Restore, pg *databasev1alpha1.PostgreSQL) bool {
	phase := restore.Status.Phase
	_, uid := pg.RestoredBy()
	return restore.UID == uid && restore.Spec.To.PostgresRef == pg.Name && restore.Spec.Overwrite == pg.Name && restore.DeletionTimestamp == nil &&
		phase != backupv1alpha1.RunSucceeded && phase != backupv1alpha1.RunFailed
}

// locationOfRun is the place of one base backup; nil while the run or its Backup does not exist.
func (r *Reconciler) locationOfRun(ctx context.Context, namespace, name string) (*backupv1alpha1.BackupLocation, error) {
	run, backup := &backupv1alpha1.BackupRun{}, &backupv1alpha1.Backup{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, run)
	if err == nil {
		err = r.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: run.Spec.Backup}, backup)
	}
	if apierrors.IsNotFound(err) {
		return nil, nil //nolint:nilnil // absence is an answer
	}
	if err != nil {
		return nil, fmt.Errorf("get BackupRun %q and its Backup: %w", name, err)
	}
	return &backupv1alpha1.BackupLocation{Destination: backup.Spec.Destination, Namespace: namespace, Backup: backup.Name, Run: name}, nil
}

// recoveryDestination is the object store of a recovery; nil for none, or while the Backup does not exist. The agent of the first instance
// reports what is wrong with it.
func (r *Reconciler) recoveryDestination(
	ctx context.Context, pg *databasev1alpha1.PostgreSQL, from *databasev1alpha1.PostgreSQLRecovery,
) (*backupv1alpha1.Destination, error) {
	switch {
	case from == nil:
		return nil, nil
	case from.Location != nil:
		return &from.Location.Destination, nil
	}
	backup := &backupv1alpha1.Backup{}
	if err := r.Client.Get(ctx, client.ObjectKey{Namespace: pg.Namespace, Name: from.Backup}, backup); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("get Backup %q: %w", from.Backup, err)
	} else if err != nil {
		return nil, nil //nolint:nilerr // there is none yet
	}
	return &backup.Spec.Destination, nil
}

// recoveryRules let the agents read the Backup and the Secrets of its destination. The operator itself reads no store and none of its
// keys.
func recoveryRules(in *inputs) []rbacv1.PolicyRule {
	if in.recovery == nil {
		return nil
	}
	return agent.RecoveryRules(in.recovery.Backup, in.recoverFrom)
}
