package restore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/backupjob"
	"github.com/fettle-dev/fettle/internal/backup/progress"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/requeue"
)

// A restore in place gives a PostgreSQL new volumes, which the agent of its first instance fills from a Physical backup. The annotations of
// the PostgreSQL are the state of it:
//
//	recovery  former-volumes  meaning
//	-         -               it has not begun, or is over
//	name      n               it is under way, and the volumes n are returned to if it fails or is deleted
//	name      -               it has succeeded: the volumes are kept
//
// All three annotations change in one write, with the version that was read. Status follows.

// poll is how often a restore in place checks its timeout at least.
const pollInPlace = time.Minute

// isInPlace reports whether a Restore restores a PostgreSQL from a Physical backup. Only a Backup says of which method it is: a location
// counts as Physical if there is a target.
func (r *Reconciler) isInPlace(ctx context.Context, restore *backupv1alpha1.Restore) (bool, error) {
	spec := &restore.Spec
	switch {
	case spec.To.PostgresRef == "" || spec.Overwrite != spec.To.PostgresRef:
		return false, nil
	case restore.Status.Volumes > 0 || spec.HasTarget():
		return true, nil
	case !restore.Status.StartTime.IsZero() || spec.From.Location != nil || backupjob.HasEnded(restore.Status.Phase):
		return false, nil
	}
	b, err := r.backup(ctx, restore)
	if _, blocked := errors.AsType[*backupjob.BlockedError](err); blocked {
		return false, nil // the flow of Jobs reports it
	}
	return err == nil && b.Spec.Method == backupv1alpha1.MethodPhysical, err
}

func (r *Reconciler) reconcileInPlace(ctx context.Context, restore *backupv1alpha1.Restore) (reconcile.Result, error) {
	pg := &databasev1alpha1.PostgreSQL{}
	err := r.Client.Get(ctx, client.ObjectKey{Namespace: restore.Namespace, Name: restore.Spec.To.PostgresRef}, pg)
	if apierrors.IsNotFound(err) {
		pg = nil
	} else if err != nil {
		return reconcile.Result{}, fmt.Errorf("get PostgreSQL %q: %w", restore.Spec.To.PostgresRef, err)
	}
	if pg != nil && restoredBy(pg) == restore.Name {
		if _, uid := pg.RestoredBy(); uid != restore.UID {
			return reconcile.Result{}, r.takeBack(ctx, pg, restore.Name) // of a deleted Restore of this name
		}
		return r.follow(ctx, restore, pg)
	}
	run := backupjob.RestoreOf(restore)
	switch {
	case backupjob.HasEnded(restore.Status.Phase):
		return reconcile.Result{}, nil
	case restore.Status.Volumes > 0:
		return reconcile.Result{}, r.checkLost(ctx, restore)
	}
	if blocked := r.mayBegin(ctx, restore, pg); blocked != nil {
		phase := backupv1alpha1.RunPending
		if blocked.Final {
			phase = backupv1alpha1.RunFailed
		}
		run.Report(phase, blocked.Reason, blocked.Message, r.Clock.Now())
		return reconcile.Result{RequeueAfter: blocked.Poll}, nil
	}
	return reconcile.Result{RequeueAfter: pollInPlace}, r.begin(ctx, restore, pg)
}

// checkLost reports that nothing restores the PostgreSQL any more, after asking the API server: the cache may not show the annotation yet.
func (r *Reconciler) checkLost(ctx context.Context, restore *backupv1alpha1.Restore) error {
	pg := &databasev1alpha1.PostgreSQL{}
	err := r.Live.Get(ctx, client.ObjectKey{Namespace: restore.Namespace, Name: restore.Spec.To.PostgresRef}, pg)
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("get PostgreSQL %q: %w", restore.Spec.To.PostgresRef, err)
	}
	if _, uid := pg.RestoredBy(); err == nil && uid == restore.UID {
		return nil // the watch brings it
	}
	run := backupjob.RestoreOf(restore)
	run.Report(backupv1alpha1.RunFailed, backupv1alpha1.ReasonRestoreFailed, fmt.Sprintf(
		"PostgreSQL %q was deleted, or its annotation %s was removed: create another Restore", restore.Spec.To.PostgresRef, databasev1alpha1.AnnotationRecovery), r.Clock.Now())
	return nil
}

