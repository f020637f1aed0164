// Package restore runs the Job of a Restore once.
package restore

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/backupjob"
	"github.com/fettle-dev/fettle/internal/monitoring"
	"github.com/fettle-dev/fettle/internal/reconciler"
)

// +kubebuilder:rbac:groups=backup.fettle.dev,resources=backups;backupruns,verbs=list;watch
// +kubebuilder:rbac:groups=backup.fettle.dev,resources=restores,verbs=get;list;watch
// +kubebuilder:rbac:groups=backup.fettle.dev,resources=restores/status,verbs=patch
// +kubebuilder:rbac:groups=backup.fettle.dev,resources=restores/finalizers,verbs=update
// +kubebuilder:rbac:groups=database.fettle.dev,resources=postgresqls,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups="",resources=persistentvolumeclaims,verbs=list
// +kubebuilder:rbac:groups=batch,resources=jobs,verbs=get;list;watch;create
// +kubebuilder:rbac:groups="",resources=pods,verbs=list;watch
// +kubebuilder:rbac:groups="",resources=serviceaccounts,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=roles;rolebindings,verbs=get;list;watch;create;patch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// pollMissing is how often a Restore that waits for another object looks for it, without a watch that tells.
const pollMissing = 10 * time.Second

// Options of the controller.
type Options struct {
	reconciler.Options
	// FettleImage is the image that pods get the program from: the operator's own.
	FettleImage string
}

// Reconciler reconciles Restores.
type Reconciler struct {
	backupjob.Jobs
	image string
}

// Setup registers the controller with the manager.
func Setup(mgr ctrl.Manager, opts Options) error {
	tools, err := reconciler.New(mgr, monitoring.KindRestore, &backupv1alpha1.RestoreList{}, opts.Options, indexes...)
	if err != nil {
		return err
	}
	r := &Reconciler{Jobs: backupjob.Jobs{Tools: tools, Kind: backupjob.KindRestore}, image: opts.FettleImage}
	kind := &reconciler.Reconciler[backupv1alpha1.Restore, *backupv1alpha1.Restore]{
		Tools: tools, ReconcileObject: r.reconcile, OnDeleted: r.onDeleted, Progress: backupjob.Progress, Normal: []string{backupv1alpha1.ReasonSucceeded},
		StatusDelay: func(run, _ *backupv1alpha1.Restore) time.Duration { return r.StatusDelay(run) },
		ReadyNote:   readyNote,
		Created:     func(*backupv1alpha1.Restore, *backupv1alpha1.Restore) bool { return true }, // it is Ready once
	}
	_, err = kind.Setup(mgr, func(b *builder.Builder) {
		r.Watch(b)
		b.Watches(&backupv1alpha1.Backup{}, r.EnqueueBy(indexRefs, refBackup)).
			Watches(&backupv1alpha1.BackupRun{}, r.EnqueueBy(indexRefs, refRun)).
			Watches(&databasev1alpha1.PostgreSQL{}, r.EnqueueBy(indexRefs, refPostgreSQL)).
			Watches(&databasev1alpha1.PostgreSQL{}, enqueueInPlace)
	})
	return err
}

// indexRefs finds the Restores that refer to an object, by its kind and name.
const (
	indexRefs     = "refs"
	refBackup     = "Backup/"
	refRun        = "BackupRun/"
	refPostgreSQL = "PostgreSQL/"
)

var indexes = []reconciler.Index{{Object: &backupv1alpha1.Restore{}, Field: indexRefs, Values: func(o client.Object) []string {
	spec := &o.(*backupv1alpha1.Restore).Spec
	return []string{refBackup + spec.From.Backup, refRun + spec.From.Run, refPostgreSQL + spec.To.PostgresRef}
}}}

func (r *Reconciler) reconcile(ctx context.Context, restore *backupv1alpha1.Restore) (reconcile.Result, error) {
	if inPlace, err := r.isInPlace(ctx, restore); err != nil {
		return reconcile.Result{}, err
	} else if inPlace {
		return r.reconcileInPlace(ctx, restore)
	}
	return r.Reconcile(ctx, backupjob.RestoreOf(restore), func(ctx context.Context) (*backupjob.Pod, error) { return r.prepare(ctx, restore) })
}

// prepare says what to restore and where to, or why that has to wait.
func (r *Reconciler) prepare(ctx context.Context, restore *backupv1alpha1.Restore) (*backupjob.Pod, error) {
	from, err := r.source(ctx, restore)
	if err != nil {
		return nil, err
	}
	var p *backupjob.Pod
	if restore.Spec.To.Temporary != nil {
		p, err = r.verification(ctx, restore, from)
	} else {
		p, err = r.restoration(ctx, restore, from)
	}
	if err != nil {
		return nil, err
	}
	missing, err := backupjob.MissingSecret(ctx, &r.Tools, restore.Namespace, p.Secrets())
	if err != nil {
		return nil, err
	}
	if missing != "" {
		return nil, &backupjob.BlockedError{
			Reason: backupv1alpha1.ReasonSourceSecretMissing, Message: fmt.Sprintf("Secret %q does not exist: create it, or correct the spec", missing),
			Poll: pollMissing,
		}
	}
	return p, nil
}

