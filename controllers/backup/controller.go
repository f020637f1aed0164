// Package backup starts the BackupRuns of a Backup at the times of its schedule, one at a time, and sums up what became of them.
//
// Status.activeRun names the run that may run: the controller of BackupRuns starts no other. BackupRuns go with their Backup; what they
// stored is never deleted from here.
package backup

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/backup/backupjob"
	"github.com/fettle-dev/fettle/internal/backup/schedule"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/monitoring"
	"github.com/fettle-dev/fettle/internal/reconciler"
	"github.com/fettle-dev/fettle/internal/requeue"
)

// +kubebuilder:rbac:groups=backup.fettle.dev,resources=backups,verbs=list;watch
// +kubebuilder:rbac:groups=backup.fettle.dev,resources=backups/status,verbs=patch
// +kubebuilder:rbac:groups=backup.fettle.dev,resources=backups/finalizers,verbs=update
// +kubebuilder:rbac:groups=backup.fettle.dev,resources=backupruns,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=backup.fettle.dev,resources=restores,verbs=get;list;watch;create;delete
// +kubebuilder:rbac:groups=database.fettle.dev,resources=postgresqls,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;list;watch
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch

// longestWait is the longest time until a Backup is reconciled without an event, so that a clock that was set does not delay a run.
const longestWait = time.Hour

// Reconciler reconciles Backups.
type Reconciler struct {
	reconciler.Tools
}

// Setup registers the controller with the manager.
func Setup(mgr ctrl.Manager, opts reconciler.Options) error {
	tools, err := reconciler.New(mgr, monitoring.KindBackup, &backupv1alpha1.BackupList{}, opts, indexes...)
	if err != nil {
		return err
	}
	r := &Reconciler{Tools: tools}
	kind := &reconciler.Reconciler[backupv1alpha1.Backup, *backupv1alpha1.Backup]{
		Tools: tools, ReconcileObject: r.reconcile,
		Progress: []string{backupv1alpha1.ReasonNoRunYet, backupv1alpha1.ReasonPostgreSQLNotReady}, Normal: []string{backupv1alpha1.ReasonSuspended},
		// The run that may start is in the status: it is never late.
		StatusDelay: func(*backupv1alpha1.Backup, *backupv1alpha1.Backup) time.Duration { return 0 },
		ReadyNote:   readyNote, Created: created,
	}
	_, err = kind.Setup(mgr, r.watch)
	return err
}

func (r *Reconciler) reconcile(ctx context.Context, b *backupv1alpha1.Backup) (reconcile.Result, error) {
	if current, err := r.Applier.CacheCurrent(ctx, b); err != nil || !current {
		return reconcile.Result{}, err // or the watch brings what was written
	}
	runs, err := r.runs(ctx, b)
	if err != nil {
		return reconcile.Result{}, err
	}
	now := r.Clock.Now()
	record(b, runs)
	restores, err := r.verifications(ctx, b)
	if err != nil {
		return reconcile.Result{}, err
	}
	recordVerifications(b, restores)
	if b.Spec.Paused {
		setPaused(b)
		r.report(b, nil, now)
		return reconcile.Result{}, nil
	}
	times, accepted, err := r.accept(ctx, b)
	if err != nil {
		return reconcile.Result{}, err
	}
	b.Status.ActiveRun = active(b, runs, accepted.Status == metav1.ConditionTrue)
	wait, err := r.schedule(ctx, b, times, accepted, now)
	if err == nil {
		var next time.Duration
		next, err = r.verify(ctx, b, restores, accepted.Status == metav1.ConditionTrue, now)
		wait = reconciler.Sooner(wait, next)
	}
	if apply.Transient(err) {
		return reconcile.Result{}, err
	}
	if err != nil {
		accepted = conditions.False(apply.Reason(err), err.Error())
	}
	setVerified(b, restores)
	setStatus(b, accepted, runs)
	r.report(b, times, now)
	if err == nil {
		err = errors.Join(r.prune(ctx, b, runs), r.pruneVerifications(ctx, restores))
	}
	return reconcile.Result{RequeueAfter: reconciler.Sooner(wait, r.poll(accepted))}, err
}

