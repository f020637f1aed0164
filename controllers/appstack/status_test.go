package appstack

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/stack"
)

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// shop is the AppStack of shopPlan, whose components may take 15 minutes.
func shop() *platformv1.AppStack {
	s := &platformv1.AppStack{ObjectMeta: metav1.ObjectMeta{Namespace: "team", Name: "shop", Generation: 3}}
	s.Spec.ComponentTimeout.Duration = 15 * time.Minute
	return s
}

func shopPlan() *stack.Plan {
	return &stack.Plan{Components: []stack.Component{
		{Name: "db", Kind: stack.KindPostgreSQL, Ref: "shop-db"},
		{Name: "cache", Kind: stack.KindCache, Ref: "shop-cache"},
		{Name: "backend", Kind: stack.KindWebApp, Ref: "shop-backend", DependsOn: []string{"cache", "db"}},
		{Name: "frontend", Kind: stack.KindWebApp, Ref: "shop-frontend", DependsOn: []string{"backend"}},
	}}
}

// States of components.
var (
	up       = stack.State{Exists: true, Asked: true, Ready: conditions.True("Ready", "fine")}
	outdated = stack.State{Exists: true, Ready: conditions.True("Ready", "fine")}
	starting = stack.State{Exists: true, Asked: true, Ready: conditions.Unknown("Creating", "pods start")}
	broken   = stack.State{Exists: true, Asked: true, Trouble: true, Ready: conditions.False("CrashLoopBackOff", "raise the limit")}
	conflict = stack.State{Ready: missing().Ready, Failed: &apply.ConflictError{
		OwnerKind: stack.OwnerKind, GVK: appsv1.GroupVersion.WithKind("WebApp"), Namespace: "team", Name: "shop-backend",
	}}
	rejected = stack.State{Exists: true, Ready: conditions.True("Ready", ""), Failed: &apply.WriteError{
		Verb: "apply", GVK: appsv1.GroupVersion.WithKind("WebApp"), Name: "shop-backend",
		Err: apierrors.NewInvalid(schema.GroupKind{Kind: "WebApp"}, "shop-backend", field.ErrorList{field.Required(field.NewPath("spec", "image"), "")}),
	}}
)

// observed are the states of the components of shopPlan: up, except for those in states, and for those in waits, which name what they wait
// for: after "=" if they exist.
func observed(states map[string]stack.State, waits ...string) map[string]stack.State {
	all := map[string]stack.State{}
	plan := shopPlan()
	for i := range plan.Components {
		c := &plan.Components[i]
		state, ok := states[c.Name]
		if !ok {
			state = up
		}
		for _, w := range waits {
			if name, other, exists := strings.Cut(w, "="); exists && name == c.Name {
				state = up
				describeWait(&state, other, all, c)
			} else if name, other, ok := strings.Cut(w, " "); ok && name == c.Name {
				state = missing()
				describeWait(&state, other, all, c)
			}
		}
		all[c.Name] = state
	}
	return all
}

func readyText(s *platformv1.AppStack) string {
	ready := conditions.ReadyOf(s)
	return fmt.Sprintf("%s, %s Ready=%s %s: %s", s.Status.Phase, s.Status.ReadyComponents, ready.Status, ready.Reason, ready.Message)
}

type states = map[string]stack.State

