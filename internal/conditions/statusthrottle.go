package conditions

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// counterInterval is the least time between two writes of a status in which only counters changed.
	counterInterval = time.Second
	// minIdle is the least time for which the state of an unused object is kept.
	minIdle = time.Minute
)

// StatusThrottle coalesces status writes. A status that reports only progress waits until the
// coalescing window has passed since this generation of the object was first seen. A change of
// counters alone is written at most once per second. A result is written at once. A creation that
// succeeds within the window costs one status write. A restart of the operator loses the
// throttle's state, which delays a report of progress by one window.
type StatusThrottle struct {
	window time.Duration
	clock  clock.PassiveClock

	mu        sync.Mutex
	objects   map[types.UID]*throttleState
	lastSwept time.Time
}

// throttleState is the state of one object.
type throttleState struct {
	generation int64
	firstSeen  time.Time
	wrote      time.Time
	lastAsked  time.Time
}

// NewStatusThrottle returns a StatusThrottle with this coalescing window.
func NewStatusThrottle(window time.Duration, clock clock.PassiveClock) *StatusThrottle {
	return &StatusThrottle{window: window, clock: clock, objects: map[types.UID]*throttleState{}, lastSwept: clock.Now()}
}

// Delay returns how long to wait before obj's status is written, 0 to write it now. onlyProgress
// says that the status reports no result, onlyCounters that only counters differ from the written
// status. Call it for each status that differs, also with neither: the first call for a
// generation starts its window.
func (p *StatusThrottle) Delay(obj client.Object, onlyProgress, onlyCounters bool) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	o := p.object(obj, now)
	var wait time.Duration
	if onlyProgress {
		wait = remaining(now, o.firstSeen, p.window)
	}
	if onlyCounters && !o.wrote.IsZero() {
		wait = max(wait, remaining(now, o.wrote, counterInterval))
	}
	return wait
}

// Wrote records that obj's status was written.
func (p *StatusThrottle) Wrote(obj client.Object) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	p.object(obj, now).wrote = now
}

// Remaining returns how much of d is left since obj's status was written last; 0 if no write is recorded.
func (p *StatusThrottle) Remaining(obj client.Object, d time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.clock.Now()
	o := p.object(obj, now)
	if o.wrote.IsZero() {
		return 0
	}
	return remaining(now, o.wrote, d)
}

// Forget drops the state of a deleted object.
func (p *StatusThrottle) Forget(uid types.UID) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.objects, uid)
}

// object returns the state of obj, for its current generation.
func (p *StatusThrottle) object(obj client.Object, now time.Time) *throttleState {
	p.sweep(now)
	o, ok := p.objects[obj.GetUID()]
	if !ok {
		o = &throttleState{generation: obj.GetGeneration(), firstSeen: now}
		p.objects[obj.GetUID()] = o
	}
	if o.generation != obj.GetGeneration() {
		o.generation, o.firstSeen = obj.GetGeneration(), now
	}
	o.lastAsked = now
	return o
}

// sweep drops the state of objects that were not used for a long time.
func (p *StatusThrottle) sweep(now time.Time) {
	idle := max(minIdle, 10*p.window)
	if now.Sub(p.lastSwept) < idle {
		return
	}
	p.lastSwept = now
	for uid, o := range p.objects {
		if now.Sub(o.lastAsked) >= idle {
			delete(p.objects, uid)
		}
	}
}

// remaining returns how much of d is left since the given time; at most d, even if the clock was set back.
func remaining(now, since time.Time, d time.Duration) time.Duration {
	return min(max(d-now.Sub(since), 0), d)
}
