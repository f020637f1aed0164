// Package recheck is the back-off of every controller. It retries a reconcile that ended with an error, and a reconcile whose
// decision was overtaken although no event may come.
//
// The API server answers a write with Conflict or NotFound when the object that was judged is not the one that is there. Most
// often somebody has changed or deleted it, and the watch brings a new pass. But the same answers come where nothing changed: from
// an admission webhook, an aggregated API or a proxy, or for an object that was deleted and made anew before the cache knew of
// either. A controller that only waits for an event then stands still for good.
//
// No error is final. What admission refuses today it may accept tomorrow, and the API server does not tell admission's answers from
// its own.
package requeue

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// firstDelay is the delay of the first retry. The delay doubles with each retry up to last.
	firstDelay = time.Second
	maxDelay   = 5 * time.Minute
	// jitter is the largest share of a delay that is added at random, so that objects that failed together retry apart.
	jitter = 0.1
	// maxDoublings is more than it takes to get to last.
	maxDoublings = 10
)

// requestedKey is that of the context's value, an *atomic.Bool.
type requestedKey struct{}

// Request has the pass that ctx belongs to repeated soon, unless the watch brings one before. It does nothing in a context that is
// not one of [Wrap].
func Request(ctx context.Context) {
	if asked, ok := ctx.Value(requestedKey{}).(*atomic.Bool); ok {
		asked.Store(true)
	}
}

// Backoff is a reconciler that retries with a growing delay, and the rate limiter of its controller's queue: set [Backoff.Options].
type Backoff struct {
	next reconcile.Reconciler
	now  func() time.Time

	mu      sync.Mutex
	retries map[reconcile.Request]retry
}

// retry is what is known of an object whose last reconcile failed or asked.
type retry struct {
	count int // of delays in a row
	due   time.Time
}

// WithBackoff makes a reconciler whose errors are retried, and those of its passes that [Ask]: after a second, then after twice as long
// each time, up to 5 minutes, until one does neither. A pass that asked and comes to wait for less is left alone.
func WithBackoff(next reconcile.Reconciler) *Backoff {
	return &Backoff{next: next, now: time.Now, retries: map[reconcile.Request]retry{}}
}

// Options are those of the controller that runs b.
func (b *Backoff) Options(workers int) controller.Options {
	return controller.Options{MaxConcurrentReconciles: workers, RateLimiter: b}
}

// Reconcile implements reconcile.Reconciler.
func (b *Backoff) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	asked := &atomic.Bool{}
	result, err := b.next.Reconcile(context.WithValue(ctx, requestedKey{}, asked), req)
	switch {
	case err != nil: // the queue asks for the delay
	case asked.Load():
		if delay := b.When(req); result.RequeueAfter == 0 || delay < result.RequeueAfter {
			result.RequeueAfter = delay
		}
	default:
		b.succeeded(req)
	}
	return result, err
}

// When implements workqueue.TypedRateLimiter: the delay of the next retry. Reconciles that events bring before it is due do not put it
// off: an outage of seconds in which many objects change would end in waits of minutes.
func (b *Backoff) When(req reconcile.Request) time.Duration {
	b.mu.Lock()
	defer b.mu.Unlock()
	at, r := b.now(), b.retries[req]
	if left := r.due.Sub(at); left > 0 {
		return left
	}
	delay := maxDelay
	if r.count < maxDoublings {
		delay = min(firstDelay<<r.count, maxDelay)
	}
	delay = wait.Jitter(delay, jitter)
	b.retries[req] = retry{count: r.count + 1, due: at.Add(delay)}
	return delay
}

func (b *Backoff) succeeded(req reconcile.Request) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.retries, req)
}

// Forget implements workqueue.TypedRateLimiter. It does nothing: the queue also calls it after a reconcile that asked.
func (b *Backoff) Forget(reconcile.Request) {}

// NumRequeues implements workqueue.TypedRateLimiter.
func (b *Backoff) NumRequeues(req reconcile.Request) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.retries[req].count
}
