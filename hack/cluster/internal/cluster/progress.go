package cluster

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"
)

// patience is how long a step runs before it says what it waits for, and how often it says so again.
const patience = 10 * time.Second

// progress prints a line for each step, with the time since the start and what the step took.
type progress struct {
	out   io.Writer
	start time.Time
}

// note tells what a step waits for now.
type note func(format string, args ...any)

// step runs do. Its result, a few words, ends the line.
func (p *progress) step(ctx context.Context, name string, do func(context.Context, note) (string, error)) error {
	var mu sync.Mutex
	waiting := name
	begin := time.Now()
	done := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(patience)
		defer ticker.Stop()
		for {
			select {
			case <-done:
				return
			case <-ticker.C:
				mu.Lock()
				p.line("  ... %s: waiting for %s (%s)", name, waiting, time.Since(begin).Round(time.Second))
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
	p.line("%-14s %s (%s)", name, result, time.Since(begin).Round(10*time.Millisecond))
	return nil
}

func (p *progress) line(format string, args ...any) {
	// The work goes on where nobody reads how far it is.
	_, _ = fmt.Fprintf(p.out, "[%6.1fs] %s\n", time.Since(p.start).Seconds(), fmt.Sprintf(format, args...))
}
