package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/fettle-dev/fettle/test/audit"
)

// changeResult is the result of one contender that rolls configuration changes out to workloads.
type changeResult struct {
	Contender     string  `json:"contender"`
	Empty         float64 `json:"emptyRSSMiB"`
	Filled        float64 `json:"filledRSSMiB"` // with n configurations and n Deployments, before the first change
	Changed       float64 `json:"changedRSSMiB"`
	MaxRSS        float64 `json:"maxRSSMiB"`
	SetupWrites   int     `json:"setupWrites"`
	Burst         changes `json:"burst"`  // one change of each configuration, all at once
	Single        changes `json:"single"` // one change each of some, in random order, at a steady rate
	IdleWrites    int     `json:"idleWrites"`
	IdleReads     int     `json:"idleLiveReads"`
	RestartWrites int     `json:"restartWrites"`
	RestartReads  int     `json:"restartLiveReads"`
	Outage        changes `json:"outage"` // while the contender was stopped; the times are from its start
}

// changes are the times in seconds from a change that the API server accepted to the watch event of the pod template's change. They include
// the contender's requests until it was idle.
type changes struct {
	Changes    int     `json:"changes"`
	Unanswered int     `json:"unanswered"` // within the limit
	Median     float64 `json:"medianSeconds"`
	P99        float64 `json:"p99Seconds"`
	Max        float64 `json:"maxSeconds"`
	Total      float64 `json:"totalSeconds"` // from the first change to the last template
	Templates  int     `json:"templateChanges"`
	Writes     int     `json:"writes"`
	LiveReads  int     `json:"liveReads"`
	Events     int     `json:"events"`
}

type changeResults struct {
	Machine machine        `json:"machine"`
	N       int            `json:"configurations"`
	Rate    float64        `json:"singleChangesPerSecond"`
	Results []changeResult `json:"results"`
}

