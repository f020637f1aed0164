package main

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// phase changes some configurations, all at once or at a steady rate, and waits until their templates have changed.
func (r *changeRun) phase(ctx context.Context, which []int, version string, rate float64) (changes, error) {
	mark, err := r.audit.Mark(ctx)
	if err != nil {
		return changes{}, err
	}
	before := r.templates.counts()
	var mu sync.Mutex
	accepted := map[int]time.Time{}
	err = r.each(ctx, which, rate, func(ctx context.Context, i int) error {
		if err := r.change(ctx, i, version); err != nil {
			return err
		}
		mu.Lock()
		defer mu.Unlock()
		accepted[i] = time.Now()
		return nil
	})
	if err != nil {
		return changes{}, err
	}
	if err := r.awaitTemplates(ctx, which, before, r.options.limit); err != nil {
		return changes{}, err
	}
	result := r.templates.since(before, accepted)
	requests, err := r.waitIdle(ctx, mark)
	result.writes, result.liveReads = requests.Writes(), requests.LiveReads()
	return result, err
}

// awaitTemplates waits until each of the Deployments has a new template, or the limit has passed.
func (r *changeRun) awaitTemplates(ctx context.Context, which []int, before map[int]int, limit time.Duration) error {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errLimit)
	defer cancel()
	for {
		now := r.templates.counts()
		if !slices.ContainsFunc(which, func(i int) bool { return now[i] == before[i] }) {
			return nil
		}
		select {
		case <-r.process.done:
			return r.process.failure()
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), errLimit) {
				return nil // the others are reported
			}
			return ctx.Err()
		case <-time.After(50 * time.Millisecond):
		}
	}
}

var errLimit = errors.New("the limit of the phase")

// each calls do for each index, concurrently or at a steady rate.
func (r *changeRun) each(ctx context.Context, which []int, rate float64, do func(context.Context, int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	var workers sync.WaitGroup
	for range generators {
		workers.Go(func() {
			for i := range next {
				if err := do(ctx, i); err != nil {
					cancel(err)
				}
			}
		})
	}
	defer workers.Wait()
	defer close(next)
	started := time.Now()
	for at, i := range which {
		if rate > 0 {
			if err := sleep(ctx, time.Until(started.Add(time.Duration(float64(at)/rate*float64(time.Second))))); err != nil {
				return context.Cause(ctx)
			}
		}
		select {
		case next <- i:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	return nil
}

func (r *changeRun) everyIndex() []int {
	all := make([]int, r.options.n)
	for i := range all {
		all[i] = i
	}
	return all
}

// summarize sets the times of the answered changes.
func (c *changes) summarize(seconds []float64) {
	if len(seconds) == 0 {
		return
	}
	slices.Sort(seconds)
	c.median, c.max = median(seconds), seconds[len(seconds)-1]
	c.p99 = seconds[min(len(seconds)*99/100, len(seconds)-1)]
}
