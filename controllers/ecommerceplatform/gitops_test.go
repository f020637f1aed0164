package ecommerceplatform

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/test/gitops"
)

func TestGitOps_health(t *testing.T) {
	for name, tc := range map[string]struct {
		stack  *platformv1.AppStack
		failed *problem
		want   gitops.Health
	}{
		"new":        {stack: stackOf(platformv1.PhasePending, "Unknown", "Reconciling"), want: gitops.Creating},
		"deploying":  {stack: stackOf(platformv1.PhaseDeploying, "False", "Deploying"), want: gitops.Creating},
		"ready":      {stack: stackOf(platformv1.PhaseRunning, "True", "Ready"), want: gitops.Ready},
		"degraded":   {stack: stackOf(platformv1.PhaseDegraded, "False", "ComponentNotReady"), want: gitops.Degraded},
		"paused":     {stack: stackOf("Paused", "True", "Paused"), want: gitops.Paused},
		"not backed": {stack: stalled(stackOf(platformv1.PhaseFailed, "False", "BackupDestinationMissing")), want: gitops.Blocked},
		"invalid":    {failed: &problem{"InvalidSpec", "no"}, want: gitops.Blocked},
		"conflict":   {failed: &problem{"NameConflict", "taken"}, want: gitops.Blocked},
		"no answer":  {failed: &problem{"WriteFailed", "no answer"}, want: gitops.Degraded},
	} {
		p := shop()
		setStatus(p, tc.stack, tc.failed)
		gitops.Check(t, name, p, tc.want)
		setStatus(p, stackOf(platformv1.PhaseRunning, "True", "Ready"), nil)
		gitops.Check(t, "ready after "+name, p, gitops.Ready)
		p.DeletionTimestamp = &metav1.Time{Time: now}
		conditions.SetTerminating(p)
		gitops.Check(t, "deleted", p, gitops.Deleting)
	}
}
