package backup

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/test/gitops"
)

func TestGitOps_health(t *testing.T) {
	ok := conditions.True(backupv1alpha1.ReasonAccepted, "")
	no := func(reason string) conditions.State { return conditions.False(reason, "because") }
	scheduled := func(b *backupv1alpha1.Backup) { b.Spec.Schedule = "@daily" }
	suspend := func(b *backupv1alpha1.Backup) { b.Spec.Suspend = true }
	physical := func(b *backupv1alpha1.Backup) { b.Spec.Method = backupv1alpha1.MethodPhysical }
	ran := func(phase backupv1alpha1.RunPhase) func(*backupv1alpha1.Backup) {
		return func(b *backupv1alpha1.Backup) { record(b, []backupv1alpha1.BackupRun{run("a", 1, phase)}) }
	}
	active := func(b *backupv1alpha1.Backup) { b.Status.ActiveRun = "b" }
	type changes []func(*backupv1alpha1.Backup)
	for name, c := range map[string]struct {
		accepted conditions.State
		changes  changes
		phase    backupv1alpha1.BackupPhase
		want     gitops.Health
	}{
		"first run":                {ok, changes{active}, backupv1alpha1.PhaseRunning, gitops.Creating},
		"before the first slot":    {ok, changes{scheduled}, backupv1alpha1.PhaseScheduled, gitops.Ready},
		"before the first base":    {ok, changes{scheduled, physical, active}, backupv1alpha1.PhaseRunning, gitops.Creating},
		"base, suspended":          {ok, changes{scheduled, physical, suspend}, backupv1alpha1.PhaseSuspended, gitops.Paused},
		"succeeded":                {ok, changes{ran(succeeded)}, backupv1alpha1.PhaseCompleted, gitops.Ready},
		"succeeded, scheduled":     {ok, changes{scheduled, ran(succeeded)}, backupv1alpha1.PhaseScheduled, gitops.Ready},
		"succeeded, runs again":    {ok, changes{scheduled, ran(succeeded), active}, backupv1alpha1.PhaseRunning, gitops.Ready},
		"failed":                   {ok, changes{scheduled, ran(failed)}, backupv1alpha1.PhaseDegraded, gitops.Degraded},
		"suspended":                {ok, changes{scheduled, suspend, ran(succeeded)}, backupv1alpha1.PhaseSuspended, gitops.Paused},
		"suspended after failure":  {ok, changes{scheduled, suspend, ran(failed)}, backupv1alpha1.PhaseDegraded, gitops.Degraded},
		"waits for its PostgreSQL": {no(backupv1alpha1.ReasonPostgreSQLNotReady), nil, backupv1alpha1.PhasePending, gitops.Creating},
		"Secret missing":           {no(backupv1alpha1.ReasonSourceSecretMissing), changes{ran(succeeded)}, backupv1alpha1.PhaseDegraded, gitops.Degraded},
		"not managed":              {no(backupv1alpha1.ReasonNotManaged), nil, backupv1alpha1.PhaseFailed, gitops.Blocked},
		"invalid schedule":         {no(backupv1alpha1.ReasonScheduleInvalid), nil, backupv1alpha1.PhaseFailed, gitops.Blocked},
	} {
		b := newBackup(c.changes...)
		setStatus(b, c.accepted, nil)
		if b.Status.Phase != c.phase {
			t.Errorf("%s: phase %s, want %s", name, b.Status.Phase, c.phase)
		}
		gitops.Check(t, name, b, c.want)
		setPaused(b)
		paused := gitops.PausedNotReady
		if conditions.ReadyOf(b).Status == metav1.ConditionTrue {
			paused = gitops.Paused
		}
		gitops.Check(t, name+", paused", b, paused)
		b.DeletionTimestamp = at(9)
		conditions.SetTerminating(b)
		gitops.Check(t, name+", deleted", b, gitops.Deleting)
	}
}