func TestSetStatus(t *testing.T) {
	removed := []stack.Child{{Component: "old", Kind: stack.KindWebApp, Object: &appsv1.WebApp{ObjectMeta: metav1.ObjectMeta{Name: "shop-old"}}}}
	for name, c := range map[string]struct {
		states  states
		removed []stack.Child
		after   time.Duration // since the same states were seen first
		want    string
		next    time.Duration
	}{
		"all ready": {states: observed(nil), want: "Running, 4/4 Ready=True Ready: all 4 components are ready"},
		"created": {
			states: observed(states{"db": missing(), "cache": starting}, "backend cache", "frontend backend"), next: 15 * time.Minute,
			want: "Deploying, 0/4 Ready=False Deploying: component db (PostgreSQL shop-db) is not ready: Applied: is being created",
		},
		"in progress": {
			states: observed(states{"cache": starting}, "backend cache", "frontend backend"), after: 10 * time.Minute, next: 5 * time.Minute,
			want: "Deploying, 1/4 Ready=False Deploying: component cache (Cache shop-cache) is not ready: Creating: pods start",
		},
		"written, and not reported on": {
			states: observed(states{"backend": outdated}), next: 15 * time.Minute,
			want: "Deploying, 3/4 Ready=False Deploying: component backend (WebApp shop-backend) is not ready: Applied: its controller has not reported on the current version yet",
		},
		"a problem": {
			states: observed(states{"backend": broken}), next: 15 * time.Minute,
			want: "Degraded, 3/4 Ready=False ComponentNotReady: component backend (WebApp shop-backend) is not ready: CrashLoopBackOff: raise the limit",
		},
		"a problem before progress": {
			states: observed(states{"db": starting, "frontend": broken}, "backend=db"), next: 15 * time.Minute,
			want: "Degraded, 1/4 Ready=False ComponentNotReady: component frontend (WebApp shop-frontend) is not ready: CrashLoopBackOff: raise the limit",
		},
		"the first problem": {
			states: observed(states{"cache": broken, "frontend": conflict}), next: 15 * time.Minute,
			want: "Degraded, 2/4 Ready=False ComponentNotReady: component cache (Cache shop-cache) is not ready: CrashLoopBackOff: raise the limit",
		},
		"a foreign object": {
			states: observed(states{"backend": conflict}, "frontend backend"), next: 15 * time.Minute,
			want: "Degraded, 2/4 Ready=False ComponentNotReady: component backend (WebApp shop-backend) is not ready: NameConflict: " + conflict.Failed.Error(),
		},
		"a rejected version": {
			states: observed(states{"backend": rejected}), next: 15 * time.Minute,
			want: "Degraded, 3/4 Ready=False ComponentNotReady: component backend (WebApp shop-backend) is not ready: Invalid: " + rejected.Failed.Error(),
		},
		"for too long": {
			states: observed(states{"frontend": starting}), after: 15 * time.Minute,
			want: "Degraded, 3/4 Ready=False ComponentTimeout: for more than 15m0s, component frontend (WebApp shop-frontend) is not ready: Creating: pods start",
		},
		"almost too long": {
			states: observed(states{"frontend": starting}), after: 15*time.Minute - time.Second, next: time.Second,
			want: "Deploying, 3/4 Ready=False Deploying: component frontend (WebApp shop-frontend) is not ready: Creating: pods start",
		},
		"one waits for too long": {
			states: observed(states{"db": starting}, "backend db", "frontend backend"), after: 15 * time.Minute,
			want: "Degraded, 1/4 Ready=False DependencyTimeout: component backend waits for db, for more than 15m0s; component db (PostgreSQL shop-db) is not ready: Creating: pods start",
		},
		"one waits for too long for a broken one": {
			states: observed(states{"cache": broken}, "backend=cache"), after: time.Hour,
			want: "Degraded, 2/4 Ready=False DependencyTimeout: component backend waits for cache, for more than 15m0s; component cache (Cache shop-cache) is not ready: CrashLoopBackOff: raise the limit",
		},
		"a removed one": {
			states: observed(nil), removed: removed,
			want: "Deploying, 4/4 Ready=False Deploying: removed components are being deleted: old",
		},
		"a removed one, and a problem": {
			states: observed(states{"db": broken}), removed: removed, next: 15 * time.Minute,
			want: "Degraded, 3/4 Ready=False ComponentNotReady: component db (PostgreSQL shop-db) is not ready: CrashLoopBackOff: raise the limit",
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := shop()
			setStatus(s, shopPlan(), c.states, c.removed, noon)
			next := setStatus(s, shopPlan(), c.states, c.removed, noon.Add(c.after))
			if diff := cmp.Diff(c.want, readyText(s)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if next != c.next {
				t.Errorf("the next time limit is in %s, want %s", next, c.next)
			}
			stalled := strings.Contains(c.want, "NameConflict: ") || strings.Contains(c.want, "Invalid: ") // only a person can resolve it
			if s.Status.ObservedGeneration != 3 || conditions.ReadyOf(s).ObservedGeneration != 3 || (len(s.Status.Conditions) == 2) != stalled {
				t.Errorf("status %+v", s.Status)
			}
		})
	}
}

