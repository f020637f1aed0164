package reconciler

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	votingv1alpha1 "github.com/fettle-dev/fettle/api/voting/v1alpha1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/requeue"
	"github.com/fettle-dev/fettle/internal/testenv"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	testenv.Main(m, &env, testenv.Options{Fast: true})
}

type vote = votingv1alpha1.VoteConfig

// fixture is a VoteConfig on the API server, and a reconciler that sets the number of options in its status.
type fixture struct {
	*Reconciler[vote, *vote]
	t       *testing.T
	live    client.Client
	request reconcile.Request
	emitted []string // resource versions of what was announced

	recorder *events.FakeRecorder
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := votingv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	mgr, err := ctrl.NewManager(env.Admin, ctrl.Options{Scheme: scheme, Metrics: metricsserver.Options{BindAddress: "0"}})
	if err != nil {
		t.Fatal(err)
	}
	applier, err := apply.New(mgr, "pass")
	if err != nil {
		t.Fatal(err)
	}
	live, err := client.New(env.Admin, client.Options{Scheme: scheme})
	if err != nil {
		t.Fatal(err)
	}
	object := &vote{ObjectMeta: metav1.ObjectMeta{GenerateName: "pass-", Namespace: "default"}}
	object.Spec.Options = []votingv1alpha1.VoteOption{{ID: "a", Label: "Cats"}, {ID: "b", Label: "Dogs"}}
	if err := live.Create(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	f := &fixture{t: t, live: live, request: reconcile.Request{NamespacedName: client.ObjectKeyFromObject(object)}, recorder: events.NewFakeRecorder(10)}
	f.Reconciler = &Reconciler[vote, *vote]{
		Tools: Tools{
			Kind: "VoteConfig", Client: live, Applier: applier, Throttle: conditions.NewStatusThrottle(0, clock.RealClock{}), Options: Options{Clock: clock.RealClock{}},
			Events: f.recorder,
		},
		ReconcileObject: func(context.Context, *vote) (reconcile.Result, error) { return reconcile.Result{}, nil },
		EmitEvents:      func(b, _ *vote) { f.emitted = append(f.emitted, b.ResourceVersion) },
	}
	return f
}

// frozenCache is a cache that hangs: once stands is set, it repeats its first answer.
type frozenCache struct {
	client.Client
	first  *vote
	stands bool
}

func (s *frozenCache) Get(ctx context.Context, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
	if s.stands {
		s.first.DeepCopyInto(into.(*vote))
		return nil
	}
	err := s.Client.Get(ctx, key, into, opts...)
	if s.first == nil {
		s.first = into.(*vote).DeepCopy()
	}
	return err
}

// sets makes each reconcile set the number of options and return this result.
func (f *fixture) sets(healthy int32, after time.Duration, err error) {
	f.ReconcileObject = func(_ context.Context, b *vote) (reconcile.Result, error) {
		b.Status.OptionCount = healthy
		return reconcile.Result{RequeueAfter: after}, err
	}
}

// expect reconciles once, and compares the waiting time, the stored status and the number of emitted events.
func (f *fixture) expect(what string, wait time.Duration, stored int32, announced int) {
	f.t.Helper()
	result, err := requeue.WithBackoff(f.Reconciler).Reconcile(f.t.Context(), f.request)
	if err != nil || result.RequeueAfter < wait || result.RequeueAfter > wait+wait/10 { // delays of retries have jitter
		f.t.Errorf("%s: waits %s, %v, want %s", what, result.RequeueAfter, err, wait)
	}
	f.expectStored(what, stored, announced)
}

func (f *fixture) expectStored(what string, stored int32, announced int) {
	f.t.Helper()
	b := &vote{}
	if err := f.live.Get(f.t.Context(), f.request.NamespacedName, b); err != nil {
		f.t.Fatal(err)
	}
	if b.Status.OptionCount != stored || len(f.emitted) != announced {
		f.t.Errorf("%s: %d is stored and was announced %d times, want %d and %d", what, b.Status.OptionCount, len(f.emitted), stored, announced)
	}
	if n := len(f.emitted); n > 0 && announced == n && f.emitted[n-1] != b.ResourceVersion {
		f.t.Errorf("%s: version %s was announced, %s is stored", what, f.emitted[n-1], b.ResourceVersion)
	}
}

func TestStatus_writtenOnce(t *testing.T) {
	f := newFixture(t)
	f.expect("nothing new", 0, 0, 0)
	f.sets(1, time.Minute, nil)
	f.expect("something new", time.Minute, 1, 1)
	f.expect("the same again", time.Minute, 1, 1)
}

func TestStatus_delayed(t *testing.T) {
	f := newFixture(t)
	f.StatusDelay = func(is, was *vote) time.Duration {
		return time.Duration(is.Status.OptionCount-was.Status.OptionCount) * time.Second
	}
	f.sets(5, 0, nil)
	f.expect("held back", 5*time.Second, 0, 0)
	f.sets(5, time.Second, nil)
	f.expect("held back for longer than the controller waits", time.Second, 0, 0)
	f.sets(5, time.Minute, nil)
	f.expect("held back for less than the controller waits", 5*time.Second, 0, 0)
}

func TestStatus_writtenAfterError(t *testing.T) {
	f := newFixture(t)
	broken := errors.New("rejected")
	f.sets(1, 0, broken)
	if _, err := f.Reconcile(t.Context(), f.request); !errors.Is(err, broken) {
		t.Errorf("the reconcile ends with %v, want %v", err, broken)
	}
	f.expectStored("an error", 1, 1)

	f.ReconcileObject = func(_ context.Context, b *vote) (reconcile.Result, error) {
		b.Status.Phase = "Unheard" // the API server rejects it
		return reconcile.Result{}, broken
	}
	_, err := f.Reconcile(t.Context(), f.request)
	if !apierrors.IsInvalid(errors.Unwrap(err)) {
		t.Errorf("the reconcile whose status is rejected ends with %v, want the rejection", err)
	}
	f.expectStored("a rejected status", 1, 1)
}

// Some errors are only reported in the status: a foreign object is checked again later, and a terminating namespace deletes the object.
func TestErrors_reportedInStatusOnly(t *testing.T) {
	f := newFixture(t)
	f.sets(1, 0, fmt.Errorf("apply: %w", &apply.ConflictError{Name: "web"}))
	f.expect("a foreign object", time.Second, 1, 1)
	f.sets(1, 0, &apierrors.StatusError{ErrStatus: metav1.Status{
		Code: 403, Reason: metav1.StatusReasonForbidden, Details: &metav1.StatusDetails{Causes: []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}},
	}})
	f.expect("a namespace that goes", 0, 1, 1)
}

