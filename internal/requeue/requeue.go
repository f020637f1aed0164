// Package requeue is the back-off of every controller. It retries a reconcile that returned an error, and a reconcile that asked
// for a retry because its decision was out of date and an event may not come.
//
// The API server answers a write with Conflict or NotFound if the stored object is not the one that the controller read. Usually
// another client changed or deleted it, and the watch triggers a new reconcile. But admission webhooks, aggregated APIs and proxies
// give the same answers, and so does an object that was deleted and re-created before the cache showed either. A controller that
// only waits for an event would then hang.
//
// No error is final: admission may accept tomorrow what it rejects today, and the API server's own answers look the same.
package requeue

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

const (
	// firstDelay is the delay of the first retry. The delay doubles with each retry, up to maxDelay.
	firstDelay = time.Second
	maxDelay   = 5 * time.Minute
	// jitter is the largest share of a delay that is added at random: objects that failed together retry at different times.
	jitter = 0.1
	// maxDoublings is more than it takes to reach maxDelay.
	maxDoublings = 10
)

// requestedKey is the key of the context's value, an *atomic.Bool.
type requestedKey struct{}

// Request asks for a retry of the reconcile that ctx belongs to, unless the watch triggers one before. It does nothing if ctx is not
// a context of [WithBackoff].
func Request(ctx context.Context) {
	if requested, ok := ctx.Value(requestedKey{}).(*atomic.Bool); ok {
		requested.Store(true)
	}
}

// IfOutdated requests a retry and returns nil if err says that the written object was changed or deleted since it was read, of which the
// watch may tell. It returns any other err.
func IfOutdated(ctx context.Context, err error) error {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		Request(ctx)
		return nil
	}
	return err
}

// Backoff is a reconciler that retries with a growing delay, and the rate limiter of its controller's queue: set [Backoff.Options].
type Backoff struct {
	next reconcile.Reconciler
	now  func() time.Time

	mu      sync.Mutex
	retries map[reconcile.Request]retry
}

// retry is the state of an object whose last reconcile failed or requested a retry.
type retry struct {
	count int // consecutive delays
	due   time.Time
}

// WithBackoff returns a reconciler that retries errors and requests: after a second, then after twice the delay each time, up to 5
// minutes, until a reconcile returns neither. A shorter RequeueAfter of a reconcile that requested a retry is kept.
func WithBackoff(next reconcile.Reconciler) *Backoff {
	return &Backoff{next: next, now: time.Now, retries: map[reconcile.Request]retry{}}
}

// Options are those of the controller that runs b.
func (b *Backoff) Options(workers int) controller.Options {
	return controller.Options{MaxConcurrentReconciles: workers, RateLimiter: b}
}

// Reconcile implements reconcile.Reconciler.
func (b *Backoff) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	requested := &atomic.Bool{}
	result, err := b.next.Reconcile(context.WithValue(ctx, requestedKey{}, requested), req)
	switch {
	case err != nil: // the queue calls When
	case requested.Load():
		if delay := b.When(req); result.RequeueAfter == 0 || delay < result.RequeueAfter {
			result.RequeueAfter = delay
		}
	default:
		b.succeeded(req)
	}
	return result, err
}

// When implements workqueue.TypedRateLimiter: the delay of the next retry. Reconciles that events trigger before it is due do not
// postpone it. Otherwise, a short outage in which many objects change would cause delays of minutes.
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

// Forget implements workqueue.TypedRateLimiter. It does nothing, since the queue also calls it after a reconcile that requested a
// retry.
func (b *Backoff) Forget(reconcile.Request) {}

// NumRequeues implements workqueue.TypedRateLimiter.
func (b *Backoff) NumRequeues(req reconcile.Request) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.retries[req].count
}
