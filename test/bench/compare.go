package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
)

// compare runs all blocks and reports.
func (b *bench) compare(ctx context.Context) error {
	b.logf("%d WebApps with %d children each, load %s, %d rounds, seed %d", b.options.n, b.options.children, b.options.load, b.options.rounds, b.options.seed)
	concurrency, err := b.calibrate(ctx)
	if err != nil {
		return err
	}
	chosen := slices.DeleteFunc(contenders(concurrency), func(c contender) bool {
		return !slices.Contains(strings.Split(b.options.contenders, ","), c.name)
	})
	for _, c := range chosen {
		if _, err := b.block(ctx, c, b.options.warmUp); err != nil {
			return fmt.Errorf("warm-up: %w", err)
		}
	}
	order := rand.New(rand.NewPCG(b.options.seed, 0))
	var blocks []block
	for round := 1; round <= b.options.rounds; round++ {
		order.Shuffle(len(chosen), func(i, j int) { chosen[i], chosen[j] = chosen[j], chosen[i] })
		for _, c := range chosen {
			result, err := b.block(ctx, c, b.options.n)
			if err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
			result.Round = round
			blocks = append(blocks, result)
			b.logf("round %d  %-10s %7.2f s  %6d writes  %6d live reads  %6.2f CPU-s  %4.0f MiB",
				round, c.name, result.Seconds, result.Writes, result.LiveReads, result.CPUAfter, result.MaxRSS)
		}
	}
	b.machine.LoadAfter = load()
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
		b.logf("calibrate  %-10s %7.2f s with %d concurrent writes", rawName, result.Seconds, concurrency)
		if best == 0 || result.Seconds < seconds {
			best, seconds = concurrency, result.Seconds
		}
	}
	return best, nil
}

// logf prints progress, separate from the results.
func (b *bench) logf(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