func TestStatus_conflictIsRetried(t *testing.T) {
	f := newFixture(t)
	f.ReconcileObject = func(ctx context.Context, b *vote) (reconcile.Result, error) {
		rival := b.DeepCopy()
		rival.Labels = map[string]string{"changed": "meanwhile"}
		b.Status.OptionCount = 1
		return reconcile.Result{}, f.live.Update(ctx, rival)
	}
	f.expect("changed meanwhile", time.Second, 0, 0)
	f.sets(1, 0, nil)
	f.expect("the next pass", 0, 1, 1)
}

func TestReconcile_ignoresStaleObject(t *testing.T) {
	f := newFixture(t)
	stale := &frozenCache{Client: f.Client}
	f.Client = stale
	f.sets(1, 0, nil)
	f.expect("something new", 0, 1, 1)
	f.sets(2, time.Minute, nil)
	stale.stands = true
	f.expect("an old copy", 0, 1, 1)
	stale.stands = false
	f.expect("the new copy", time.Minute, 2, 2)
}

func TestOnDeleted(t *testing.T) {
	f := newFixture(t)
	old := &vote{}
	if err := f.live.Get(t.Context(), f.request.NamespacedName, old); err != nil {
		t.Fatal(err)
	}
	f.sets(1, 0, nil)
	f.expect("something new", 0, 1, 1)
	if err := f.live.Delete(t.Context(), old); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		done bool
		err  error
	}{{err: errors.New("not yet")}, {}, {done: true}} {
		var gone types.NamespacedName
		f.OnDeleted = func(_ context.Context, key types.NamespacedName) (bool, error) {
			gone = key
			return c.done, c.err
		}
		if result, err := f.Reconcile(t.Context(), f.request); !errors.Is(err, c.err) || result != (reconcile.Result{}) || gone != f.request.NamespacedName {
			t.Errorf("%v: the reconcile of %s ends with %v, %v", c, gone, result, err)
		}
	}
	f.OnDeleted = nil
	if _, err := f.Reconcile(t.Context(), f.request); err != nil {
		t.Error(err)
	}
}

