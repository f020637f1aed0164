package recheck

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// pass is what a reconciler does once.
type pass struct {
	asks   bool
	result time.Duration
	err    error
}

// waits runs passes for one object, and returns how long each comes to wait.
func waits(t *testing.T, r reconcile.Reconciler, name string, n int) []time.Duration {
	t.Helper()
	var got []time.Duration
	for range n {
		result, err := r.Reconcile(t.Context(), requestFor(name))
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, result.RequeueAfter)
	}
	return got
}

func requestFor(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Namespace: "web", Name: name}}
}

// does makes a reconciler that does one thing after the other, for whatever object.
func does(passes ...pass) reconcile.Reconciler {
	next := 0
	return Wrap(reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
		p := passes[next]
		next++
		if p.asks {
			Ask(ctx)
		}
		return reconcile.Result{RequeueAfter: p.result}, p.err
	}))
}

func TestWaits(t *testing.T) {
	const s = time.Second
	for name, tc := range map[string]struct {
		passes []pass
		want   []time.Duration
	}{
		"nobody asks":            {[]pass{{}, {result: 5 * s}}, []time.Duration{0, 5 * s}},
		"asked":                  {[]pass{{asks: true}, {}}, []time.Duration{s, 0}},
		"sooner than it wants":   {[]pass{{asks: true, result: time.Minute}}, []time.Duration{s}},
		"not later than it asks": {[]pass{{asks: true, result: 200 * time.Millisecond}}, []time.Duration{200 * time.Millisecond}},
		"it goes on": {
			[]pass{{asks: true}, {asks: true}, {asks: true}, {asks: true}, {asks: true}, {asks: true}, {asks: true}},
			[]time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s},
		},
		"it went on, and was over": {[]pass{{asks: true}, {asks: true}, {}, {asks: true}}, []time.Duration{s, 2 * s, 0, s}},
	} {
		if diff := cmp.Diff(tc.want, waits(t, does(tc.passes...), "shop", len(tc.passes))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// One object does not make another wait longer, and nothing is kept of those that do not ask.
func TestObjectsAreApart(t *testing.T) {
	r := does(pass{asks: true}, pass{asks: true}, pass{asks: true}, pass{}, pass{})
	got := append(waits(t, r, "a", 2), waits(t, r, "b", 1)...)
	if diff := cmp.Diff([]time.Duration{time.Second, 2 * time.Second, time.Second}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	waits(t, r, "a", 1)
	waits(t, r, "b", 1)
	if left := r.(*repeater).times; len(left) > 0 {
		t.Errorf("still kept: %v", left)
	}
}

// An error has the pass repeated by itself, unless it says that this would not help: that is not true of what was overtaken.
func TestErrors(t *testing.T) {
	refused := errors.New("refused")
	for name, tc := range map[string]struct {
		pass     pass
		terminal bool
	}{
		"an error":                     {pass{err: refused}, false},
		"an error, asked":              {pass{err: refused, asks: true}, false},
		"a terminal one":               {pass{err: reconcile.TerminalError(refused)}, true},
		"a terminal one, asked":        {pass{err: reconcile.TerminalError(refused), asks: true}, false},
		"within another, asked":        {pass{err: fmt.Errorf("apply: %w", reconcile.TerminalError(refused)), asks: true}, false},
		"beside another, asked":        {pass{err: errors.Join(refused, reconcile.TerminalError(refused)), asks: true}, false},
		"terminal for no cause, asked": {pass{err: reconcile.TerminalError(nil), asks: true}, false},
	} {
		_, err := does(tc.pass).Reconcile(t.Context(), requestFor("shop"))
		if err == nil || errors.Is(err, reconcile.TerminalError(nil)) != tc.terminal {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestAskElsewhere(t *testing.T) {
	Ask(t.Context()) // of no pass: nothing happens
}