// Each component has its own reason and message.
func TestSetStatus_components(t *testing.T) {
	plan := shopPlan()
	plan.Components[0].Suspended, plan.Components[1].Suspended = true, true
	all := observed(states{"db": up, "cache": {Asked: true, Ready: missing().Ready}, "backend": broken})
	all["frontend"] = stack.State{Exists: true, Asked: true, Ready: conditions.False("Long", strings.Repeat("ä", 400))}
	removed := []stack.Child{
		{Component: "db", Kind: stack.KindMySQL, Replaced: true, Object: &appsv1.WebApp{ObjectMeta: metav1.ObjectMeta{Name: "shop-db"}}},
		{Component: "old", Kind: stack.KindWebApp, Object: &appsv1.WebApp{ObjectMeta: metav1.ObjectMeta{Name: "shop-old"}}},
	}
	s := shop()
	setStatus(s, plan, all, removed, noon)
	since := metav1.NewTime(noon)
	const deleted = "is being deleted, after those that depend on it"
	want := []platformv1.ComponentStatus{
		{Name: "db", Kind: "PostgreSQL", Ref: "shop-db", Ready: true, Since: since},
		{Name: "cache", Kind: "Cache", Ref: "shop-cache", Reason: "Suspended", Message: "is suspended before it was created: set suspended to false", Since: since},
		{Name: "backend", Kind: "WebApp", Ref: "shop-backend", Reason: "CrashLoopBackOff", Message: "raise the limit", Since: since},
		{Name: "frontend", Kind: "WebApp", Ref: "shop-frontend", Reason: "Long", Message: strings.Repeat("ä", 256), Since: since},
		{Name: "db", Kind: "MySQL", Ref: "shop-db", Reason: "Removed", Message: deleted, Since: since},
		{Name: "old", Kind: "WebApp", Ref: "shop-old", Reason: "Removed", Message: deleted, Since: since},
	}
	if diff := cmp.Diff(want, s.Status.Components); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if got := readyText(s); !strings.HasPrefix(got, "Degraded, 1/4 Ready=False ComponentNotReady: component cache (Cache shop-cache) is not ready: Suspended") {
		t.Error(got)
	}
}

// What a component waits for is said with the reason of the other one, or that the former one of this name still exists.
func TestDescribeWait(t *testing.T) {
	db := states{"db": {Ready: conditions.False("NoSpace", "enlarge spec.storage")}, "other": {Failed: errors.New("x")}}
	for name, c := range map[string]struct {
		exists   bool
		waitsFor string
		want     string
	}{
		"not created":       {false, "db", "waits for db: NoSpace: enlarge spec.storage"},
		"an older version":  {true, "db", "its next version waits for db: NoSpace: enlarge spec.storage"},
		"without a reason":  {false, "other", "waits for other: not ready"},
		"the name is taken": {false, "web", "waits until the component of another kind that had this name is deleted"},
	} {
		state := stack.State{Exists: c.exists, Asked: true, Ready: conditions.True("Ready", "")}
		describeWait(&state, c.waitsFor, db, &stack.Component{Name: "web"})
		if want := conditions.False("Waiting", c.want); state.Ready != want || state.Asked || state.Available() {
			t.Errorf("%s: %+v, want %+v", name, state, want)
		}
	}
}

// since is when ready changed last, in whole seconds, whatever else changes.
func TestSetStatus_since(t *testing.T) {
	s, plan := shop(), shopPlan()
	at := noon.Add(300 * time.Millisecond)
	for _, c := range []struct {
		what  string
		db    stack.State
		after time.Duration
		since time.Duration
	}{
		{"created", missing(), 0, 0},
		{"starting", starting, time.Minute, 0},
		{"failing", broken, 2 * time.Minute, 0},
		{"ready", up, 3 * time.Minute, 3 * time.Minute},
		{"still ready", up, 4 * time.Minute, 3 * time.Minute},
		{"failing again", broken, 5 * time.Minute, 5 * time.Minute},
		{"another problem", rejected, 6 * time.Minute, 5 * time.Minute},
		{"ready again", up, 7 * time.Minute, 7 * time.Minute},
	} {
		setStatus(s, plan, observed(states{"db": c.db}), nil, at.Add(c.after))
		if got := s.Status.Components[0].Since.Sub(noon); got != c.since {
			t.Errorf("%s: since %s after noon, want %s", c.what, got, c.since)
		}
	}
	// One of the same name and another kind is another component.
	plan.Components[0].Kind = stack.KindMySQL
	setStatus(s, plan, observed(nil), nil, at.Add(8*time.Minute))
	if got := s.Status.Components[0].Since.Sub(noon); got != 8*time.Minute {
		t.Errorf("another kind: since %s after noon", got)
	}
}