func TestSooner(t *testing.T) {
	for _, c := range [][3]time.Duration{{0, 0, 0}, {0, 2, 2}, {2, 0, 2}, {1, 2, 1}, {2, 1, 1}} {
		if got := Sooner(c[0], c[1]); got != c[2] {
			t.Errorf("of %d and %d: %d", c[0], c[1], got)
		}
	}
}

func TestTerminating_waitsForFinalizer(t *testing.T) {
	f := newFixture(t)
	f.sets(1, 0, nil)
	object := &vote{}
	if err := f.live.Get(t.Context(), f.request.NamespacedName, object); err != nil {
		t.Fatal(err)
	}
	object.Finalizers = []string{"example.com/held"}
	if err := errors.Join(f.live.Update(t.Context(), object), f.live.Delete(t.Context(), object)); err != nil {
		t.Fatal(err)
	}
	f.expect("deleted and held", 0, 0, 1)
	if err := f.live.Get(t.Context(), f.request.NamespacedName, object); err != nil {
		t.Fatal(err)
	}
	if ready := conditions.ReadyOf(object); ready.Reason != "Terminating" || ready.Status != "False" || object.Status.Phase != "Terminating" || object.Status.ObservedGeneration != object.Generation {
		t.Errorf("status %+v", object.Status)
	}
	object.Finalizers = nil
	if err := f.live.Update(t.Context(), object); err != nil {
		t.Fatal(err)
	}
}

// held adds a finalizer to the object of f and deletes it.
func (f *fixture) held() {
	f.t.Helper()
	object := f.stored()
	object.Finalizers = []string{"example.com/held"}
	if err := errors.Join(f.live.Update(f.t.Context(), object), f.live.Delete(f.t.Context(), object)); err != nil {
		f.t.Fatal(err)
	}
}

// stored reads the object of f; nil if it is gone.
func (f *fixture) stored() *vote {
	f.t.Helper()
	object := &vote{}
	err := f.live.Get(f.t.Context(), f.request.NamespacedName, object)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		f.t.Fatal(err)
	}
	return object
}

// finalizes makes Finalize report done and an error after a time, and count its calls. It fails the test where ReconcileObject is called.
func (f *fixture) finalizes(calls *int, done bool, after time.Duration, err error) {
	f.ReconcileObject = func(context.Context, *vote) (reconcile.Result, error) {
		f.t.Error("an object that is being deleted is reconciled as if it stayed")
		return reconcile.Result{}, nil
	}
	f.Finalize = func(_ context.Context, v *vote) (bool, reconcile.Result, error) {
		*calls++
		if ready := conditions.ReadyOf(v); v.DeletionTimestamp == nil || ready.Reason != "Terminating" {
			f.t.Errorf("finalized with Ready %+v", ready)
		}
		v.Status.OptionCount = 7
		return done, reconcile.Result{RequeueAfter: after}, err
	}
}

// Until Finalize is done, the status says what it set, and that the object is being deleted.
func TestFinalize_notDone(t *testing.T) {
	f, calls := newFixture(t), 0
	f.finalizes(&calls, false, time.Minute, nil)
	f.held()
	f.expect("not done", time.Minute, 7, 1)
	if object := f.stored(); conditions.ReadyOf(object).Reason != "Terminating" || object.Status.Phase != "Terminating" || object.Status.ObservedGeneration != object.Generation {
		t.Errorf("status %+v", object.Status)
	}
	f.expect("the same again", time.Minute, 7, 1)
	broken := errors.New("no answer")
	f.finalizes(&calls, false, 0, broken)
	if _, err := f.Reconcile(t.Context(), f.request); !errors.Is(err, broken) {
		t.Errorf("the reconcile ends with %v, want %v", err, broken)
	}
	if calls != 3 {
		t.Errorf("finalized %d times, want 3", calls)
	}
}

