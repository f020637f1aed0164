package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"

	"github.com/fettle-dev/fettle/test/figures"
)

// compare runs all blocks and records the result.
func (b *bench) compare(ctx context.Context) error {
	b.logf("%d WebApps, %d rounds, seed %d", b.options.n, b.options.rounds, b.options.seed)
	concurrency, err := b.calibrate(ctx)
	if err != nil {
		return err
	}
	all := contenders(concurrency)
	for _, c := range all {
		if _, err := b.block(ctx, c, b.options.warmUp); err != nil {
			return fmt.Errorf("warm-up: %w", err)
		}
	}
	order := rand.New(rand.NewPCG(b.options.seed, 0))
	var blocks []block
	for round := 1; round <= b.options.rounds; round++ {
		order.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for _, c := range all {
			result, err := b.block(ctx, c, b.options.n)
			if err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
			blocks = append(blocks, result)
			b.logf("round %d  %-10s %7.2f s  %6d writes  %6d live reads  %6.2f CPU-s", round, c.name, result.seconds, result.writes, result.liveReads, result.cpu)
		}
	}
	return b.report(contenders(concurrency), blocks)
}

// calibrate finds the concurrency at which the raw client is fastest. It also warms up the API server.
func (b *bench) calibrate(ctx context.Context) (int, error) {
	best, seconds := 0, 0.0
	for _, concurrency := range concurrencies {
		all := contenders(concurrency)
		rawClient := all[slices.IndexFunc(all, func(c contender) bool { return c.name == rawName })]
		if _, err := b.block(ctx, rawClient, b.options.warmUp); err != nil {
			return 0, fmt.Errorf("calibrate: %w", err)
		}
		result, err := b.block(ctx, rawClient, b.options.n)
		if err != nil {
			return 0, fmt.Errorf("calibrate: %w", err)
		}
		b.logf("calibrate  %-10s %7.2f s with %d concurrent writes", rawName, result.seconds, concurrency)
		if best == 0 || result.seconds < seconds {
			best, seconds = concurrency, result.seconds
		}
	}
	return best, nil
}

// report records the medians of the rounds, and the ratios within the rounds.
func (b *bench) report(all []contender, blocks []block) error {
	seconds, cpu := func(k block) float64 { return k.seconds }, func(k block) float64 { return k.cpu }
	n := float64(b.options.n)
	necessary := n * float64(len(kinds())+1) // each child, and one status
	r := b.record(fmt.Sprintf("%d WebApps with replicas 0 and %d children each are created at once, in %d rounds in random order.", b.options.n, len(kinds()), b.options.rounds),
		"A ratio is the median of the rounds, with its bootstrapped 95 % interval.",
		"Fettle waits for a fake Deployment controller, the others do not.")
	r.Columns = []string{
		"Contender", "All Ready after", "Writes / (children + 1)", "Live reads per WebApp", "CPU time", "Fettle's speed / its speed", "Fettle's CPU time / its CPU time",
	}
	ours := func(get func(block) float64) []float64 { return of(blocks, fettleName, get) }
	for _, c := range all {
		its := func(get func(block) float64) []float64 { return of(blocks, c.name, get) }
		speed, spent := "", ""
		if c.name != fettleName {
			speed, spent = newRatio(divide(its(seconds), ours(seconds))).String(), newRatio(divide(ours(cpu), its(cpu))).String()
		}
		r.Add(c.about, fmt.Sprintf("%.1f s", median(its(seconds))),
			fmt.Sprintf("%.2f", median(its(func(k block) float64 { return float64(k.writes) / necessary }))),
			fmt.Sprintf("%.2f", median(its(func(k block) float64 { return float64(k.liveReads) / n }))),
			fmt.Sprintf("%.1f s", median(its(cpu))), speed, spent)
	}
	return b.write(r, modeCompare)
}

// record starts a record with the conditions that all modes with an own API server share.
func (b *bench) record(conditions ...string) figures.Record {
	return figures.Record{Command: b.options.command(), Conditions: append(conditions,
		fmt.Sprintf("One kube-apiserver %s with audit log and one etcd with fsync ran on the same machine. No limit of requests per second on any client.", b.version))}
}

func (b *bench) write(r figures.Record, mode string) error { return r.Write(b.options.out, mode) }

// of returns a figure of each of the contender's blocks, in the order of the rounds.
func of(blocks []block, name string, get func(block) float64) []float64 {
	var values []float64
	for _, k := range blocks {
		if k.contender == name {
			values = append(values, get(k))
		}
	}
	return values
}

func divide(a, b []float64) []float64 {
	quotients := make([]float64, len(a))
	for i := range a {
		quotients[i] = a[i] / b[i]
	}
	return quotients
}

// logf prints progress, separate from the results.
func (b *bench) logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
