package backupjob

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/test/gitops"
)

func TestGitOps_health(t *testing.T) {
	now := time.Now()
	for name, c := range map[string]struct {
		verdict
		want gitops.Health
	}{
		"waits":     {verdict{backupv1alpha1.RunPending, backupv1alpha1.ReasonWaiting, "for another"}, gitops.Creating},
		"runs":      {verdict{backupv1alpha1.RunRunning, backupv1alpha1.ReasonRunning, "Job x runs"}, gitops.Creating},
		"succeeded": {verdict{backupv1alpha1.RunSucceeded, backupv1alpha1.ReasonSucceeded, ""}, gitops.Ready},
		"failed":    {verdict{backupv1alpha1.RunFailed, backupv1alpha1.ReasonPodLost, "evicted"}, gitops.Blocked},
	} {
		run := &backupv1alpha1.BackupRun{ObjectMeta: metav1.ObjectMeta{Name: "x", Generation: 1}}
		restore := &backupv1alpha1.Restore{ObjectMeta: metav1.ObjectMeta{Name: "x", Generation: 1}}
		for _, r := range []Run{RunOf(run), RestoreOf(restore)} {
			r.set(c.verdict, now)
			gitops.Check(t, name, r.Object, c.want)
			if ended := !(*r.CompletionTime).IsZero(); ended != HasEnded(c.phase) || *r.Phase != c.phase {
				t.Errorf("%s: phase %s, ended %t", name, *r.Phase, ended)
			}
			r.SetDeletionTimestamp(&metav1.Time{Time: now})
			conditions.SetTerminating(r.Object)
			gitops.Check(t, name+", deleted", r.Object, gitops.Deleting)
		}
	}
}
