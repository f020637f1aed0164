package postgresql

import (
	"errors"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/test/gitops"
)

func TestGitOps_health(t *testing.T) {
	updating := gitops.Health{Kstatus: "InProgress", Argo: "Progressing"}
	for name, tc := range map[string]struct {
		words string
		// phase is that of the status before.
		phase  databasev1alpha1.PostgreSQLPhase
		change func(*databasev1alpha1.PostgreSQL, *observed)
		want   gitops.Health
		// paused is the health if the object is paused in this state.
		paused gitops.Health
	}{
		"creating":             {"N N", "", nil, gitops.Creating, gitops.PausedNotReady},
		"creating a standby":   {"P N", databasev1alpha1.PhaseCreating, nil, updating, gitops.Health{}},
		"ready":                {"P R", databasev1alpha1.PhaseRunning, nil, gitops.Ready, gitops.Paused},
		"an unready standby":   {"P N", databasev1alpha1.PhaseRunning, nil, gitops.ServesDegraded, gitops.Paused},
		"no primary":           {"N R", databasev1alpha1.PhaseRunning, nil, gitops.Degraded, gitops.PausedNotReady},
		"an update":            {"P R!", databasev1alpha1.PhaseRunning, func(pg *databasev1alpha1.PostgreSQL, seen *observed) { _, seen.step = next(pg, &seen.cluster) }, updating, gitops.Health{}},
		"a rejected parameter": {"P R", databasev1alpha1.PhaseRunning, func(_ *databasev1alpha1.PostgreSQL, seen *observed) { seen.parameters = errors.New("no") }, gitops.Blocked, gitops.Health{}},
		"an object of the name": {"P R", databasev1alpha1.PhaseRunning, func(_ *databasev1alpha1.PostgreSQL, seen *observed) {
			seen.applyErr = &apply.ConflictError{}
		}, gitops.Blocked, gitops.Health{}},
		"a missing Secret": {"P R", databasev1alpha1.PhaseRunning, func(_ *databasev1alpha1.PostgreSQL, seen *observed) { seen.secretMissing = "a" }, gitops.ServesDegraded, gitops.Health{}},
		"hibernated":       {"", databasev1alpha1.PhaseRunning, func(pg *databasev1alpha1.PostgreSQL, _ *observed) { pg.Spec.Hibernated = true }, gitops.Paused, gitops.Paused},
	} {
		pg, seen := wanting(2), &observed{at: time.Now(), cluster: *picture(2, tc.words)}
		if tc.words == "" {
			seen.cluster = *picture(0, "")
		}
		pg.CreationTimestamp = metav1.NewTime(seen.at)
		if tc.phase != "" {
			pg.Status.Timeline, pg.Status.Phase, pg.Status.ConnectionString = 1, tc.phase, "postgresql://"
		}
		for i := range seen.cluster.instances {
			if in := &seen.cluster.instances[i]; in.ready() {
				in.status = &agentapi.Status{Ready: true}
			}
		}
		if tc.change != nil {
			tc.change(pg, seen)
		}
		setStatus(pg, seen)
		gitops.Check(t, name, pg, tc.want)

		if tc.paused != (gitops.Health{}) {
			paused := pg.DeepCopy()
			paused.Spec.Paused = true
			setPaused(paused, seen)
			gitops.Check(t, "paused, "+name, paused, tc.paused)
		}

		pg.DeletionTimestamp = &metav1.Time{Time: seen.at}
		conditions.SetTerminating(pg)
		gitops.Check(t, "deleted, "+name, pg, gitops.Deleting)
	}
}
