package cluster

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// progressInterval is the time between two messages about what a step waits for.
const progressInterval = 10 * time.Second

// progress prints a line for each step, with the time since the start and the step's duration.
type progress struct {
	out   io.Writer
	start time.Time
}

// reporter records what a step currently waits for.
type reporter func(format string, args ...any)

// step runs do and prints its result.
func (p *progress) step(ctx context.Context, name string, do func(context.Context, reporter) (string, error)) error {
	var mu sync.Mutex
	waiting := name
	started := time.Now()
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(progressInterval)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				mu.Lock()
				p.line("  ... %s: waiting for %s (%s)", name, waiting, time.Since(started).Round(time.Second))
				mu.Unlock()
			}
		}
	})
	result, err := do(ctx, func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		waiting = fmt.Sprintf(format, args...)
	})
	close(done)
	wg.Wait()
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	p.line("%-14s %s (%s)", name, result, time.Since(started).Round(10*time.Millisecond))
	return nil
}

func (p *progress) line(format string, args ...any) {
	// A failure to print progress must not stop the work.
	_, _ = fmt.Fprintf(p.out, "[%6.1fs] %s\n", time.Since(p.start).Seconds(), fmt.Sprintf(format, args...))
}
