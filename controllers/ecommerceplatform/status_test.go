package ecommerceplatform

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"

	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/reconciler"
)

var now = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func shop() *platformv1.EcommercePlatform {
	p := &platformv1.EcommercePlatform{ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "default", UID: "1", Generation: 3}}
	p.Spec.Frontend.Image, p.Spec.Backend.Image = "frontend", "backend"
	return p
}

// stackOf is an AppStack of generation 5 that was reconciled, with these phase and condition Ready and a component that is not ready.
func stackOf(phase platformv1.Phase, status metav1.ConditionStatus, reason string) *platformv1.AppStack {
	return &platformv1.AppStack{
		ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "default", Generation: 5},
		Status: platformv1.AppStackStatus{
			ObservedGeneration: 5, Phase: phase, ReadyComponents: "3/4",
			Components: []platformv1.ComponentStatus{{Name: "db", Kind: "PostgreSQL", Ref: "shop-db", Reason: "NoPrimary", Message: "no primary"}},
			Endpoints:  []platformv1.Endpoint{{Name: "frontend", URL: "https://shop.example.com", Scope: platformv1.ScopeExternal}},
			Effective:  []platformv1.EffectiveField{{Component: "db", Field: "storage", Value: "10Gi", Source: platformv1.FromEnvironment}},
			Conditions: []metav1.Condition{{
				Type: fettlev1.Ready, Status: status, Reason: reason, Message: "as the AppStack says", ObservedGeneration: 5,
			}},
		},
	}
}

// stalled adds the condition Stalled.
func stalled(s *platformv1.AppStack) *platformv1.AppStack {
	s.Status.Conditions = append(s.Status.Conditions, metav1.Condition{Type: fettlev1.Stalled, Status: metav1.ConditionTrue})
	return s
}

func changed(s *platformv1.AppStack, change func(*platformv1.AppStack)) *platformv1.AppStack {
	change(s)
	return s
}

func TestStatus(t *testing.T) {
	running := func() *platformv1.AppStack { return stackOf(platformv1.PhaseRunning, "True", "Ready") }
	for name, tc := range map[string]struct {
		stack         *platformv1.AppStack
		failed        *problem
		want, message string
	}{
		"running":   {stack: running(), want: "Running True Ready", message: "as the AppStack says"},
		"deploying": {stack: stackOf(platformv1.PhaseDeploying, "False", "Deploying"), want: "Deploying False Deploying", message: "as the AppStack says"},
		"degraded":  {stack: stackOf(platformv1.PhaseDegraded, "False", "ComponentNotReady"), want: "Degraded False ComponentNotReady"},
		"timed out": {stack: stackOf(platformv1.PhaseDegraded, "False", "DependencyTimeout"), want: "Degraded False DependencyTimeout"},
		"paused":    {stack: stackOf("Paused", "True", "Paused"), want: "Paused True Paused"},
		"no backup": {stack: stalled(stackOf(platformv1.PhaseFailed, "False", "BackupDestinationMissing")), want: "Failed False BackupDestinationMissing Stalled"},
		"its fields": {
			stack: changed(stalled(stackOf(platformv1.PhaseFailed, "False", "InvalidSpec")), func(s *platformv1.AppStack) {
				s.Status.Conditions[0].Message = "spec.components[db].postgreSQL.version: Invalid value"
			}), want: "Failed False InvalidSpec Stalled", message: "spec.database.version: Invalid value",
		},
		"rejected fields": {
			failed: &problem{"Invalid", "spec.components[cache].cache.memory: Invalid value"}, want: "Failed False Invalid Stalled", message: "spec.cache.memory: Invalid value",
		},
		"just made":   {stack: changed(running(), func(s *platformv1.AppStack) { s.Status.ObservedGeneration = 0 }), want: "Pending Unknown Reconciling", message: "has not been reconciled yet"},
		"no status":   {stack: changed(running(), func(s *platformv1.AppStack) { s.Status.Conditions = nil }), want: "Pending Unknown Reconciling"},
		"outdated":    {stack: changed(running(), func(s *platformv1.AppStack) { s.Generation = 6 }), want: "Deploying False Deploying", message: "since its last change"},
		"an old one":  {stack: changed(running(), func(s *platformv1.AppStack) { s.Status.Conditions[0].ObservedGeneration = 4 }), want: "Deploying False Deploying"},
		"deleted":     {stack: changed(running(), func(s *platformv1.AppStack) { s.DeletionTimestamp = &metav1.Time{Time: now} }), want: "Deploying False Deploying", message: "is being deleted"},
		"invalid":     {stack: running(), failed: &problem{"InvalidSpec", "no"}, want: "Failed False InvalidSpec Stalled", message: "no"},
		"conflict":    {failed: &problem{"NameConflict", "taken"}, want: "Failed False NameConflict Stalled", message: "taken"},
		"rejected":    {stack: running(), failed: &problem{"Invalid", "no"}, want: "Failed False Invalid Stalled"},
		"forbidden":   {stack: running(), failed: &problem{"Forbidden", "quota"}, want: "Degraded False Forbidden", message: "quota"},
		"no answer":   {failed: &problem{"WriteFailed", "no answer"}, want: "Degraded False WriteFailed"},
		"not stalled": {stack: stalled(running()), failed: &problem{"WriteFailed", "no answer"}, want: "Degraded False WriteFailed"},
	} {
		t.Run(name, func(t *testing.T) {
			p := shop()
			p.Status.Components, p.Status.ReadyComponents = []platformv1.ComponentStatus{{Name: "old"}}, "0/1"
			setStatus(p, tc.stack, tc.failed)
			ready := conditions.ReadyOf(p)
			got := string(p.Status.Phase) + " " + string(ready.Status) + " " + ready.Reason
			if meta.IsStatusConditionTrue(p.Status.Conditions, fettlev1.Stalled) {
				got += " Stalled"
			}
			if got != tc.want || !strings.Contains(ready.Message, tc.message) {
				t.Errorf("got  %s: %s\nwant %s: %s", got, ready.Message, tc.want, tc.message)
			}
			if p.Status.ObservedGeneration != 3 || ready.ObservedGeneration != 3 {
				t.Errorf("the status is about generation %d, Ready about %d", p.Status.ObservedGeneration, ready.ObservedGeneration)
			}
			want := platformv1.AppStackStatus{}
			if tc.stack != nil {
				want = tc.stack.Status
			}
			want.ObservedGeneration, want.Phase, want.Conditions = 3, p.Status.Phase, p.Status.Conditions
			if diff := cmp.Diff(want, p.Status); diff != "" {
				t.Errorf("the status of the AppStack is not mirrored (-want +got):\n%s", diff)
			}
		})
	}
}

