package appstack

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/stack"
	"github.com/fettle-dev/fettle/test/gitops"
)

func TestGitOps_health(t *testing.T) {
	after := func(d time.Duration, states states, removed ...stack.Child) func(*platformv1.AppStack) {
		return func(s *platformv1.AppStack) {
			s.Status.Components = nil
			setStatus(s, shopPlan(), states, removed, noon)
			setStatus(s, shopPlan(), states, removed, noon.Add(d))
		}
	}
	invalid := func(detail string) func(*platformv1.AppStack) {
		return func(s *platformv1.AppStack) {
			setInvalid(s, field.ErrorList{field.Required(field.NewPath("spec"), detail)})
		}
	}
	ready := after(0, observed(nil))
	old := stack.Child{Component: "old", Kind: stack.KindWebApp, Object: &appsv1.WebApp{}}
	for name, tc := range map[string]struct {
		set          func(*platformv1.AppStack)
		want, paused gitops.Health
	}{
		"created":            {after(0, observed(states{"db": missing(), "cache": missing()}, "backend db", "frontend backend")), gitops.Creating, gitops.PausedNotReady},
		"ready":              {ready, gitops.Ready, gitops.Paused},
		"being changed":      {after(0, observed(states{"backend": outdated})), gitops.Creating, gitops.PausedNotReady},
		"next version waits": {after(0, observed(states{"db": starting}, "backend=db")), gitops.Creating, gitops.PausedNotReady},
		"a problem":          {after(0, observed(states{"backend": broken})), gitops.Degraded, gitops.PausedNotReady},
		"a foreign object":   {after(0, observed(states{"backend": conflict})), gitops.Blocked, gitops.PausedNotReady},
		"a rejected version": {after(0, observed(states{"backend": rejected})), gitops.Blocked, gitops.PausedNotReady},
		"component timeout":  {after(time.Hour, observed(states{"frontend": starting})), gitops.Degraded, gitops.PausedNotReady},
		"dependency timeout": {after(time.Hour, observed(states{"db": starting}, "backend db", "frontend backend")), gitops.Degraded, gitops.PausedNotReady},
		"a removed one":      {after(0, observed(nil), old), gitops.Creating, gitops.PausedNotReady},
		"invalid":            {invalid("set it"), gitops.Blocked, gitops.PausedNotReady},
		"no destination":     {invalid(stack.BackupDestinationMissing), gitops.Blocked, gitops.PausedNotReady},
	} {
		s := shop()
		tc.set(s)
		gitops.Check(t, name, s, tc.want)
		ready(s)
		gitops.Check(t, "ready after "+name, s, gitops.Ready)
		tc.set(s)
		conditions.SetPaused(s, "the components stay as they are")
		gitops.Check(t, "paused after "+name, s, tc.paused)
		s.DeletionTimestamp = &metav1.Time{Time: noon}
		conditions.SetTerminating(s)
		gitops.Check(t, "deleted after "+name, s, gitops.Deleting)
		setDeleting(s, []stack.Child{old})
		gitops.Check(t, "deleted in order after "+name, s, gitops.Deleting)
	}
}

// Until the operator sees an AppStack or its new spec, it is in progress.
func TestGitOps_notObserved(t *testing.T) {
	s := shop()
	conditions.Set(s, "Ready", metav1.ConditionUnknown, "Reconciling", "waiting for the Fettle operator")
	gitops.Check(t, "new", s, gitops.Creating)
	setStatus(s, shopPlan(), observed(nil), nil, noon)
	gitops.Check(t, "ready", s, gitops.Ready)
	s.Generation++
	gitops.Check(t, "changed", s, gitops.Creating)
}