// mayBegin returns why a restore in place cannot begin yet.
func (r *Reconciler) mayBegin(ctx context.Context, restore *backupv1alpha1.Restore, pg *databasev1alpha1.PostgreSQL) *backupjob.BlockedError {
	if restore.Spec.From.Location == nil {
		b, err := r.backup(ctx, restore)
		if blocked, ok := errors.AsType[*backupjob.BlockedError](err); ok {
			return blocked
		}
		if err != nil {
			return &backupjob.BlockedError{Reason: backupv1alpha1.ReasonBackupMissing, Message: err.Error(), Poll: pollMissing}
		}
		if b.Spec.Method != backupv1alpha1.MethodPhysical {
			return &backupjob.BlockedError{
				Reason: backupv1alpha1.ReasonBackupUnsuitable, Final: true,
				Message: fmt.Sprintf("Backup %q is Logical, so it has no point in time to restore: remove targetTime and the like", b.Name),
			}
		}
	}
	if restore.Spec.IdentitySecretRef != nil {
		return &backupjob.BlockedError{
			Reason: backupv1alpha1.ReasonBackupUnsuitable, Final: true, Message: "identitySecretRef: a Physical backup is never encrypted: remove the field",
		}
	}
	return waitForPostgreSQL(restore.Spec.To.PostgresRef, pg)
}

// waitForPostgreSQL returns why a PostgreSQL cannot be restored in place now. It need not be ready: its data may be why it is restored.
func waitForPostgreSQL(name string, pg *databasev1alpha1.PostgreSQL) *backupjob.BlockedError {
	switch {
	case pg == nil:
		return backupjob.Waiting(backupv1alpha1.ReasonPostgreSQLMissing, "to.postgresRef: PostgreSQL %q does not exist: create it, or create another Restore", name)
	case pg.Spec.Paused:
		return backupjob.Waiting(backupv1alpha1.ReasonPostgreSQLNotReady, "PostgreSQL %q is paused: set its spec.paused to false", name)
	case pg.Spec.Hibernated:
		return backupjob.Waiting(backupv1alpha1.ReasonPostgreSQLNotReady, "PostgreSQL %q is hibernated: set its spec.hibernated to false", name)
	case restoredBy(pg) != "":
		return backupjob.Waiting(backupv1alpha1.ReasonWaiting, "Restore %q of PostgreSQL %q is under way", restoredBy(pg), name)
	}
	requested, ok := pg.RequestedVolumes()
	if !ok || int32(requested) != pg.Status.Volumes { //nolint:gosec // at most 999
		return backupjob.Waiting(backupv1alpha1.ReasonPostgreSQLNotReady, "PostgreSQL %q does not use the volumes yet that its annotation %s names: look at its conditions",
			name, databasev1alpha1.AnnotationVolumes)
	}
	return nil
}

func restoredBy(pg *databasev1alpha1.PostgreSQL) string {
	name, _ := pg.RestoredBy()
	return name
}

// begin has the PostgreSQL start with new volumes.
func (r *Reconciler) begin(ctx context.Context, restore *backupv1alpha1.Restore, pg *databasev1alpha1.PostgreSQL) error {
	former, _ := pg.RequestedVolumes()
	volumes, err := r.unusedVolumes(ctx, pg, former)
	if err != nil {
		return err
	}
	err = r.annotate(ctx, pg, map[string]any{
		databasev1alpha1.AnnotationVolumes: strconv.Itoa(volumes), databasev1alpha1.AnnotationRecovery: restore.Name + "/" + string(restore.UID),
		databasev1alpha1.AnnotationFormerVolumes: strconv.Itoa(former),
	})
	if err != nil {
		return err
	}
	r.Events.Eventf(pg, restore, corev1.EventTypeNormal, "RestoreStarted", "Restore",
		"Restore %s restores this PostgreSQL in place, on the volumes %d; the volumes %d are kept", restore.Name, volumes, former)
	r.reportRunning(restore, volumes, former, "all instances are being stopped")
	return nil
}