// A status is written at once if Ready changed, otherwise at most once a second. A report of progress waits until the change may be
// complete.
func TestStatusDelay(t *testing.T) {
	clock := testclock.NewFakePassiveClock(now)
	r := &Reconciler{Tools: reconciler.Tools{Throttle: conditions.NewStatusThrottle(reconciler.CoalescingWindow, clock)}}
	shows := func(phase platformv1.Phase, status metav1.ConditionStatus, reason string) *platformv1.EcommercePlatform {
		p := shop()
		setStatus(p, stackOf(phase, status, reason), nil)
		return p
	}
	expect := func(what string, p, before *platformv1.EcommercePlatform, want time.Duration) {
		t.Helper()
		if got := r.statusDelay(p, before); got != want {
			t.Errorf("%s: delayed by %s, want %s", what, got, want)
		}
		if want == 0 {
			r.Throttle.Wrote(p)
		}
	}
	deploying, running := shows(platformv1.PhaseDeploying, "False", "Deploying"), shows(platformv1.PhaseRunning, "True", "Ready")
	expect("progress", deploying, shop(), reconciler.CoalescingWindow)
	expect("ready", running, shop(), 0)
	more := running.DeepCopy()
	more.Status.Components[0].Message = "other"
	expect("a component", more, running, time.Second)
	clock.SetTime(now.Add(400 * time.Millisecond))
	expect("a component, a little later", more, running, 600*time.Millisecond)
	expect("another reason", shows(platformv1.PhaseDegraded, "False", "ComponentNotReady"), running, 0)
	clock.SetTime(now.Add(2 * time.Second))
	expect("a component, a second later", more, running, 0)
	clock.SetTime(now.Add(time.Minute))
	expect("progress that takes long", deploying, running, 0)
}

func TestCreated(t *testing.T) {
	for name, tc := range map[string]struct {
		generation int64
		before     *platformv1.AppStack
		want       bool
	}{
		"first":    {1, stackOf(platformv1.PhaseDeploying, "False", "Deploying"), true},
		"pending":  {1, stackOf(platformv1.PhasePending, "Unknown", "Reconciling"), true},
		"degraded": {1, stackOf(platformv1.PhaseDegraded, "False", "ComponentNotReady"), false},
		"ready":    {1, stackOf(platformv1.PhaseRunning, "True", "Ready"), false},
		"changed":  {2, stackOf(platformv1.PhaseDeploying, "False", "Deploying"), false},
	} {
		p, before := shop(), shop()
		p.Generation = tc.generation
		setStatus(p, stackOf(platformv1.PhaseRunning, "True", "Ready"), nil)
		setStatus(before, tc.before, nil)
		if got := created(p, before); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