// restoration restores into databases that exist.
func (r *Reconciler) restoration(ctx context.Context, restore *backupv1alpha1.Restore, from *backupv1alpha1.BackupLocation) (*backupjob.Pod, error) {
	to, err := r.target(ctx, restore)
	if err != nil {
		return nil, err
	}
	return pod(restore, from, to, r.image), nil
}

// source returns the place of the backup.
func (r *Reconciler) source(ctx context.Context, restore *backupv1alpha1.Restore) (*backupv1alpha1.BackupLocation, error) {
	from := &restore.Spec.From
	if from.Location != nil {
		return locationOf(restore, from.Location), nil
	}
	b, err := r.backup(ctx, restore)
	if err != nil {
		return nil, err
	}
	if b.Spec.Method == backupv1alpha1.MethodPhysical && restore.Spec.To.Temporary == nil {
		return nil, &backupjob.BlockedError{
			Reason: backupv1alpha1.ReasonBackupUnsuitable, Final: true,
			Message: fmt.Sprintf("Backup %q is Physical: set to.postgresRef and overwrite to restore a PostgreSQL in place, or create a PostgreSQL with bootstrap.recovery", b.Name),
		}
	}
	return &backupv1alpha1.BackupLocation{Destination: b.Spec.Destination, Namespace: b.Namespace, Backup: b.Name, Run: from.Run}, nil
}

// backup returns the Backup that spec.from names, itself or by a run.
func (r *Reconciler) backup(ctx context.Context, restore *backupv1alpha1.Restore) (*backupv1alpha1.Backup, error) {
	from, b := &restore.Spec.From, &backupv1alpha1.Backup{}
	name := from.Backup
	if from.Run != "" {
		run := &backupv1alpha1.BackupRun{}
		if err := r.get(ctx, restore, from.Run, run, backupv1alpha1.ReasonBackupMissing, "from.run: BackupRun"); err != nil {
			return nil, err
		}
		if err := usable(run); err != nil {
			return nil, err
		}
		name = run.Spec.Backup
	}
	return b, r.get(ctx, restore, name, b, backupv1alpha1.ReasonBackupMissing, "from: Backup")
}

// usable returns why a run cannot be restored; nil if it can.
func usable(run *backupv1alpha1.BackupRun) error {
	switch run.Status.Phase {
	case backupv1alpha1.RunSucceeded:
		return nil
	case backupv1alpha1.RunFailed:
		return &backupjob.BlockedError{
			Reason: backupv1alpha1.ReasonNoBackup, Final: true,
			Message: fmt.Sprintf("BackupRun %q has failed, so it stored no backup: choose another one in from.run", run.Name),
		}
	}
	return backupjob.Waiting(backupv1alpha1.ReasonWaiting, "BackupRun %q has not ended yet", run.Name)
}

// target returns the server to restore to.
func (r *Reconciler) target(ctx context.Context, restore *backupv1alpha1.Restore) (backupjob.Server, error) {
	if server := restore.Spec.To.Server; server != nil {
		return backupjob.ServerOf(server), nil
	}
	pg := &databasev1alpha1.PostgreSQL{}
	if err := r.get(ctx, restore, restore.Spec.To.PostgresRef, pg, backupv1alpha1.ReasonPostgreSQLMissing, "to.postgresRef: PostgreSQL"); err != nil {
		return backupjob.Server{}, err
	}
	if !backupjob.IsReady(pg) {
		return backupjob.Server{}, backupjob.Waiting(backupv1alpha1.ReasonPostgreSQLNotReady, "PostgreSQL %q is not ready yet: wait, or look at its conditions", pg.Name)
	}
	return backupjob.ServerOfPostgreSQL(pg, backupv1alpha1.MethodLogical), nil
}

// get reads an object that the spec refers to.
func (r *Reconciler) get(ctx context.Context, restore *backupv1alpha1.Restore, name string, into client.Object, reason, what string) error {
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: restore.Namespace, Name: name}, into)
	if apierrors.IsNotFound(err) {
		return backupjob.Waiting(reason, "%s %q does not exist: create it, or create another Restore", what, name)
	}
	if err != nil {
		return fmt.Errorf("get %s %q: %w", what, name, err)
	}
	return nil
}

func readyNote(restore *backupv1alpha1.Restore) string {
	return "restored from " + restore.Status.Location
}
