package webapp

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/test/gitops"
)

func TestGitOps_health(t *testing.T) {
	scene := func(name string) func(*fixture) {
		for _, s := range scenes {
			if s.name == name {
				return s.change
			}
		}
		t.Fatalf("no scene %q", name)
		return nil
	}
	for name, want := range map[string]gitops.Health{
		"no Deployment yet":                   gitops.Creating,
		"another template":                    gitops.Creating,
		"reference missing":                   gitops.Creating,
		"all well":                            gitops.Ready,
		"autoscaler adds pods":                gitops.Ready,
		"pods went down":                      gitops.Degraded,
		"quota":                               gitops.Degraded,
		"not allowed":                         gitops.Degraded,
		"no Gateway API":                      gitops.Degraded,
		"foreign Service":                     gitops.Blocked,
		"rejected":                            gitops.Blocked,
		"deadline":                            gitops.Blocked,
		"a foreign autoscaler beside the own": gitops.Blocked,
	} {
		s := newFixture(scene(name))
		s.status()
		gitops.Check(t, name, s.app, want)
		s.in, s.seen, s.app.Spec = newFixture(nil).in, newFixture(nil).seen, newFixture(nil).app.Spec
		s.status()
		gitops.Check(t, "all well after "+name, s.app, gitops.Ready)
	}
	for name, change := range map[string]func(*appsv1.WebApp){
		"before the first status": func(app *appsv1.WebApp) { app.Status = appsv1.WebAppStatus{} },
		"a spec not observed yet": func(app *appsv1.WebApp) { app.Generation++ },
	} {
		s := newFixture(nil)
		s.status()
		change(s.app)
		if name == "before the first status" { // as the CRD defaults it
			s.app.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionUnknown, Reason: "Reconciling"}}
		}
		gitops.Check(t, name, s.app, gitops.Creating)
	}
}

func TestGitOps_pausedAndDeleted(t *testing.T) {
	for name, tc := range map[string]struct {
		before, paused func(*fixture)
		want           gitops.Health
	}{
		"ready, then paused":           {nil, nil, gitops.Paused},
		"paused, then pods go down":    {nil, func(s *fixture) { down(s.seen.deployment) }, gitops.PausedNotReady},
		"not ready, then paused":       {func(s *fixture) { exceeded(s.seen.deployment) }, func(s *fixture) { exceeded(s.seen.deployment) }, gitops.PausedNotReady},
		"paused, without a Deployment": {nil, func(s *fixture) { s.seen.deployment = nil }, gitops.PausedNotReady},
	} {
		s := newFixture(tc.before)
		s.status()
		s.app.Generation++
		s.app.Spec.Paused = true
		setPaused(s.app, newFixture(tc.paused).seen)
		gitops.Check(t, name, s.app, tc.want)
		if s.app.Status.Phase != appsv1.PhasePaused {
			t.Errorf("%s: phase %s", name, s.app.Status.Phase)
		}
		s.app.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		conditions.SetTerminating(s.app)
		gitops.Check(t, "deleted", s.app, gitops.Deleting)
	}
	created := newFixture(nil)
	setPaused(created.app, observed{})
	gitops.Check(t, "created while paused", created.app, gitops.PausedNotReady)
}