// An error of Finalize is returned, and the status is written nevertheless.
func TestFinalize_failed(t *testing.T) {
	f, calls := newFixture(t), 0
	broken := errors.New("no answer")
	f.finalizes(&calls, false, time.Minute, broken)
	f.held()
	if result, err := f.Reconcile(t.Context(), f.request); !errors.Is(err, broken) || result != (reconcile.Result{}) {
		t.Errorf("the reconcile ends with %v, %v", result, err)
	}
	f.expectStored("an error", 7, 1)
}

// When Finalize is done, the object may be gone: nothing is written.
func TestFinalize_done(t *testing.T) {
	f, calls := newFixture(t), 0
	f.finalizes(&calls, true, 0, nil)
	f.held()
	before := f.stored().ResourceVersion
	f.expect("done, and another finalizer is left", 0, 0, 0)
	if after := f.stored().ResourceVersion; after != before {
		t.Errorf("version %s was written, it was %s", after, before)
	}
	finalize := f.Finalize
	f.Finalize = func(ctx context.Context, v *vote) (bool, reconcile.Result, error) {
		rest := v.DeepCopy()
		rest.Finalizers = nil
		if err := f.live.Update(ctx, rest); err != nil {
			return false, reconcile.Result{}, err
		}
		return finalize(ctx, v)
	}
	if result, err := f.Reconcile(t.Context(), f.request); err != nil || result != (reconcile.Result{}) {
		t.Errorf("the reconcile ends with %v, %v", result, err)
	}
	if left := f.stored(); left != nil || len(f.emitted) > 0 {
		t.Errorf("left is %v, announced %d times", left, len(f.emitted))
	}
	if _, err := f.Reconcile(t.Context(), f.request); err != nil || calls != 2 {
		t.Errorf("finalized %d times, %v", calls, err)
	}
}

// An object that is not being deleted is never finalized.
func TestFinalize_notDeleted(t *testing.T) {
	f := newFixture(t)
	f.Finalize = func(context.Context, *vote) (bool, reconcile.Result, error) {
		t.Error("finalized")
		return true, reconcile.Result{}, nil
	}
	f.sets(1, time.Minute, nil)
	f.expect("something new", time.Minute, 1, 1)
}

// One event tells of a change of Ready's status or reason, unless a person asked for it or the work is under way.
func TestEvents_ofReady(t *testing.T) {
	f := &Reconciler[vote, *vote]{
		Progress: []string{"RollingOut"}, Normal: []string{"Preview"},
		ReadyNote: func(v *vote) string { return v.Status.OptionsSummary },
	}
	ready := func(status metav1.ConditionStatus, reason string) *vote {
		v := &vote{Status: votingv1alpha1.VoteConfigStatus{OptionsSummary: "Cats,Dogs"}}
		conditions.Set(v, "Ready", status, reason, "the message")
		return v
	}
	for name, tc := range map[string]struct {
		before, obj *vote
		want        string
	}{
		"unchanged":            {ready("False", "Invalid"), ready("False", "Invalid"), ""},
		"unknown yet":          {&vote{}, ready("Unknown", "Reconciling"), ""},
		"paused":               {ready("True", "Ready"), ready("True", "Paused"), ""},
		"being deleted":        {ready("True", "Ready"), ready("False", "Terminating"), ""},
		"progress":             {ready("True", "Ready"), ready("False", "RollingOut"), ""},
		"ready":                {ready("False", "RollingOut"), ready("True", "Ready"), "Normal Ready Cats,Dogs"},
		"ready in another way": {ready("True", "Ready"), ready("True", "Preview"), "Normal Preview Cats,Dogs"},
		"ready with a problem": {ready("True", "Ready"), ready("True", "OptionsNotShown"), "Warning OptionsNotShown the message"},
		"another problem":      {ready("False", "Forbidden"), ready("False", "Invalid"), "Warning Invalid the message"},
	} {
		recorder := events.NewFakeRecorder(1)
		f.Events = recorder
		f.announce(tc.obj, tc.before)
		close(recorder.Events)
		if got := <-recorder.Events; got != tc.want {
			t.Errorf("%s: event %q, want %q", name, got, tc.want)
		}
	}
	f.ReadyNote = func(*vote) string { return "" }
	f.Events = nil // there is no event without a note
	f.announce(ready("True", "Ready"), &vote{})
}
