package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"time"

	"github.com/fettle-dev/fettle/test/audit"
	"github.com/fettle-dev/fettle/test/figures"
)

// changes are the times in seconds from a change that the API server accepted to the watch event of the pod template's change. They include
// the requests until the operator was idle.
type changes struct {
	changes, unanswered int // unanswered within the limit
	median, p99, max    float64
	writes, liveReads   int
}

// configChanges measures Fettle without and with its delays, one after another.
func (b *bench) configChanges(ctx context.Context) error {
	r := b.record(fmt.Sprintf("%d AppConfigs, and %d Deployments that use one each. The Deployments have no pods: a fake controller reports each rollout as complete.", b.options.n, b.options.n),
		"The time is from the change of the AppConfig to the change of the pod template.")
	r.Columns = []string{"Changes", "Delays of spec.rollout", "Median", "99th percentile", "Longest", "Not rolled out", "Writes per change", "Live reads per change"}
	for _, delayed := range []bool{false, true} {
		if err := b.changesOf(ctx, &r, delayed); err != nil {
			return err
		}
	}
	return b.write(r, modeConfig)
}

func per(count, changes int) string {
	return fmt.Sprintf("%.1f", float64(count)/float64(max(changes, 1)))
}

func (b *bench) changesOf(ctx context.Context, r *figures.Record, delayed bool) (err error) {
	namespace, err := b.env.NewNamespace(ctx, "config")
	if err != nil {
		return err
	}
	templates, err := b.watchTemplates(ctx, namespace)
	if err != nil {
		return err
	}
	defer templates.stop()
	fettle := contenders(1)[0]
	process, err := b.start(fettle)
	if err != nil {
		return err
	}
	run := &changeRun{bench: b, fettle: fettle, delayed: delayed, namespace: namespace, templates: templates, process: process}
	return errors.Join(run.all(ctx, r), process.stop(), run.clear(ctx))
}

// changeRun is a run in one namespace.
type changeRun struct {
	*bench
	fettle    contender
	delayed   bool // with the default delays of spec.rollout; otherwise with none
	namespace string
	templates *templates
	process   *process
}

// pause is the time between the two phases, so a delay of the first does not affect the second.
const pause = 35 * time.Second

func (r *changeRun) all(ctx context.Context, record *figures.Record) error {
	mark, err := r.audit.Mark(ctx)
	if err != nil {
		return err
	}
	if err := r.each(ctx, r.everyIndex(), 0, r.create); err != nil {
		return fmt.Errorf("create: %w", err)
	}
	if _, err := r.waitIdle(ctx, mark); err != nil {
		return err
	}
	delays := "none"
	if r.delayed {
		delays = "default"
	}
	add := func(name string, c changes) {
		record.Add(name, delays, fmt.Sprintf("%.2f s", c.median), fmt.Sprintf("%.2f s", c.p99), fmt.Sprintf("%.2f s", c.max),
			strconv.Itoa(c.unanswered), per(c.writes, c.changes), per(c.liveReads, c.changes))
	}
	burst, err := r.phase(ctx, r.everyIndex(), "burst", 0)
	if err != nil {
		return fmt.Errorf("burst: %w", err)
	}
	add(fmt.Sprintf("%d at once", burst.changes), burst)
	if r.delayed {
		if err := sleep(ctx, pause); err != nil {
			return err
		}
	}
	order := rand.New(rand.NewPCG(r.options.seed, 1)).Perm(r.options.n)
	single, err := r.phase(ctx, order[:min(r.options.singles, r.options.n)], "single", r.options.rate)
	if err != nil {
		return fmt.Errorf("single changes: %w", err)
	}
	add(fmt.Sprintf("%d, %.0f per second", single.changes, r.options.rate), single)
	return nil
}

// idleTime is how long a contender must send no write to count as idle.
const idleTime = 12 * time.Second

// waitIdle waits until the contender sends no more writes, and returns its requests since mark.
func (r *changeRun) waitIdle(ctx context.Context, mark audit.Position) (audit.Summary, error) {
	deadline := time.Now().Add(r.options.limit)
	filter := audit.Filter{User: r.fettle.user}
	for last := -1; ; {
		if err := sleep(ctx, idleTime); err != nil {
			return audit.Summary{}, err
		}
		requests, err := r.audit.Since(ctx, mark, filter)
		if err != nil || requests.Writes() == last {
			return requests, err
		}
		if last = requests.Writes(); time.Now().After(deadline) {
			fmt.Fprintf(os.Stderr, "%s still writes after %s\n", r.fettle.name, r.options.limit)
			return requests, nil
		}
	}
}