// The published addresses come first, each in the order of the components.
func TestSetStatus_endpoints(t *testing.T) {
	at := func(url string, external bool) stack.State {
		state := up
		state.URL, state.External = url, external
		return state
	}
	s := shop()
	setStatus(s, shopPlan(), observed(states{
		"db": at("http://a.team.svc", false), "cache": at("https://b.example.com", true), "backend": at("http://c.team.svc", false), "frontend": at("https://d.example.com", true),
	}), nil, noon)
	want := []platformv1.Endpoint{
		{Name: "cache", URL: "https://b.example.com", Scope: "External"}, {Name: "frontend", URL: "https://d.example.com", Scope: "External"},
		{Name: "db", URL: "http://a.team.svc", Scope: "Internal"}, {Name: "backend", URL: "http://c.team.svc", Scope: "Internal"},
	}
	if diff := cmp.Diff(want, s.Status.Endpoints); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	plan := shopPlan()
	plan.Effective = []platformv1.EffectiveField{{Component: "db", Field: "storage", Value: "10Gi", Source: "Environment"}}
	setStatus(s, plan, observed(nil), nil, noon)
	if len(s.Status.Endpoints) > 0 || !slices.Equal(s.Status.Effective, plan.Effective) {
		t.Errorf("status %+v", s.Status)
	}
}

func TestSetInvalid(t *testing.T) {
	at := field.NewPath("spec", "components").Key("db").Child("postgreSQL")
	destination := field.Required(at.Child("backup", "destination"), stack.BackupDestinationMissing)
	unknown := field.Forbidden(at.Child("replcas"), "unknown field")
	for name, c := range map[string]struct {
		errs field.ErrorList
		want string
	}{
		"a field":        {field.ErrorList{unknown}, "Failed,  Ready=False InvalidSpec: spec.components[db].postgreSQL.replcas: Forbidden: unknown field"},
		"no destination": {field.ErrorList{destination}, "Failed,  Ready=False BackupDestinationMissing: spec.components[db].postgreSQL.backup.destination: Required value: " + stack.BackupDestinationMissing},
		"both": {field.ErrorList{destination, unknown}, "Failed,  Ready=False InvalidSpec: [spec.components[db].postgreSQL.backup.destination: Required value: " +
			stack.BackupDestinationMissing + ", spec.components[db].postgreSQL.replcas: Forbidden: unknown field]"},
	} {
		s := shop()
		setInvalid(s, c.errs)
		if diff := cmp.Diff(c.want, readyText(s)); diff != "" || len(s.Status.Conditions) != 2 {
			t.Errorf("%s: %+v (-want +got):\n%s", name, s.Status.Conditions, diff)
		}
	}
	// What runs stays as it is, and so does what the status says of it.
	s := shop()
	setStatus(s, shopPlan(), observed(nil), nil, noon)
	before := s.DeepCopy()
	setInvalid(s, field.ErrorList{unknown})
	if diff := cmp.Diff(before.Status.Components, s.Status.Components); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestSetDeleting(t *testing.T) {
	s := shop()
	conditions.SetTerminating(s)
	setDeleting(s, []stack.Child{{Component: "frontend"}, {Component: "db"}, {Component: "cache"}})
	if got, want := readyText(s), "Terminating,  Ready=False Terminating: components are being deleted in order; left are cache, db, frontend"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// The errors of a child object's write become reasons of its component.
func TestReasonOf(t *testing.T) {
	secrets := schema.GroupResource{Resource: "secrets"}
	for want, err := range map[string]error{
		"CredentialsMissing": errCredentialsMissing,
		"NameConflict":       secretConflict(&corev1.Secret{}),
		"Forbidden":          &apply.WriteError{Err: apierrors.NewForbidden(secrets, "a", errors.New("exceeded quota"))},
		"Invalid":            &apply.WriteError{Err: apierrors.NewBadRequest("no")},
		"WriteFailed":        errors.New("no answer"),
	} {
		if got := reasonOf(err); got != want {
			t.Errorf("%v: %s, want %s", err, got, want)
		}
	}
}
