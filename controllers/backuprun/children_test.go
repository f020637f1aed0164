package backuprun

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
)

// The retention of a run keeps what a Restore reads, however many runs succeed meanwhile.
func TestKept(t *testing.T) {
	restore := func(run string, phase backupv1alpha1.RunPhase) backupv1alpha1.Restore {
		r := backupv1alpha1.Restore{}
		r.Spec.From.Run, r.Status.Phase = run, phase
		return r
	}
	restores := []backupv1alpha1.Restore{
		restore("read", backupv1alpha1.RunRunning), restore("new", ""), restore("done", backupv1alpha1.RunSucceeded),
		restore("failed", backupv1alpha1.RunFailed), restore("", backupv1alpha1.RunRunning), restore("last", backupv1alpha1.RunRunning),
	}
	b := &backupv1alpha1.Backup{}
	b.Status.LastSuccessfulRun = "last"
	if diff := cmp.Diff([]string{}, kept(b, nil)); diff != "" {
		t.Errorf("no verification: %s", diff)
	}
	b.Spec.Verify, b.Status.LastVerifiedRun = &backupv1alpha1.BackupVerification{}, "verified"
	if diff := cmp.Diff([]string{"last", "new", "read", "verified"}, kept(b, restores)); diff != "" {
		t.Error(diff)
	}
}