// unusedVolumes is the lowest number above all volumes that have claims. The API server is asked: people may have made claims.
func (r *Reconciler) unusedVolumes(ctx context.Context, pg *databasev1alpha1.PostgreSQL, present int) (int, error) {
	claims := &metav1.PartialObjectMetadataList{}
	claims.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaimList"))
	if err := r.Live.List(ctx, claims, client.InNamespace(pg.Namespace)); err != nil {
		return 0, fmt.Errorf("list PVCs: %w", err)
	}
	for i := range claims.Items {
		if number, _, ok := agentapi.ParseClaim(pg.Name, claims.Items[i].Name); ok {
			present = max(present, number)
		}
	}
	return present + 1, nil
}

// reportRunning also fills in what a process that was lost before its status was written has left out.
func (r *Reconciler) reportRunning(restore *backupv1alpha1.Restore, volumes, former int, message string) {
	st := &restore.Status
	st.Volumes, st.FormerVolumes = int32(volumes), int32(former) //nolint:gosec // at most 1000
	if st.StartTime.IsZero() {
		st.StartTime = &metav1.Time{Time: r.Clock.Now().Truncate(time.Second)}
	}
	run := backupjob.RestoreOf(restore)
	run.Report(backupv1alpha1.RunRunning, backupv1alpha1.ReasonRunning, message, r.Clock.Now())
}

// follow carries a restore that has begun to its end.
func (r *Reconciler) follow(ctx context.Context, restore *backupv1alpha1.Restore, pg *databasev1alpha1.PostgreSQL) (reconcile.Result, error) {
	former, begun := formerVolumes(pg)
	volumes, _ := pg.RequestedVolumes()
	run := backupjob.RestoreOf(restore)
	switch {
	case restore.Status.Phase == backupv1alpha1.RunFailed:
		return reconcile.Result{}, r.takeBack(ctx, pg, restore.Name)
	case restore.Status.Phase == backupv1alpha1.RunSucceeded:
		return reconcile.Result{}, r.annotate(ctx, pg, map[string]any{databasev1alpha1.AnnotationRecovery: nil})
	case !begun: // only the status was not written yet
		if restore.Status.FormerVolumes > 0 {
			volumes, former = int(restore.Status.Volumes), int(restore.Status.FormerVolumes)
		}
		if p := restore.Status.Progress; p != nil { // all was copied, although the last report may be from before
			restore.Status.Progress = new(progress.Complete(backupv1alpha1.Progress{Bytes: p.TotalBytes}))
		}
		run.Report(backupv1alpha1.RunSucceeded, backupv1alpha1.ReasonSucceeded, keptMessage(pg, volumes, former), r.Clock.Now())
		requeue.Request(ctx)
		return reconcile.Result{}, nil
	}
	r.reportRunning(restore, volumes, former, "PostgreSQL "+pg.Name+" is being restored")
	restore.Status.Progress = cmp.Or(progressInPlace(pg, volumes), restore.Status.Progress)
	outcome := judgeInPlace(pg, volumes, r.Clock.Since(restore.Status.StartTime.Time), time.Duration(restore.Spec.TimeoutSeconds)*time.Second)
	switch outcome.phase {
	case backupv1alpha1.RunSucceeded:
		requeue.Request(ctx)
		r.Events.Eventf(pg, restore, corev1.EventTypeNormal, "Restored", "Restore", "Restore %s has restored this PostgreSQL: %s", restore.Name, keptMessage(pg, volumes, former))
		return reconcile.Result{}, r.annotate(ctx, pg, map[string]any{databasev1alpha1.AnnotationFormerVolumes: nil})
	case backupv1alpha1.RunFailed:
		message := fmt.Sprintf("%s. PostgreSQL %s returns to its former data. The PVCs %s of this attempt are kept, and can be deleted",
			outcome.message, pg.Name, claims(pg, volumes))
		run.Report(outcome.phase, outcome.reason, message, r.Clock.Now())
		requeue.Request(ctx) // which takes it back, when this is known
		return reconcile.Result{}, nil
	}
	run.Report(outcome.phase, outcome.reason, outcome.message, r.Clock.Now())
	return reconcile.Result{RequeueAfter: pollInPlace}, nil
}

