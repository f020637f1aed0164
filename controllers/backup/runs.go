package backup

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/backupjob"
	"github.com/fettle-dev/fettle/internal/backup/schedule"
	"github.com/fettle-dev/fettle/internal/reconciler"
)

// How many ended BackupRuns are kept: of those that the schedule made, and of those that people made.
const (
	keepScheduled = 10
	keepManual    = 50
)

// enqueueBackup maps a BackupRun to its Backup.
func (r *Reconciler) enqueueBackup() handler.EventHandler {
	return handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		name := o.(*backupv1alpha1.BackupRun).Spec.Backup
		return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: o.GetNamespace(), Name: name}}}
	})
}

// due returns the slot to start a run for now, zero if there is none, and the time of the next one, zero if there is none.
func due(b *backupv1alpha1.Backup, times *schedule.Schedule, now time.Time) (slot, next time.Time) {
	last, creation := time.Time{}, b.CreationTimestamp.Truncate(time.Minute)
	if b.Status.LastScheduleTime != nil {
		last = b.Status.LastScheduleTime.Time
	}
	switch {
	case b.Spec.Suspend, b.Spec.Schedule != "" && times == nil:
		return time.Time{}, time.Time{}
	case b.Spec.Schedule == "":
		// One run, for the minute of the creation.
		if last.IsZero() {
			slot = creation
		}
		return slot, time.Time{}
	}
	timing := schedule.Timing{
		Jitter: schedule.Jitter(string(b.UID), b.Spec.JitterSeconds), Deadline: time.Duration(b.Spec.StartingDeadlineSeconds) * time.Second,
		After: b.CreationTimestamp.Time,
	}
	if last.After(timing.After) {
		timing.After = last
	}
	slot, next = times.Due(timing, now)
	if last.IsZero() && slot.IsZero() && b.Spec.Method == backupv1alpha1.MethodPhysical {
		slot = creation // without a base backup, the archived WAL is of no use
	}
	return slot, next
}

// runOf is the BackupRun for a slot.
func runOf(b *backupv1alpha1.Backup, slot time.Time) *backupv1alpha1.BackupRun {
	labels := reconciler.Labels("Backup", b.Name, "backup")
	labels[backupv1alpha1.LabelBackup] = b.Name
	return &backupv1alpha1.BackupRun{
		ObjectMeta: metav1.ObjectMeta{Name: schedule.RunName(b.Name, slot), Namespace: b.Namespace, Labels: labels},
		Spec:       backupv1alpha1.BackupRunSpec{Backup: b.Name},
	}
}

// slotOf is the slot in the name of a run; zero if it has none.
func slotOf(b *backupv1alpha1.Backup, run *backupv1alpha1.BackupRun) time.Time {
	slot, err := time.Parse(schedule.SlotFormat, strings.TrimPrefix(run.Name, b.Name+"-"))
	if err != nil {
		return time.Time{}
	}
	return slot
}

// active returns the run that may run: the one that was chosen before until it has ended, otherwise the oldest one, "" if there is none.
// While the Backup cannot run, no other one is chosen.
func active(b *backupv1alpha1.Backup, runs []backupv1alpha1.BackupRun, accepted bool) string {
	if run := find(runs, b.Status.ActiveRun); run != nil && !backupjob.HasEnded(run.Status.Phase) {
		return run.Name
	}
	var oldest *backupv1alpha1.BackupRun
	for i := range runs {
		run := &runs[i]
		if backupjob.HasEnded(run.Status.Phase) || run.DeletionTimestamp != nil || !accepted {
			continue
		}
		if oldest == nil || compareCreation(run, oldest) < 0 {
			oldest = run
		}
	}
	if oldest == nil {
		return ""
	}
	return oldest.Name
}

func compareCreation(a, b *backupv1alpha1.BackupRun) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), strings.Compare(a.Name, b.Name))
}

func find(runs []backupv1alpha1.BackupRun, name string) *backupv1alpha1.BackupRun {
	i := slices.IndexFunc(runs, func(r backupv1alpha1.BackupRun) bool { return r.Name == name })
	if i < 0 {
		return nil
	}
	return &runs[i]
}

// ended returns the runs that have ended, the first to end first.
func ended(runs []backupv1alpha1.BackupRun) []*backupv1alpha1.BackupRun {
	var out []*backupv1alpha1.BackupRun
	for i := range runs {
		if r := &runs[i]; backupjob.HasEnded(r.Status.Phase) && r.Status.CompletionTime != nil {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *backupv1alpha1.BackupRun) int {
		return compareEnd(a.Status.CompletionTime, a.Name, b.Status.CompletionTime, b.Name)
	})
	return out
}

// compareEnd orders runs by their end. Times have whole seconds: the names order those that ended together, so that none counts twice.
func compareEnd(at *metav1.Time, name string, otherAt *metav1.Time, other string) int {
	return cmp.Or(at.Compare(otherAt.Time), strings.Compare(name, other))
}

// expired returns the ended runs that are not kept: the newest ones of each sort, and the last successful one, are.
func expired(b *backupv1alpha1.Backup, runs []backupv1alpha1.BackupRun) []*backupv1alpha1.BackupRun {
	var out []*backupv1alpha1.BackupRun
	scheduled, manual := keepScheduled, keepManual
	for _, run := range slices.Backward(ended(runs)) {
		left := &manual
		if metav1.IsControlledBy(run, b) {
			left = &scheduled
		}
		if *left--; *left < 0 && run.Name != b.Status.LastSuccessfulRun && run.DeletionTimestamp == nil {
			out = append(out, run)
		}
	}
	return out
}

// record takes what has become of the runs since the last record into the status. A run that is deleted later stays recorded.
func record(b *backupv1alpha1.Backup, runs []backupv1alpha1.BackupRun) {
	st := &b.Status
	for i := range runs {
		if slot := slotOf(b, &runs[i]); !slot.IsZero() && (st.LastScheduleTime == nil || slot.After(st.LastScheduleTime.Time)) {
			st.LastScheduleTime = &metav1.Time{Time: slot}
		}
	}
	for _, run := range ended(runs) {
		at := run.Status.CompletionTime
		if st.LastRunTime != nil && compareEnd(at, run.Name, st.LastRunTime, st.LastRun) <= 0 {
			continue
		}
		st.LastRun, st.LastRunTime = run.Name, at.DeepCopy()
		if run.Status.Phase == backupv1alpha1.RunFailed {
			st.ConsecutiveFailures++
			continue
		}
		recordSuccess(st, run)
	}
}

func recordSuccess(st *backupv1alpha1.BackupStatus, run *backupv1alpha1.BackupRun) {
	at := run.Status.CompletionTime
	st.ConsecutiveFailures = 0
	st.LastSuccessfulRun, st.LastSuccessfulTime, st.LastLocation = run.Name, at.DeepCopy(), run.Status.Location
	if start := run.Status.StartTime; start != nil {
		st.LastDurationSeconds = int64(at.Sub(start.Time).Seconds())
	}
	if result := run.Status.Result; result != nil {
		st.LastSizeBytes, st.FirstRecoverableTime = result.StoredBytes, result.FirstRecoverableTime.DeepCopy()
	}
}
