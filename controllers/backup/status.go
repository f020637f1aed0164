package backup

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/conditions"
)

// stalled are the reasons that only a change of the spec resolves.
var stalled = []string{backupv1alpha1.ReasonScheduleInvalid, backupv1alpha1.ReasonNotManaged}

// setStatus reports whether runs can start, and how the last one of them ended.
func setStatus(b *backupv1alpha1.Backup, accepted conditions.State, runs []backupv1alpha1.BackupRun) {
	conditions.SetState(b, backupv1alpha1.BackupAccepted, true, accepted)
	conditions.SetState(b, backupv1alpha1.BackupLastRunSucceeded, true, lastRun(b, runs))
	summarized := []string{backupv1alpha1.BackupAccepted, backupv1alpha1.BackupLastRunSucceeded}
	if b.Status.LastRun == "" && b.Spec.Schedule != "" && (b.Spec.Method != backupv1alpha1.MethodPhysical || b.Spec.Suspend) {
		summarized = summarized[:1] // it does what it is asked to: it waits for the first slot
	}
	if meta.IsStatusConditionFalse(b.Status.Conditions, backupv1alpha1.BackupVerified) {
		summarized = append(summarized, backupv1alpha1.BackupVerified)
	}
	conditions.Summarize(b, summarized...)
	if conditions.ReadyOf(b).Status == metav1.ConditionTrue && b.Spec.Suspend {
		conditions.Set(b, fettlev1.Ready, metav1.ConditionTrue, backupv1alpha1.ReasonSuspended, "spec.suspend is true: no scheduled run starts")
	}
	conditions.SetStalled(b, false, stalled...)
	b.SetObserved(string(phase(b, accepted)))
}

// lastRun says how the last run ended. That of a failed run which was deleted since stays as it was reported.
func lastRun(b *backupv1alpha1.Backup, runs []backupv1alpha1.BackupRun) conditions.State {
	switch b.Status.LastRun {
	case "":
		return conditions.Unknown(backupv1alpha1.ReasonNoRunYet, "no run has ended yet")
	case b.Status.LastSuccessfulRun:
		return conditions.True(backupv1alpha1.ReasonSucceeded, "")
	}
	var failure *metav1.Condition
	if run := find(runs, b.Status.LastRun); run != nil {
		failure = meta.FindStatusCondition(run.Status.Conditions, fettlev1.Ready)
	}
	if failure != nil {
		return conditions.False(failure.Reason, fmt.Sprintf("BackupRun %q failed: %s", b.Status.LastRun, failure.Message))
	}
	if was := meta.FindStatusCondition(b.Status.Conditions, backupv1alpha1.BackupLastRunSucceeded); was != nil && was.Status == metav1.ConditionFalse {
		return conditions.False(was.Reason, was.Message)
	}
	return conditions.False(backupv1alpha1.ReasonRunFailed, fmt.Sprintf("BackupRun %q failed", b.Status.LastRun))
}

func phase(b *backupv1alpha1.Backup, accepted conditions.State) backupv1alpha1.BackupPhase {
	ready := conditions.ReadyOf(b)
	waiting := []string{backupv1alpha1.ReasonPostgreSQLMissing, backupv1alpha1.ReasonPostgreSQLNotReady, fettlev1.ReasonReconciling}
	switch {
	case accepted.Status != metav1.ConditionTrue && meta.IsStatusConditionTrue(b.Status.Conditions, fettlev1.Stalled):
		return backupv1alpha1.PhaseFailed
	case slices.Contains(waiting, ready.Reason):
		return backupv1alpha1.PhasePending
	case b.Status.ActiveRun != "":
		return backupv1alpha1.PhaseRunning
	case ready.Status == metav1.ConditionFalse:
		return backupv1alpha1.PhaseDegraded
	case b.Spec.Suspend:
		return backupv1alpha1.PhaseSuspended
	case ready.Status != metav1.ConditionTrue:
		return backupv1alpha1.PhasePending
	case b.Spec.Schedule == "":
		return backupv1alpha1.PhaseCompleted
	}
	return backupv1alpha1.PhaseScheduled
}

// setPaused reports that nothing starts.
func setPaused(b *backupv1alpha1.Backup) {
	kept := "stored backups stay"
	if b.Status.ActiveRun != "" {
		kept = fmt.Sprintf("BackupRun %q goes on to its end", b.Status.ActiveRun)
	}
	conditions.SetPaused(b, kept)
}

func readyNote(b *backupv1alpha1.Backup) string {
	switch {
	case b.Status.LastSuccessfulRun != "":
		return "the last backup is at " + b.Status.LastLocation
	case b.Status.NextRunTime != nil:
		return "the first run starts at " + b.Status.NextRunTime.UTC().Format("2006-01-02 15:04:05 MST")
	}
	return ""
}

func created(_, before *backupv1alpha1.Backup) bool { return before.Status.ObservedGeneration == 0 }
