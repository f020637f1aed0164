package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fettle-dev/fettle/test/audit"
)

// block is one run of one contender.
type block struct {
	Round     int     `json:"round"`
	Contender string  `json:"contender"`
	Seconds   float64 `json:"seconds"` // from its start (backlog) or the first create (burst) until the last WebApp is Ready
	Drain     float64 `json:"drainSeconds"`
	Writes    int     `json:"writes"`
	Events    int     `json:"events"`
	LiveReads int     `json:"liveReads"`
	CPU       float64 `json:"cpuSeconds"` // of the contender, from its start until the last WebApp is Ready
	CPUAfter  float64 `json:"cpuSecondsSettled"`
	ServerCPU float64 `json:"serverCPUSeconds"`
	MaxRSS    float64 `json:"maxRSSMiB"`
}

// block runs one contender on n new WebApps in a new namespace.
func (b *bench) block(ctx context.Context, c contender, n int) (result block, err error) {
	namespace, err := b.env.NewNamespace(ctx, "bench")
	if err != nil {
		return result, err
	}
	if b.options.load == loadBacklog {
		if err := b.generate(ctx, namespace, n); err != nil {
			return result, err
		}
	}
	mark, err := b.audit.Mark(ctx)
	if err != nil {
		return result, err
	}
	serverBefore, err := serverUsage()
	if err != nil {
		return result, err
	}
	contending, err := b.start(c)
	if err != nil {
		return result, err
	}
	result, err = b.measure(ctx, namespace, n, contending)
	if err != nil {
		sent, auditErr := b.audit.Since(ctx, mark, audit.Filter{User: c.user})
		return result, errors.Join(fmt.Errorf("%s: %w; it sent:\n%s", c.name, err, sent), auditErr, contending.stop())
	}
	serverAfter, err := serverUsage()
	if err != nil {
		return result, errors.Join(err, contending.stop())
	}
	result.Contender, result.ServerCPU = c.name, serverAfter-serverBefore
	if err := contending.stop(); err != nil {
		return result, err
	}
	requests, err := b.audit.Since(ctx, mark, audit.Filter{User: c.user, Namespace: namespace})
	if err != nil {
		return result, err
	}
	result.Writes, result.LiveReads, result.Events = requests.Writes(), requests.LiveReads(), requests.Of(audit.Event)
	return result, errors.Join(b.check(ctx, namespace, n), b.clear(ctx, namespace))
}

// measure waits until all are Ready, and then for the following requests.
func (b *bench) measure(ctx context.Context, namespace string, n int, contending *process) (result block, err error) {
	started := contending.started
	if b.options.load == loadBurst {
		if err := b.probe(ctx, contending); err != nil {
			return result, err
		}
		started = time.Now()
		failed := make(chan error, 1)
		go func() { failed <- b.generate(ctx, namespace, n) }()
		defer func() { err = errors.Join(err, <-failed) }()
	}
	when, err := b.await(ctx, namespace, n, contending)
	if err != nil {
		return result, err
	}
	used, err := contending.usage()
	if err != nil {
		return result, err
	}
	result.Seconds, result.Drain, result.CPU = when.last.Sub(started).Seconds(), when.last.Sub(when.first).Seconds(), used.cpu
	select {
	case <-ctx.Done():
		return result, ctx.Err()
	case <-time.After(b.options.settle):
	}
	used, err = contending.usage()
	result.CPUAfter, result.MaxRSS = used.cpu, used.maxRSS
	return result, err
}

// probe waits until the contender works: a WebApp in another namespace becomes Ready.
func (b *bench) probe(ctx context.Context, contending *process) error {
	namespace, err := b.env.NewNamespace(ctx, "probe")
	if err != nil {
		return err
	}
	if err := b.admin.Create(ctx, b.webApp(namespace, 0)); err != nil {
		return err
	}
	if _, err := b.await(ctx, namespace, 1, contending); err != nil {
		return fmt.Errorf("first WebApp: %w", err)
	}
	return b.clear(ctx, namespace)
}
