package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/fettle-dev/fettle/test/audit"
)

// settleTime is the idle time of a manager before a measurement.
const settleTime = 15 * time.Second

// memoryResult is the resource usage of one idle contender.
type memoryResult struct {
	Contender       string  `json:"contender"`
	Empty           float64 `json:"emptyRSSMiB"`
	Converged       float64 `json:"convergedRSSMiB"` // with n WebApps, after the idle time
	ConvergedMax    float64 `json:"convergedMaxRSSMiB"`
	Restarted       float64 `json:"restartedRSSMiB"`
	RestartedMax    float64 `json:"restartedMaxRSSMiB"`
	PerWebApp       float64 `json:"restartedKiBPerWebApp"`
	IdleWrites      int     `json:"idleWrites"`
	IdleLiveReads   int     `json:"idleLiveReads"`
	RestartWrites   int     `json:"restartWrites"`
	RestartReads    int     `json:"restartLiveReads"`
	RestartFirstCPU float64 `json:"restartCPUSeconds"`
}

type memoryResults struct {
	Machine  machine        `json:"machine"`
	N        int            `json:"webApps"`
	Children int            `json:"children"`
	Idle     string         `json:"idle"`
	Results  []memoryResult `json:"results"`
}

// memory measures Fettle and the naive controller, one after another.
func (b *bench) memory(ctx context.Context) error {
	all := memoryResults{N: b.options.n, Children: b.options.children, Idle: b.options.idle.String()}
	for _, c := range contenders(1) {
		if c.name != fettleName && c.name != "naive-5" {
			continue
		}
		result, err := b.memoryOf(ctx, c)
		if err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		all.Results = append(all.Results, result)
		fmt.Printf("%s: %.0f MiB empty; with %d WebApps and %d children each %.0f MiB after %s idle (at most %.0f), "+
			"after a restart %.0f (at most %.0f), which is %.1f KiB per WebApp\n", c.name, result.Empty, b.options.n, b.options.children,
			result.Converged, b.options.idle, result.ConvergedMax, result.Restarted, result.RestartedMax, result.PerWebApp)
		fmt.Printf("  idle for %s: %d writes, %d live reads; from a restart until %s later: %d writes, %d live reads, %.1f CPU-s\n",
			b.options.idle, result.IdleWrites, result.IdleLiveReads, b.options.idle, result.RestartWrites, result.RestartReads, result.RestartFirstCPU)
	}
	b.machine.LoadAfter = load()
	all.Machine = b.machine
	path := filepath.Join(b.options.out, fmt.Sprintf("memory-%d-%d.json", all.N, all.Children))
	fmt.Println("All figures:", path)
	return writeJSON(path, all)
}

func (b *bench) memoryOf(ctx context.Context, c contender) (result memoryResult, err error) {
	result.Contender = c.name
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
	result.PerWebApp = (result.Restarted - result.Empty) * 1024 / float64(b.options.n)
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
	result.Empty = used.rss
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
	result.IdleWrites, result.IdleLiveReads = requests.Writes(), requests.LiveReads()
	used, err := p.usage()
	result.Converged, result.ConvergedMax = used.rss, used.maxRSS
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
	result.RestartWrites, result.RestartReads = requests.Writes(), requests.LiveReads()
	used, err := p.usage()
	result.Restarted, result.RestartedMax, result.RestartFirstCPU = used.rss, used.maxRSS, used.cpu
	if result.RestartWrites > 0 || result.RestartReads > 0 {
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
