package requeue

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// attempt is the result of one reconcile.
type attempt struct {
	asks   bool
	result time.Duration
	err    error
}

// waits reconciles one object as a controller does, and returns the waiting time of each reconcile.
func waits(t *testing.T, b *Backoff, name string, n int) []time.Duration {
	t.Helper()
	var got []time.Duration
	at := time.Now()
	b.now = func() time.Time { return at }
	for range n {
		result, err := b.Reconcile(t.Context(), requestFor(name))
		wait := result.RequeueAfter
		if err != nil {
			wait = b.When(requestFor(name))
		} else {
			b.Forget(requestFor(name))
		}
		got = append(got, wait)
		at = at.Add(wait)
	}
	return got
}

func requestFor(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "web", Name: name}}
}

// does makes a reconciler that does one thing after the other, for whatever object.
func does(passes ...attempt) *Backoff {
	next := 0
	return WithBackoff(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		p := passes[next]
		next++
		if p.asks {
			Request(ctx)
		}
		return reconcile.Result{RequeueAfter: p.result}, p.err
	}))
}

// withJitter accepts a delay of up to a tenth more than is wanted.
var withJitter = cmp.Comparer(func(a, b time.Duration) bool { return 10*max(a, b) <= 11*min(a, b) })

func TestWaits(t *testing.T) {
	const s = time.Second
	asks, fails := attempt{asks: true}, attempt{err: errors.New("rejected")}
	for name, tc := range map[string]struct {
		passes []attempt
		want   []time.Duration
	}{
		"no request":             {[]attempt{{}, {result: 5 * s}}, []time.Duration{0, 5 * s}},
		"asked":                  {[]attempt{asks, {}}, []time.Duration{s, 0}},
		"sooner than it wants":   {[]attempt{{asks: true, result: time.Minute}}, []time.Duration{s}},
		"not later than it asks": {[]attempt{{asks: true, result: 200 * time.Millisecond}}, []time.Duration{200 * time.Millisecond}},
		"an error":               {[]attempt{fails, {}}, []time.Duration{s, 0}},
		"an error, asked":        {[]attempt{{asks: true, err: errors.New("rejected")}}, []time.Duration{s}},
		"it goes on": {
			[]attempt{asks, fails, asks, fails, fails, fails, fails, fails, fails, fails, asks},
			[]time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 32 * s, 64 * s, 128 * s, 256 * s, 300 * s, 300 * s},
		},
		"it went on, and was over": {[]attempt{asks, fails, {result: s}, asks}, []time.Duration{s, 2 * s, s, s}},
	} {
		if diff := cmp.Diff(tc.want, waits(t, does(tc.passes...), "shop", len(tc.passes)), withJitter); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// What events bring while an object fails does not put its retry off, nor the one after that.
func TestWaits_eventsInBetween(t *testing.T) {
	b := does()
	begun := time.Now()
	at := begun
	b.now = func() time.Time { return at }
	for range 20 { // 20 events in a second
		due := at.Add(b.When(requestFor("shop")))
		if late := due.Sub(begun); late < time.Second || late > 1100*time.Millisecond {
			t.Fatalf("the retry is due %s after the first failure, not after 1 s", late)
		}
		at = at.Add(50 * time.Millisecond)
	}
	at = begun.Add(2 * time.Second)
	if diff := cmp.Diff(2*time.Second, b.When(requestFor("shop")), withJitter); diff != "" {
		t.Errorf("the second retry (-want +got):\n%s", diff)
	}
}

// Objects that failed together do not retry together.
func TestWaits_differ(t *testing.T) {
	b := does()
	seen := map[time.Duration]bool{}
	for i := range 20 {
		seen[b.When(requestFor(string(rune('a'+i))))] = true
	}
	if len(seen) < 2 {
		t.Errorf("20 objects retry at the same time: %v", seen)
	}
}

// One object does not make another wait longer, and nothing is kept of those that succeeded.
func TestBackoff_objectsAreIndependent(t *testing.T) {
	b := does(attempt{asks: true}, attempt{asks: true}, attempt{asks: true}, attempt{}, attempt{})
	got := append(waits(t, b, "a", 2), waits(t, b, "b", 1)...)
	if diff := cmp.Diff([]time.Duration{time.Second, 2 * time.Second, time.Second}, got, withJitter); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if n := b.NumRequeues(requestFor("a")); n != 2 {
		t.Errorf("%d retries of a, want 2", n)
	}
	waits(t, b, "a", 1)
	waits(t, b, "b", 1)
	if n := b.NumRequeues(requestFor("a")) + b.NumRequeues(requestFor("b")); n > 0 {
		t.Errorf("%d retries are kept of objects that succeeded", n)
	}
}

// The queue of the controller asks b for the delays of errors.
func TestOptions(t *testing.T) {
	b := does()
	if got := b.Options(3); got.RateLimiter != b || got.MaxConcurrentReconciles != 3 {
		t.Errorf("%+v", got)
	}
}

func TestRequest_withoutBackoff(t *testing.T) {
	Request(t.Context()) // without a reconcile: nothing happens
}