// schedule starts the run that is due, unless another one is under way, and returns when to look again.
func (r *Reconciler) schedule(
	ctx context.Context, b *backupv1alpha1.Backup, times *schedule.Schedule, accepted conditions.State, now time.Time,
) (time.Duration, error) {
	slot, next := due(b, times, now)
	b.Status.NextRunTime = nil
	wait := time.Duration(0)
	if !next.IsZero() {
		b.Status.NextRunTime, wait = &metav1.Time{Time: next}, min(max(next.Sub(now), time.Second), longestWait)
	}
	if slot.IsZero() || b.Status.ActiveRun != "" || accepted.Status != metav1.ConditionTrue {
		return wait, nil // the end of the active run, or what is missing, triggers the next reconcile
	}
	run := runOf(b, slot)
	if err := r.Applier.Create(ctx, b, run); err != nil {
		return wait, err
	}
	log.FromContext(ctx).Info("started BackupRun", "run", run.Name, "slot", slot, "late", now.Sub(slot).Round(time.Second).String())
	b.Status.ActiveRun, b.Status.LastScheduleTime = run.Name, &metav1.Time{Time: slot}
	return wait, nil
}

// runs returns the Backup's BackupRuns. A run that was named active and is not in the cache is asked for at the API server: an operator
// that has just become the leader may not see it yet, and must not let another one start.
func (r *Reconciler) runs(ctx context.Context, b *backupv1alpha1.Backup) ([]backupv1alpha1.BackupRun, error) {
	list := &backupv1alpha1.BackupRunList{}
	err := r.Client.List(ctx, list, client.InNamespace(b.Namespace), client.MatchingFields{backupjob.IndexBackup: b.Name})
	if err != nil {
		return nil, fmt.Errorf("list BackupRuns: %w", err)
	}
	name := b.Status.ActiveRun
	if name == "" || find(list.Items, name) != nil {
		return list.Items, nil
	}
	run := &backupv1alpha1.BackupRun{}
	err = r.Live.Get(ctx, client.ObjectKey{Namespace: b.Namespace, Name: name}, run)
	switch {
	case apierrors.IsNotFound(err):
		return list.Items, nil
	case err != nil:
		return nil, fmt.Errorf("get BackupRun %q: %w", name, err)
	}
	return append(list.Items, *run), nil
}

// prune deletes BackupRuns that ended long ago. What they stored stays.
func (r *Reconciler) prune(ctx context.Context, b *backupv1alpha1.Backup, runs []backupv1alpha1.BackupRun) error {
	for _, run := range expired(b, runs) {
		err := r.Client.Delete(ctx, run, client.Preconditions{UID: &run.UID, ResourceVersion: &run.ResourceVersion},
			client.PropagationPolicy(metav1.DeletePropagationBackground))
		if err := requeue.IfOutdated(ctx, err); err != nil {
			return fmt.Errorf("delete BackupRun %q: %w", run.Name, err)
		}
	}
	return nil
}

// poll is when to look for something missing that no event tells of; 0 if one does.
func (r *Reconciler) poll(accepted conditions.State) time.Duration {
	if accepted.Reason == backupv1alpha1.ReasonSourceSecretMissing && !r.WatchSecrets {
		return time.Minute
	}
	return 0
}

// report sets the metrics of the Backup.
func (r *Reconciler) report(b *backupv1alpha1.Backup, times *schedule.Schedule, now time.Time) {
	st := &b.Status
	m := monitoring.Backup{
		LastRunEnded: st.LastRun != "", LastRunSucceeded: st.LastRun == st.LastSuccessfulRun, Suspended: b.Spec.Suspend || b.Spec.Paused,
		Duration: time.Duration(st.LastDurationSeconds) * time.Second, SizeBytes: st.LastSizeBytes,
	}
	if st.LastSuccessfulTime != nil {
		m.LastSuccess = st.LastSuccessfulTime.Time
	}
	if times != nil {
		m.Interval = times.Interval(now)
	}
	if verify, _ := parseVerification(b); verify != nil {
		m.VerifyInterval = verify.Interval(now)
	}
	if st.LastVerifiedTime != nil {
		m.LastVerified = st.LastVerifiedTime.Time
	}
	if c := meta.FindStatusCondition(st.Conditions, backupv1alpha1.BackupVerified); c != nil {
		m.VerificationEnded, m.VerificationSucceeded = c.Status != metav1.ConditionUnknown, c.Status == metav1.ConditionTrue
	}
	r.Metrics.BackupState(types.NamespacedName{Namespace: b.Namespace, Name: b.Name}, m)
}
