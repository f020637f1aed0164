package agent

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"
)

// victim counts how often it was stopped; the first times it can't be.
type victim struct {
	refusals atomic.Int32
	fenced   atomic.Int32
	grace    atomic.Int64
}

func (v *victim) Fence(_ context.Context, grace time.Duration) error {
	v.fenced.Add(1)
	v.grace.Store(int64(grace))
	if v.refusals.Add(-1) >= 0 {
		return errors.New("it hangs")
	}
	return nil
}

// newFence has a clock of its own, which the test moves.
func newFence() (*fence, *atomic.Int64) {
	clock := &atomic.Int64{}
	clock.Store(int64(100 * time.Second))
	return &fence{
		log: slog.New(slog.NewJSONHandler(io.Discard, nil)), now: func() time.Duration { return time.Duration(clock.Load()) },
		setWatchdog: func(time.Duration) {},
	}, clock
}

func waitFor(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(30 * time.Second); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal(what)
		}
	}
}

func TestFence(t *testing.T) {
	for _, c := range []struct {
		name     string
		limited  bool
		at, kill time.Duration
		grace    time.Duration
		stops    bool
	}{
		{"in time", true, 101 * time.Second, 103 * time.Second, 0, false},
		{"no limit", false, 0, 0, 0, false},
		{"just over", true, 100 * time.Second, 102 * time.Second, 2 * time.Second, true},
		{"after a pause, there is no grace", true, 90 * time.Second, 92 * time.Second, 0, true},
	} {
		f, _ := newFence()
		v := &victim{}
		f.Guard(v)
		f.Set(c.at, c.kill, c.limited)
		if over := f.Check() != nil; over != c.stops {
			t.Errorf("%s: over %v, want %v", c.name, over, c.stops)
		}
		got, grace := f.overdue()
		if (got != nil) != c.stops || grace != c.grace {
			t.Errorf("%s: stops %v with %s, want %v with %s", c.name, got != nil, grace, c.stops, c.grace)
		}
	}
}

// TestFence_retries has a server that can't be stopped at first, and a deadline that passes while the fence runs.
func TestFence_retries(t *testing.T) {
	f, clock := newFence()
	v := &victim{}
	v.refusals.Store(2)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		f.Run(ctx)
	}()
	f.Guard(v)
	f.Set(101*time.Second, 103*time.Second, true)
	clock.Store(int64(101 * time.Second))
	waitFor(t, "the server was not stopped", func() bool { return v.fenced.Load() == 3 })
	waitFor(t, "the fence still inspects a server of which nothing is left", func() bool {
		server, _ := f.overdue()
		return server == nil
	})
	cancel()
	<-ended
	if n := f.stopped.Load(); n != 3 {
		t.Errorf("%d stops were counted, want 3", n)
	}
}

func TestFence_clearOnlyExitedServer(t *testing.T) {
	f, _ := newFence()
	first, second := &victim{}, &victim{}
	f.Guard(first)
	f.Guard(second)
	f.Set(0, 0, true)
	f.Clear(first)
	if server, _ := f.overdue(); server != second {
		t.Error("the end of the first server ended the watch over the second")
	}
}

// TestFence_waitsForWatchdog: a later deadline counts when the watchdog has it, an earlier one at once.
func TestFence_waitsForWatchdog(t *testing.T) {
	type step struct {
		name string
		do   func(f *fence)
		// at is the deadline then, told what the watchdog was told; allowed says that a primary may begin.
		at, told time.Duration
		allowed  bool
	}
	const s = time.Second
	for name, steps := range map[string][]step{
		"renewed": {
			{"the first deadline", func(f *fence) { f.Set(107*s, 109*s, true) }, 107 * s, 109 * s, false},
			{"confirmed", func(f *fence) { f.Confirmed(109 * s) }, 107 * s, 109 * s, true},
			{"renewed", func(f *fence) { f.Set(109*s, 111*s, true) }, 107 * s, 111 * s, true},
			{"an old confirmation", func(f *fence) { f.Confirmed(109 * s) }, 107 * s, 111 * s, true},
			{"confirmed again", func(f *fence) { f.Confirmed(111 * s) }, 109 * s, 111 * s, true},
			{"shortened", func(f *fence) { f.Set(105*s, 107*s, true) }, 105 * s, 107 * s, false},
			{"and confirmed", func(f *fence) { f.Confirmed(107 * s) }, 105 * s, 107 * s, true},
		},
		"the watchdog is lost": {
			{"the first deadline", func(f *fence) { f.Set(107*s, 109*s, true) }, 107 * s, 109 * s, false},
			{"confirmed", func(f *fence) { f.Confirmed(109 * s) }, 107 * s, 109 * s, true},
			{"lost", (*fence).Lost, 107 * s, 109 * s, false},
			{"renewed", func(f *fence) { f.Set(109*s, 111*s, true) }, 107 * s, 111 * s, false},
			{"another one", func(f *fence) { f.Confirmed(111 * s) }, 109 * s, 111 * s, true},
		},
		"the Lease is lost": {
			{"a deadline", func(f *fence) { f.Set(107*s, 109*s, true) }, 107 * s, 109 * s, false},
			{"over", func(f *fence) { f.Shorten(101*s, 103*s) }, 101 * s, 103 * s, false},
			{"still over", func(f *fence) { f.Shorten(102*s, 104*s) }, 101 * s, 103 * s, false},
		},
		"nobody could take over": {
			{"no limit", func(f *fence) { f.Set(0, 0, false) }, 0, 0, true},
			{"a second instance", func(f *fence) { f.Set(107*s, 109*s, true) }, 107 * s, 109 * s, false},
			{"confirmed", func(f *fence) { f.Confirmed(109 * s) }, 107 * s, 109 * s, true},
			{"no limit again", func(f *fence) { f.Set(0, 0, false) }, 107 * s, 0, true},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f, _ := newFence()
			var told time.Duration
			f.setWatchdog = func(at time.Duration) { told = at }
			for _, step := range steps {
				step.do(f)
				if f.deadline.at != step.at || told != step.told || f.isConfirmed() != step.allowed {
					t.Errorf("%s: deadline %s, told %s, allowed %v; want %s, %s, %v", step.name,
						f.deadline.at, told, f.isConfirmed(), step.at, step.told, step.allowed)
				}
			}
		})
	}
}

// TestFence_allow waits for a watchdog as long as there is time, and says what is missing.
func TestFence_allow(t *testing.T) {
	f, clock := newFence()
	f.Set(107*time.Second, 109*time.Second, true)
	f.setWatchdog = func(time.Duration) {}
	go func() {
		f.Confirmed(109 * time.Second)
	}()
	if err := f.Allow(t.Context()); err != nil {
		t.Errorf("a watchdog confirmed it: %v", err)
	}
	f.Lost()
	ended := make(chan error)
	go func() { ended <- f.Allow(t.Context()) }()
	waitFor(t, "waits for a watchdog", func() bool {
		clock.Add(int64(watchdogTime))
		select {
		case err := <-ended:
			if !errors.Is(err, errNoWatchdog) && !errors.Is(err, errLeaseExpired) {
				t.Errorf("without a watchdog: %v", err)
			}
			return true
		default:
			return false
		}
	})
	clock.Store(int64(107 * time.Second))
	f.Confirmed(109 * time.Second)
	if err := f.Allow(t.Context()); !errors.Is(err, errLeaseExpired) {
		t.Errorf("after the deadline: %v", err)
	}
}
