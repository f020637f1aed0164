// Package backuprun runs the Job of a BackupRun once, when its Backup says that it is its turn.
//
// Status.activeRun of the Backup is the lock: its controller, one worker for each Backup, names one run at a time.
package backuprun

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/backup/backupjob"
	"github.com/fettle-dev/fettle/internal/monitoring"
	"github.com/fettle-dev/fettle/internal/reconciler"
	"github.com/fettle-dev/fettle/internal/requeue"
)

// +kubebuilder:rbac:groups=backup.fettle.dev,resources=restores,verbs=list;watch
// +kubebuilder:rbac:groups=backup.fettle.dev,resources=backups,verbs=list;watch
// +kubebuilder:rbac:groups=backup.fettle.dev,resources=backupruns,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=backup.fettle.dev,resources=backupruns/status,verbs=patch
// +kubebuilder:rbac:groups=backup.fettle.dev,resources=backupruns/finalizers,verbs=update
// +kubebuilder:rbac:groups=database.fettle.dev,resources=postgresqls,verbs=get;list;watch
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// Options of the controller.
type Options struct {
	reconciler.Options
	// FettleImage is the image that pods get the program from: the operator's own.
	FettleImage string
}

// Reconciler reconciles BackupRuns.
type Reconciler struct {
	backupjob.Jobs
	image string
}

// Setup registers the controller with the manager.
func Setup(mgr ctrl.Manager, opts Options) error {
	tools, err := reconciler.New(mgr, monitoring.KindBackupRun, &backupv1alpha1.BackupRunList{}, opts.Options, reconciler.Index{
		Object: &backupv1alpha1.BackupRun{}, Field: backupjob.IndexBackup, Values: func(o client.Object) []string {
			return []string{o.(*backupv1alpha1.BackupRun).Spec.Backup}
		},
	})
	if err != nil {
		return err
	}
	r := &Reconciler{Jobs: backupjob.Jobs{Tools: tools, Kind: backupjob.KindBackupRun}, image: opts.FettleImage}
	kind := &reconciler.Reconciler[backupv1alpha1.BackupRun, *backupv1alpha1.BackupRun]{
		Tools: tools, ReconcileObject: r.reconcile, Progress: backupjob.Progress, Normal: []string{backupv1alpha1.ReasonSucceeded},
		StatusDelay: func(run, _ *backupv1alpha1.BackupRun) time.Duration { return r.StatusDelay(run) },
		ReadyNote:   readyNote,
		Created:     func(*backupv1alpha1.BackupRun, *backupv1alpha1.BackupRun) bool { return true }, // it is Ready once
	}
	_, err = kind.Setup(mgr, func(b *builder.Builder) {
		r.Watch(b)
		b.Watches(&backupv1alpha1.Backup{}, r.EnqueueBy(backupjob.IndexBackup, ""))
	})
	return err
}

func (r *Reconciler) reconcile(ctx context.Context, run *backupv1alpha1.BackupRun) (reconcile.Result, error) {
	return r.Reconcile(ctx, backupjob.RunOf(run), func(ctx context.Context) (*backupjob.Pod, error) { return r.prepare(ctx, run) })
}

// prepare says what to run, or why it has to wait.
func (r *Reconciler) prepare(ctx context.Context, run *backupv1alpha1.BackupRun) (*backupjob.Pod, error) {
	b := &backupv1alpha1.Backup{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: run.Namespace, Name: run.Spec.Backup}, b)
	switch {
	case apierrors.IsNotFound(err):
		return nil, backupjob.Waiting(backupv1alpha1.ReasonBackupMissing, "Backup %q does not exist: create it, or delete this BackupRun", run.Spec.Backup)
	case err != nil:
		return nil, fmt.Errorf("get Backup: %w", err)
	}
	if b.DeletionTimestamp == nil && !isOwned(run, b) {
		return nil, r.adopt(ctx, run, b) // the watch triggers the next reconcile
	}
	if err := turn(run, b); err != nil {
		return nil, err
	}
	pg, err := r.postgreSQL(ctx, b)
	if err != nil {
		return nil, err
	}
	restores := &backupv1alpha1.RestoreList{}
	if err := r.Client.List(ctx, restores, client.InNamespace(run.Namespace)); err != nil {
		return nil, fmt.Errorf("list Restores: %w", err)
	}
	return pod(run, b, pg, restores.Items, r.image), nil
}

