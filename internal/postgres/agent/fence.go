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

// fenceTick is how often the deadline is compared with the clock.
const fenceTick = 50 * time.Millisecond

// errNoTime means that the Lease does not allow a primary, or not any more.
var errNoTime = errors.New("the Lease allows no primary now")

// fenced is what can be stopped: *server.Process.
type fenced interface {
	// Fence stops it at once, and kills what is left after grace. nil means that nothing is left.
	Fence(ctx context.Context, grace time.Duration) error
}

// fence stops a server that may be read-write when the time that the Lease granted is over. It needs nobody's help: it
// takes no lock that is held across anything slow, and runs on a thread of its own beside whatever the agent does.
type fence struct {
	log *slog.Logger
	now func() time.Duration
	// stopped counts the servers that the deadline ended.
	stopped atomic.Int64

	mutex sync.Mutex
	// limited is false while no deadline applies; then at and kill mean nothing.
	limited  bool
	at, kill time.Duration
	guarded  fenced
}

// Set replaces the deadline: the server is told to stop at the first instant, and what is left of it is killed at the
// second. Without a limit it may run on.
func (f *fence) Set(at, kill time.Duration, limited bool) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.at, f.kill, f.limited = at, kill, limited
}

// Clear ends the watch over a server of which nothing is left.
func (f *fence) Clear(server fenced) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.guarded == server {
		f.guarded = nil
	}
}

// Guard watches over a server from now on, until Clear. Call it before the server can become read-write.
func (f *fence) Guard(server fenced) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	f.guarded = server
}

// Check is errNoTime when the time is over: nothing may become read-write.
func (f *fence) Check() error {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.limited && f.now() >= f.at {
		return errNoTime
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
func (f *fence) overdue() (fenced, time.Duration) {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	at := f.now()
	if f.guarded == nil || !f.limited || at < f.at {
		return nil, 0
	}
	return f.guarded, max(0, f.kill-at)
}

func (f *fence) stop(ctx context.Context, server fenced, grace time.Duration) {
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
