package agent

import (
	"context"
	"errors"
	"log/slog"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

const fenceTick = 50 * time.Millisecond

// Reasons against a primary.
var (
	// errLeaseExpired means that the Lease does not allow one, or not any more.
	errLeaseExpired = errors.New("the Lease allows no primary now")
	// errNoWatchdog means that nobody would end one if this process stood still.
	errNoWatchdog = errors.New("no watchdog has confirmed the deadline of a primary")
)

// watchdogTime is how long a watchdog that is just starting is waited for.
const watchdogTime = 2 * time.Second

// fenceable is what can be stopped: *server.Process.
type fenceable interface {
	// Fence stops it at once, and kills what is left after grace. nil means that nothing is left.
	Fence(ctx context.Context, grace time.Duration) error
}

// fence stops a server that may be read-write when the time that the Lease granted is over. It takes no lock that is held across anything
// slow, and runs on a thread of its own. A watchdog does the same when this process stands still, and the fence allows no more time than
// that one knows of: see the invariants of package watchdog.
type fence struct {
	log *slog.Logger
	now func() time.Duration
	// setWatchdog passes a deadline on to the watchdog, 0 for none; it waits for nobody.
	setWatchdog func(time.Duration)
	// stopped counts the servers that the deadline ended.
	stopped atomic.Int64

	mutex sync.Mutex
	// limited is false while no deadline applies; then the deadlines mean nothing.
	limited bool
	// deadline is in force, wanted will be when the watchdog has confirmed it; watched says that it has confirmed deadline.
	deadline, requested deadline
	confirmed           bool
	guarded             fenceable
}

// deadline is when a server is told to stop, and when what is left of it is killed.
type deadline struct{ at, kill time.Duration }

// Set replaces the deadline: an earlier one at once, a later one when the watchdog has confirmed it. The first one is in
// force at once too, as nothing is read-write yet: see Allow. Without a limit the server may run on.
func (f *fence) Set(at, kill time.Duration, limited bool) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if !limited {
		f.limited = false
		f.setWatchdog(0)
		return
	}
	f.requested = deadline{at, kill}
	if !f.limited || at < f.deadline.at {
		f.confirmed = false
		f.deadline = f.requested
	}
	f.limited = true
	f.setWatchdog(kill)
}

// Shorten is Set for a server that has no time left: it never moves the deadline to later.
func (f *fence) Shorten(at, kill time.Duration) {
	f.mutex.Lock()
	if f.limited {
		at, kill = min(at, f.deadline.at), min(kill, f.deadline.kill)
	}
	f.mutex.Unlock()
	f.Set(at, kill, true)
}

// Confirmed is called when the watchdog kills at that time.
func (f *fence) Confirmed(kill time.Duration) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.limited && f.requested.kill == kill {
		f.deadline, f.confirmed = f.requested, true
	}
}

// Lost is called when there is no watchdog any more.
func (f *fence) Lost() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.confirmed = false
}

// Allow waits for the watchdog to confirm the deadline. It returns nil when a server may become read-write.
func (f *fence) Allow(ctx context.Context) error {
	for end := f.now() + watchdogTime; ; sleep(ctx, time.Millisecond) {
		if err := errors.Join(ctx.Err(), f.Check()); err != nil {
			return err
		}
		if f.isConfirmed() {
			return nil
		}
		if f.now() >= end {
			return errNoWatchdog
		}
	}
}

func (f *fence) isConfirmed() bool {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	return !f.limited || f.confirmed
}

// Clear ends the watch over a server of which nothing is left.
func (f *fence) Clear(server fenceable) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.guarded == server {
		f.guarded = nil
	}
}

// Guard watches over a server from now on, until Clear. Call it before the server can become read-write.
func (f *fence) Guard(server fenceable) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.guarded = server
}

// Check is errLeaseExpired when the time is over: nothing may become read-write.
func (f *fence) Check() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.limited && f.now() >= f.deadline.at {
		return errLeaseExpired
	}
	return nil
}

// Run compares the deadline with the clock until the context ends. It must outlive every server.
func (f *fence) Run(ctx context.Context) {
	runtime.LockOSThread()
	tick := time.NewTicker(fenceTick)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if server, grace := f.overdue(); server != nil {
			f.stop(ctx, server, grace)
		}
	}
}

// overdue returns what has to be stopped and how long that may take.
func (f *fence) overdue() (fenceable, time.Duration) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	at := f.now()
	if f.guarded == nil || !f.limited || at < f.deadline.at {
		return nil, 0
	}
	return f.guarded, max(0, f.deadline.kill-at)
}

func (f *fence) stop(ctx context.Context, server fenceable, grace time.Duration) {
	begun := f.now()
	f.stopped.Add(1)
	f.log.Warn("the Lease was not renewed in time: stopping PostgreSQL at once")
	if err := server.Fence(ctx, grace); err != nil {
		f.log.Error("PostgreSQL could not be stopped; trying again", "error", err.Error())
		return
	}
	f.Clear(server)
	f.log.Warn("PostgreSQL was stopped", "after", (f.now() - begun).Round(time.Millisecond).String())
}
