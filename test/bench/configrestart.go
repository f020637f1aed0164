package main

import (
	"context"
	"errors"
	"time"

	"github.com/fettle-dev/fettle/test/audit"
)

// outageLimit is how long changes made while the contender was stopped may take.
const outageLimit = 2 * time.Minute

// restart counts the contender's requests after a start without work.
func (r *changeRun) restart(ctx context.Context, result *changeResult) error {
	mark, err := r.audit.Mark(ctx)
	if err != nil {
		return err
	}
	if r.process, err = r.start(r.contender.contender); err != nil {
		return err
	}
	err = sleep(ctx, r.options.idle)
	requests, auditErr := r.audit.Since(ctx, mark, audit.Filter{User: r.contender.user})
	result.RestartWrites, result.RestartReads = requests.Writes(), requests.LiveReads()
	if result.RestartWrites > 0 {
		r.logf("after a restart %s sent:\n%s", r.contender.name, requests)
	}
	return errors.Join(err, auditErr, r.process.stop())
}

// outage makes changes while no contender runs, and counts the changes that it rolls out after its start.
func (r *changeRun) outage(ctx context.Context, result *changeResult) error {
	which := r.everyIndex()[:min(r.options.singles, r.options.n)]
	before := r.templates.counts()
	err := r.each(ctx, which, 0, func(ctx context.Context, i int) error { return r.contender.change(ctx, r, i, "outage") })
	if err != nil {
		return err
	}
	if r.process, err = r.start(r.contender.contender); err != nil {
		return err
	}
	if err := r.awaitTemplates(ctx, which, before, min(outageLimit, r.options.limit)); err != nil {
		return err
	}
	started := map[int]time.Time{}
	for _, i := range which {
		started[i] = r.process.started
	}
	result.Outage = r.templates.since(before, started, r.process.started)
	return r.process.stop()
}
