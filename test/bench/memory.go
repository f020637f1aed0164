package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fettle-dev/fettle/test/audit"
)

// settleTime is the idle time of a manager before a measurement.
const settleTime = 15 * time.Second

// memoryResult is the resource usage of one idle contender: resident memory in MiB, and requests.
type memoryResult struct {
	empty, converged, restarted                            float64
	idleWrites, idleLiveReads, restartWrites, restartReads int
}

// memoryColumns are the columns of a record of memory, and cells a row of it.
var memoryColumns = []string{"Manager", "Empty", "With all objects", "After a restart", "Idle: writes, live reads", "After a restart: writes, live reads"}

func (r memoryResult) cells(name string) []string {
	mib := func(size float64) string { return fmt.Sprintf("%.0f MiB", size) }
	pair := func(writes, reads int) string { return fmt.Sprintf("%d, %d", writes, reads) }
	return []string{
		name, mib(r.empty), mib(r.converged), mib(r.restarted), pair(r.idleWrites, r.idleLiveReads), pair(r.restartWrites, r.restartReads),
	}
}

// memory measures Fettle and the naive controller, one after another.
func (b *bench) memory(ctx context.Context) error {
	r := b.record(fmt.Sprintf("%d WebApps with replicas 0 and their %d children each. Idle and restart: %s each.", b.options.n, len(kinds()), b.options.idle))
	r.Columns = memoryColumns
	for _, c := range contenders(1) {
		if c.name != fettleName && c.name != "naive-5" {
			continue
		}
		result, err := b.memoryOf(ctx, c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		r.Add(result.cells(c.about)...)
	}
	return b.write(r, modeMemory)
}

func (b *bench) memoryOf(ctx context.Context, c contender) (result memoryResult, err error) {
	first, err := b.start(c)
	if err != nil {
		return result, err
	}
	namespace, err := b.fill(ctx, &result, first)
	if err == nil {
		err = b.idle(ctx, &result, c, first)
	}
	if err := errors.Join(err, first.stop()); err != nil {
		return result, err
	}
	mark, err := b.audit.Mark(ctx)
	if err != nil {
		return result, err
	}
	second, err := b.start(c)
	if err != nil {
		return result, err
	}
	err = b.restarted(ctx, &result, c, second, mark)
	return result, errors.Join(err, second.stop(), b.clear(ctx, namespace))
}

// fill measures the empty manager, and lets it reconcile n WebApps.
func (b *bench) fill(ctx context.Context, result *memoryResult, p *process) (string, error) {
	namespace, err := b.env.NewNamespace(ctx, "memory")
	if err != nil {
		return "", err
	}
	if err := b.probe(ctx, p); err != nil {
		return "", err
	}
	if err := sleep(ctx, settleTime); err != nil {
		return "", err
	}
	used, err := p.usage()
	if err != nil {
		return "", err
	}
	result.empty = used.rss
	if err := b.generate(ctx, namespace, b.options.n); err != nil {
		return "", err
	}
	if _, err := b.await(ctx, namespace, b.options.n, p); err != nil {
		return "", err
	}
	return namespace, sleep(ctx, settleTime)
}

// idle measures an idle manager.
func (b *bench) idle(ctx context.Context, result *memoryResult, c contender, p *process) error {
	mark, err := b.audit.Mark(ctx)
	if err != nil {
		return err
	}
	if err := sleep(ctx, b.options.idle); err != nil {
		return err
	}
	requests, err := b.audit.Since(ctx, mark, audit.Filter{User: c.user})
	if err != nil {
		return err
	}
	result.idleWrites, result.idleLiveReads = requests.Writes(), requests.LiveReads()
	used, err := p.usage()
	result.converged = used.rss
	return err
}

// restarted measures a manager from its start, without work.
func (b *bench) restarted(ctx context.Context, result *memoryResult, c contender, p *process, mark audit.Position) error {
	if err := sleep(ctx, b.options.idle); err != nil {
		return err
	}
	requests, err := b.audit.Since(ctx, mark, audit.Filter{User: c.user})
	if err != nil {
		return err
	}
	result.restartWrites, result.restartReads = requests.Writes(), requests.LiveReads()
	used, err := p.usage()
	result.restarted = used.rss
	if result.restartWrites > 0 || result.restartReads > 0 {
		b.logf("after a restart %s sent:\n%s", c.name, requests)
	}
	return err
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(d):
		return nil
	}
}
