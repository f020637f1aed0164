// Package recheck repeats a pass whose decision was overtaken, although no event may come.
//
// The API server answers a write with Conflict or NotFound when the object that was judged is not the one that is there. Most
// often somebody has changed or deleted it, and the watch brings a new pass. But the same answers come where nothing changed: from
// an admission webhook, an aggregated API or a proxy, or for an object that was deleted and made anew before the cache knew of
// either. A controller that only waits for an event then stands still for good.
package recheck

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// first is when a pass is repeated, last is the longest wait where that goes on: it doubles each time.
	first = time.Second
	last  = 30 * time.Second
)

// askedKey is that of the context's value, an *atomic.Bool.
type askedKey struct{}

// Ask has the pass that ctx belongs to repeated soon, unless the watch brings one before. It does nothing in a context that is
// not one of [Wrap].
func Ask(ctx context.Context) {
	if asked, ok := ctx.Value(askedKey{}).(*atomic.Bool); ok {
		asked.Store(true)
	}
}

// Wrap makes a reconciler of which [Ask] has passes repeated: after a second, and later each time until a pass does not ask. A
// pass that comes to wait for less is left alone, and so is one that ends with an error, which is repeated anyway.
func Wrap(next reconcile.Reconciler) reconcile.Reconciler {
	return &repeater{next: next, times: map[reconcile.Request]int{}}
}

type repeater struct {
	next reconcile.Reconciler

	mu sync.Mutex
	// times counts the passes in a row that asked, of those requests whose last pass did.
	times map[reconcile.Request]int
}

// Reconcile implements reconcile.Reconciler.
func (r *repeater) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	asked := &atomic.Bool{}
	result, err := r.next.Reconcile(context.WithValue(ctx, askedKey{}, asked), req)
	wait := r.after(req, asked.Load())
	switch {
	case wait == 0:
	case err != nil:
		err = repeated(err)
	case result.RequeueAfter == 0 || wait < result.RequeueAfter:
		result.RequeueAfter = wait
	}
	return result, err
}

// after is how long to wait for the next pass; 0 where this one did not ask.
func (r *repeater) after(req reconcile.Request, asked bool) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !asked {
		delete(r.times, req)
		return 0
	}
	n := r.times[req]
	r.times[req] = n + 1
	return min(first<<min(n, 10), last)
}

// repeated takes from err that no other pass would help: this one did not get to do all that it decided.
func repeated(err error) error {
	for errors.Is(err, reconcile.TerminalError(nil)) {
		inner := errors.Unwrap(err)
		if inner == nil {
			return errors.New(err.Error())
		}
		err = inner
	}
	return err
}