// turn returns why it is not the run's turn; nil if it is.
func turn(run *backupv1alpha1.BackupRun, b *backupv1alpha1.Backup) error {
	if b.Status.ActiveRun == run.Name && b.DeletionTimestamp == nil {
		return nil
	}
	accepted := meta.FindStatusCondition(b.Status.Conditions, backupv1alpha1.BackupAccepted)
	switch {
	case b.DeletionTimestamp != nil:
		return backupjob.Waiting(backupv1alpha1.ReasonBackupMissing, "Backup %q is being deleted", b.Name)
	case b.Spec.Paused:
		return backupjob.Waiting(fettlev1.ReasonPaused, "Backup %q is paused: set its spec.paused to false", b.Name)
	case accepted != nil && accepted.Status != metav1.ConditionTrue:
		return backupjob.Waiting(backupv1alpha1.ReasonBackupRejected, "Backup %q cannot run: %s", b.Name, accepted.Message)
	case b.Status.ActiveRun != "":
		return backupjob.Waiting(backupv1alpha1.ReasonWaiting, "BackupRun %q of the same Backup is under way", b.Status.ActiveRun)
	}
	return backupjob.Waiting(backupv1alpha1.ReasonWaiting, "waiting for Backup %q", b.Name)
}

// postgreSQL returns the PostgreSQL to back up; nil for another server.
func (r *Reconciler) postgreSQL(ctx context.Context, b *backupv1alpha1.Backup) (*databasev1alpha1.PostgreSQL, error) {
	if b.Spec.PostgresRef == "" {
		return nil, nil //nolint:nilnil // absence is an answer
	}
	pg := &databasev1alpha1.PostgreSQL{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: b.Spec.PostgresRef}, pg)
	if apierrors.IsNotFound(err) {
		return nil, &backupjob.BlockedError{
			Reason:  backupv1alpha1.ReasonPostgreSQLMissing,
			Message: fmt.Sprintf("PostgreSQL %q does not exist: create it, or correct spec.postgresRef of Backup %q", b.Spec.PostgresRef, b.Name),
			Within:  time.Duration(b.Spec.TimeoutSeconds) * time.Second,
			Poll:    time.Minute,
		}
	}
	if err != nil {
		return nil, fmt.Errorf("get PostgreSQL: %w", err)
	}
	return pg, nil
}

func isOwned(run *backupv1alpha1.BackupRun, b *backupv1alpha1.Backup) bool {
	for _, ref := range run.OwnerReferences {
		if ref.UID == b.UID {
			return true
		}
	}
	return false
}

// adopt makes a run that a person created belong to its Backup, so that it is deleted with it. It keeps what it has.
func (r *Reconciler) adopt(ctx context.Context, run *backupv1alpha1.BackupRun, b *backupv1alpha1.Backup) error {
	changed := run.DeepCopy()
	changed.OwnerReferences = append(changed.OwnerReferences, metav1.OwnerReference{
		APIVersion: backupv1alpha1.GroupVersion.String(), Kind: monitoring.KindBackup, Name: b.Name, UID: b.UID,
	})
	if changed.Labels == nil {
		changed.Labels = map[string]string{}
	}
	changed.Labels[backupv1alpha1.LabelBackup] = b.Name
	err := r.Client.Patch(ctx, changed, client.MergeFromWithOptions(run, client.MergeFromWithOptimisticLock{}), client.FieldOwner(controllerName))
	if err = requeue.IfOutdated(ctx, err); err != nil {
		return fmt.Errorf("set owner of BackupRun: %w", err)
	}
	return backupjob.Waiting(backupv1alpha1.ReasonWaiting, "waiting for Backup %q", b.Name)
}

func readyNote(run *backupv1alpha1.BackupRun) string {
	return fmt.Sprintf("stored at %s", run.Status.Location)
}