// configChanges measures Fettle without and with its delays, and the peer if there is one, one after another.
func (b *bench) configChanges(ctx context.Context) error {
	all := changeResults{N: b.options.n, Rate: b.options.rate}
	for _, c := range configContenders(b.options.peer) {
		result, err := b.changesOf(ctx, c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		all.Results = append(all.Results, result)
		result.print(b.options)
		b.machine.LoadAfter = load()
		all.Machine = b.machine
		if err := writeJSON(filepath.Join(b.options.out, fmt.Sprintf("config-%d.json", all.N)), all); err != nil {
			return err
		}
	}
	fmt.Println("All figures:", filepath.Join(b.options.out, fmt.Sprintf("config-%d.json", all.N)))
	return nil
}

func (r changeResult) print(o options) {
	fmt.Printf("%s: %.0f MiB empty, %.0f MiB with %d configurations and Deployments, %.0f MiB after the changes (at most %.0f)\n",
		r.Contender, r.Empty, r.Filled, o.n, r.Changed, r.MaxRSS)
	for _, phase := range []struct {
		name string
		changes
	}{{"all at once", r.Burst}, {fmt.Sprintf("%.0f/s", o.rate), r.Single}} {
		c := phase.changes
		fmt.Printf("  %d changes, %s: %.2f s median, %.2f s p99, %.2f s at most, %.1f s in all; %d template changes, %d unanswered; "+
			"for each change %.2f writes, %.2f live reads, %.2f events\n", c.Changes, phase.name, c.Median, c.P99, c.Max, c.Total,
			c.Templates, c.Unanswered, per(c.Writes, c.Changes), per(c.LiveReads, c.Changes), per(c.Events, c.Changes))
	}
	fmt.Printf("  %d changes while it was stopped: %d unanswered, %.2f s median from its start\n", r.Outage.Changes, r.Outage.Unanswered, r.Outage.Median)
	fmt.Printf("  setup: %d writes; idle for %s: %d writes, %d live reads; after a restart: %d writes, %d live reads\n",
		r.SetupWrites, o.idle, r.IdleWrites, r.IdleReads, r.RestartWrites, r.RestartReads)
}

func per(count, changes int) float64 { return float64(count) / float64(max(changes, 1)) }

func (b *bench) changesOf(ctx context.Context, c configContender) (result changeResult, err error) {
	result.Contender = c.name
	namespace, err := b.env.NewNamespace(ctx, "config")
	if err != nil {
		return result, err
	}
	templates, err := b.watchTemplates(ctx, namespace)
	if err != nil {
		return result, err
	}
	defer templates.stop()
	first, err := b.start(c.contender)
	if err != nil {
		return result, err
	}
	run := &changeRun{bench: b, contender: c, namespace: namespace, templates: templates, process: first}
	if err := errors.Join(run.all(ctx, &result), first.stop()); err != nil {
		return result, err
	}
	if err := run.restart(ctx, &result); err != nil {
		return result, fmt.Errorf("restart: %w", err)
	}
	if err := run.outage(ctx, &result); err != nil {
		return result, fmt.Errorf("outage: %w", err)
	}
	return result, run.clear(ctx)
}

// changeRun is the run of one contender in one namespace.
type changeRun struct {
	*bench
	contender configContender
	namespace string
	templates *templates
	process   *process
}

func (r *changeRun) all(ctx context.Context, result *changeResult) error {
	if err := r.setUp(ctx, result); err != nil {
		return fmt.Errorf("set up: %w", err)
	}
	var err error
	if result.Burst, err = r.phase(ctx, r.everyIndex(), "burst", 0); err != nil {
		return fmt.Errorf("burst: %w", err)
	}
	if err := sleep(ctx, r.contender.pause); err != nil {
		return err
	}
	order := rand.New(rand.NewPCG(r.options.seed, 1)).Perm(r.options.n)
	if result.Single, err = r.phase(ctx, order[:min(r.options.singles, r.options.n)], "single", r.options.rate); err != nil {
		return fmt.Errorf("single changes: %w", err)
	}
	mark, err := r.audit.Mark(ctx)
	if err != nil {
		return err
	}
	if err := sleep(ctx, r.options.idle); err != nil {
		return err
	}
	requests, err := r.audit.Since(ctx, mark, audit.Filter{User: r.contender.user})
	if err != nil {
		return err
	}
	result.IdleWrites, result.IdleReads = requests.Writes(), requests.LiveReads()
	used, err := r.process.usage()
	result.Changed, result.MaxRSS = used.rss, used.maxRSS
	return err
}

// setUp measures the idle contender, and waits until it has seen all configurations and Deployments.
func (r *changeRun) setUp(ctx context.Context, result *changeResult) error {
	if err := sleep(ctx, settleTime); err != nil {
		return err
	}
	used, err := r.process.usage()
	if err != nil {
		return err
	}
	result.Empty = used.rss
	mark, err := r.audit.Mark(ctx)
	if err != nil {
		return err
	}
	if err := r.each(ctx, r.everyIndex(), 0, r.create); err != nil {
		return err
	}
	requests, err := r.waitIdle(ctx, mark)
	if err != nil {
		return err
	}
	result.SetupWrites = requests.Writes()
	used, err = r.process.usage()
	result.Filled = used.rss
	return err
}

// idleTime is how long a contender must send no write to count as idle.
const idleTime = 12 * time.Second

// waitIdle waits until the contender sends no more writes, and returns its requests since mark.
func (r *changeRun) waitIdle(ctx context.Context, mark audit.Position) (audit.Summary, error) {
	deadline := time.Now().Add(r.options.limit)
	filter := audit.Filter{User: r.contender.user}
	for last := -1; ; {
		if err := sleep(ctx, idleTime); err != nil {
			return audit.Summary{}, err
		}
		requests, err := r.audit.Since(ctx, mark, filter)
		if err != nil || requests.Writes() == last {
			return requests, err
		}
		if last = requests.Writes(); time.Now().After(deadline) {
			fmt.Fprintf(os.Stderr, "%s still writes after %s\n", r.contender.name, r.options.limit)
			return requests, nil
		}
	}
}