// formerVolumes is the number of the volumes to return to.
func formerVolumes(pg *databasev1alpha1.PostgreSQL) (number int, ok bool) {
	number, err := strconv.Atoi(pg.Annotations[databasev1alpha1.AnnotationFormerVolumes])
	return number, err == nil
}

func keptMessage(pg *databasev1alpha1.PostgreSQL, volumes, former int) string {
	return fmt.Sprintf("PostgreSQL %s uses the volumes %d. The previous PVCs %s are kept: delete them when you no longer need them, or return to them with the annotation %s=%d",
		pg.Name, volumes, claims(pg, former), databasev1alpha1.AnnotationVolumes, former)
}

// claims names the claims of all instances, in short.
func claims(pg *databasev1alpha1.PostgreSQL, volumes int) string {
	first := agentapi.Claim(pg.Name, volumes, 0)
	if n := pg.Spec.Replicas; n != nil && *n > 1 {
		return fmt.Sprintf("%s to %d", first, *n-1)
	}
	return first
}

// takeBack has the PostgreSQL return to the volumes that it had before.
func (r *Reconciler) takeBack(ctx context.Context, pg *databasev1alpha1.PostgreSQL, restore string) error {
	change := map[string]any{databasev1alpha1.AnnotationRecovery: nil, databasev1alpha1.AnnotationFormerVolumes: nil}
	former, begun := formerVolumes(pg)
	if begun {
		change[databasev1alpha1.AnnotationVolumes] = strconv.Itoa(former)
	}
	if err := r.annotate(ctx, pg, change); err != nil {
		return err
	}
	if begun {
		r.Events.Eventf(pg, nil, corev1.EventTypeWarning, "RestoreTakenBack", "Restore", "Restore %s failed or was deleted: the instances return to the volumes %d", restore, former)
	}
	return nil
}

// annotate changes annotations, if no other client wrote in between; nil removes one.
func (r *Reconciler) annotate(ctx context.Context, pg *databasev1alpha1.PostgreSQL, change map[string]any) error {
	patch, err := annotationPatch(pg, change)
	if err == nil {
		err = r.Client.Patch(ctx, pg.DeepCopy(), client.RawPatch(types.MergePatchType, patch), client.FieldOwner("restore"))
	}
	if apierrors.IsConflict(err) {
		requeue.Request(ctx)
		return nil
	}
	if err != nil {
		return fmt.Errorf("annotate PostgreSQL %q: %w", pg.Name, err)
	}
	return nil
}

// onDeleted takes back what a deleted Restore has not finished.
func (r *Reconciler) onDeleted(ctx context.Context, key types.NamespacedName) (done bool, err error) {
	all := &databasev1alpha1.PostgreSQLList{}
	if err := r.Client.List(ctx, all, client.InNamespace(key.Namespace)); err != nil {
		return false, fmt.Errorf("list PostgreSQLs: %w", err)
	}
	for i := range all.Items {
		if pg := &all.Items[i]; restoredBy(pg) == key.Name && pg.DeletionTimestamp == nil {
			if err := r.takeBack(ctx, pg, key.Name); err != nil {
				return false, err
			}
		}
	}
	return true, nil
}

// enqueueInPlace maps a PostgreSQL to the Restore that it names, which may be deleted.
var enqueueInPlace = handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
	pg, ok := o.(*databasev1alpha1.PostgreSQL)
	if !ok || restoredBy(pg) == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: pg.Namespace, Name: restoredBy(pg)}}}
})
