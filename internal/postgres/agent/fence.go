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

// Reasons why a server must not become a primary.
var (
	// errLeaseExpired means that the lease does not allow a primary, or no longer does.
	errLeaseExpired = errors.New("lease does not allow a primary")
	// errNoWatchdog means that no other process would stop a primary if this one hung.
	errNoWatchdog = errors.New("watchdog has not confirmed the deadline")
)

// watchdogTime is how long the fence waits for a watchdog that is starting.
const watchdogTime = 2 * time.Second

// fenceable is a server that can be stopped: *server.Process.
type fenceable interface {
	// Fence stops it immediately, and kills the remaining processes after grace. nil means that no process is left.
	Fence(ctx context.Context, grace time.Duration) error
}

// fence stops a server that may be read-write when the time that the lease granted is over. It holds no lock across slow
// operations, and runs on its own thread. A watchdog does the same when this process hangs. The fence allows no more time than
// the watchdog knows of: see the invariants of package watchdog.
type fence struct {
	log *slog.Logger
	now func() time.Duration
	// setWatchdog passes a deadline to the watchdog, 0 for none. It does not wait.
	setWatchdog func(time.Duration)
	// stopped counts the servers that the deadline stopped.
	stopped atomic.Int64

	mutex sync.Mutex
	// limited is false while no deadline applies. Then the deadlines mean nothing.
	limited bool
	// deadline is in force. requested will be when the watchdog has confirmed it. confirmed means that the watchdog has confirmed
	// deadline.
	deadline, requested deadline
	confirmed           bool
	guarded             fenceable
}

// deadline is when a server is stopped, and when its remaining processes are killed.
type deadline struct{ at, kill time.Duration }

// Set replaces the deadline: with an earlier one at once, with a later one when the watchdog has confirmed it. The first deadline
// is in force at once too, because nothing is read-write yet: see Allow. Without a limit the server may keep running.
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

// Shorten is Set for a server that has no time left. It never moves the deadline to later.
func (f *fence) Shorten(at, kill time.Duration) {
	f.mutex.Lock()
	if f.limited {
		at, kill = min(at, f.deadline.at), min(kill, f.deadline.kill)
	}
	f.mutex.Unlock()
	f.Set(at, kill, true)
}

// Confirmed is called when the watchdog has confirmed the time at which it kills.
func (f *fence) Confirmed(kill time.Duration) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.limited && f.requested.kill == kill {
		f.deadline, f.confirmed = f.requested, true
	}
}

// Lost is called when the watchdog is gone.
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

// Clear ends the guard over a server that has exited completely.
func (f *fence) Clear(server fenceable) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.guarded == server {
		f.guarded = nil
	}
}

// Guard guards a server from now on, until Clear. Call it before the server can become read-write.
func (f *fence) Guard(server fenceable) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.guarded = server
}

// Check returns errLeaseExpired when the time is over: nothing may become read-write.
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

// overdue returns the server that has to be stopped, and how long that may take.
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
	f.log.Warn("lease was not renewed in time: fencing PostgreSQL")
	if err := server.Fence(ctx, grace); err != nil {
		f.log.Error("failed to stop PostgreSQL: retrying", "error", err.Error())
		return
	}
	f.Clear(server)
	f.log.Warn("PostgreSQL is fenced", "duration", (f.now() - begun).Round(time.Millisecond).String())
}
