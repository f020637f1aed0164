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
	contender string
	seconds   float64 // from the first create until the last WebApp is Ready
	writes    int
	liveReads int
	cpu       float64 // of the contender in seconds, from its start until it has settled
}

// block runs one contender on n new WebApps in a new namespace.
func (b *bench) block(ctx context.Context, c contender, n int) (result block, err error) {
	namespace, err := b.env.NewNamespace(ctx, "bench")
	if err != nil {
		return result, err
	}
	mark, err := b.audit.Mark(ctx)
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
	result.contender = c.name
	if err := contending.stop(); err != nil {
		return result, err
	}
	requests, err := b.audit.Since(ctx, mark, audit.Filter{User: c.user, Namespace: namespace})
	if err != nil {
		return result, err
	}
	result.writes, result.liveReads = requests.Writes(), requests.LiveReads()
	return result, errors.Join(b.check(ctx, namespace, n), b.clear(ctx, namespace))
}

// measure waits until all are Ready, and then for the following requests.
func (b *bench) measure(ctx context.Context, namespace string, n int, contending *process) (result block, err error) {
	if err := b.probe(ctx, contending); err != nil {
		return result, err
	}
	started := time.Now()
	failed := make(chan error, 1)
	go func() { failed <- b.generate(ctx, namespace, n) }()
	defer func() { err = errors.Join(err, <-failed) }()
	last, err := b.await(ctx, namespace, n, contending)
	if err != nil {
		return result, err
	}
	result.seconds = last.Sub(started).Seconds()
	if err := sleep(ctx, b.options.settle); err != nil {
		return result, err
	}
	used, err := contending.usage()
	result.cpu = used.cpu
	return result, err
}

// probe waits until the contender works: a WebApp in another namespace becomes Ready.
func (b *bench) probe(ctx context.Context, contending *process) error {
	namespace, err := b.env.NewNamespace(ctx, "probe")
	if err != nil {
		return err
	}
	if err := b.admin.Create(ctx, webApp(namespace, 0)); err != nil {
		return err
	}
	if _, err := b.await(ctx, namespace, 1, contending); err != nil {
		return fmt.Errorf("first WebApp: %w", err)
	}
	return b.clear(ctx, namespace)
}
