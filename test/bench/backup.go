package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/fettle-dev/fettle/test/figures"
)

// backupBench compares Fettle's backups and restores with those of other programs, on one database and one object store.
type backupBench struct {
	testing.TB

	ctx     context.Context //nolint:containedctx // of one benchmark
	options options
	// folder belongs to PostgreSQL's user. program is a copy of this program in it.
	folder, program string
	server          *backupServer
	store           *backupStore
	// restores counts the data directories that were restored.
	restores int
}

// loudTB shows failures. Those of a benchmark in a program are not shown.
type loudTB struct {
	*testing.B

	failure string
}

func (l *loudTB) Fatal(args ...any) { l.failure = fmt.Sprint(args...); l.FailNow() }

func (l *loudTB) Fatalf(format string, args ...any) { l.Fatal(fmt.Sprintf(format, args...)) }

func (l *loudTB) Error(args ...any) { l.Fatal(args...) }

func (l *loudTB) Errorf(format string, args ...any) { l.Fatalf(format, args...) }

func (l *loudTB) Logf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }

// compareBackups runs the comparison. The servers are those of the tests, which need a testing.TB.
func compareBackups(ctx context.Context, o options, compare func(*backupBench) error) error {
	testing.Init()
	var err error
	tb := &loudTB{}
	testing.Benchmark(func(b *testing.B) {
		tb.B = b
		bench := &backupBench{TB: tb, ctx: ctx, options: o}
		bench.start()
		err = compare(bench)
	})
	if tb.failure != "" {
		return fmt.Errorf("set up: %s", tb.failure)
	}
	return err
}

// sample is one measured run of a contender.
type sample struct {
	contender       string
	backup, restore effort
	stored          int64 // bytes
}

// throughput measures all contenders in random order, round by round.
func (b *backupBench) throughput() error {
	random := rand.New(rand.NewPCG(b.options.seed, 0))
	all := b.contenders()
	var samples []sample
	for round := range b.options.rounds {
		random.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		measured, err := b.round(round, all)
		if b.ctx.Err() != nil && round > 0 {
			b.options.rounds = round // an interrupted round does not count
			break
		}
		if err != nil {
			return err
		}
		samples = append(samples, measured...)
	}
	for _, group := range []struct {
		logical bool
		file    string
	}{{false, "backup-physical"}, {true, "backup-logical"}} {
		r := b.report(group.logical, samples)
		if len(r.Rows) == 0 {
			continue // others were chosen
		}
		if err := r.Write(b.options.out, group.file); err != nil {
			return err
		}
	}
	return nil
}

// round measures each contender once.
func (b *backupBench) round(round int, all []*backupContender) (samples []sample, err error) {
	for _, c := range all {
		s, err := b.measure(c, fmt.Sprintf("r%d", round))
		if err != nil {
			return nil, fmt.Errorf("round %d, %s: %w", round+1, c.name, err)
		}
		b.Logf("round %d, %-18s: backup %v, restore %v, %d MiB stored (load of the machine %s)", round+1, c.name, s.backup, s.restore, s.stored>>20, figures.Load())
		samples = append(samples, s)
	}
	return samples, nil
}

// measure backs up and restores once, and removes what was restored.
func (b *backupBench) measure(c *backupContender, run string) (s sample, err error) {
	s.contender = c.name
	if s.backup, err = b.run(c.backup(run)); err != nil {
		return s, fmt.Errorf("back up: %w", err)
	}
	if c.folder != "" {
		s.stored = b.store.size(c.folder)
	}
	if c.restore == nil {
		return s, nil
	}
	b.restores++
	dir := filepath.Join(b.folder, fmt.Sprintf("restored-%d", b.restores))
	if err := b.mkdir(dir); err != nil {
		return s, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // in the folder of the benchmark
	command, err := c.restore(run, dir)
	if err != nil {
		return s, fmt.Errorf("prepare the restore: %w", err)
	}
	if s.restore, err = b.run(command, dir); err != nil {
		return s, fmt.Errorf("restore: %w", err)
	}
	if c.check != nil {
		err = c.check(dir)
	}
	return s, err
}

// report has the medians of the rounds, and the ratios within the rounds to Fettle.
func (b *backupBench) report(logical bool, samples []sample) figures.Record {
	r := figures.Record{
		Command:    b.options.command(),
		Conditions: b.conditions(),
		Columns: []string{
			"Contender", "Backup", "Restore", "CPU time", "Peak memory", "Stored", "Fettle's backup speed / its speed", "Fettle's restore speed / its speed",
		},
	}
	ours := fettlePhysical
	if logical {
		ours = fettleLogical
	}
	for _, c := range b.contenders() {
		if c.logical != logical {
			continue
		}
		of := func(name string, get func(sample) float64) (values []float64) {
			for _, s := range samples {
				if s.contender == name {
					values = append(values, get(s))
				}
			}
			return values
		}
		its := func(get func(sample) float64) float64 { return median(of(c.name, get)) }
		ratios := func(get func(sample) float64) string {
			if c.name == ours || its(get) == 0 {
				return ""
			}
			return newRatio(divide(of(c.name, get), of(ours, get))).String()
		}
		backup, restore := func(s sample) float64 { return s.backup.seconds }, func(s sample) float64 { return s.restore.seconds }
		r.Add(c.about, speed(b.server.size, its(backup)), speed(b.server.size, its(restore)),
			pair(its(func(s sample) float64 { return s.backup.cpu }), its(func(s sample) float64 { return s.restore.cpu }), "%.1f s"),
			pair(its(func(s sample) float64 { return s.backup.memory }), its(func(s sample) float64 { return s.restore.memory }), "%.0f MiB"),
			nonZero(its(func(s sample) float64 { return float64(s.stored) / (1 << 20) }), "%.0f MiB"), ratios(backup), ratios(restore))
	}
	return r
}

// speed is a time with the speed for a size in bytes.
func speed(size int64, seconds float64) string {
	if seconds == 0 {
		return ""
	}
	return fmt.Sprintf("%.1f s, %.0f MiB/s", seconds, float64(size)/(1<<20)/seconds)
}

// pair is the figure of the backup, and that of the restore if there is one.
func pair(backup, restore float64, format string) string {
	if restore == 0 {
		return fmt.Sprintf(format, backup)
	}
	return fmt.Sprintf(format+", "+format, backup, restore)
}

func nonZero(value float64, format string) string {
	if value == 0 {
		return ""
	}
	return fmt.Sprintf(format, value)
}

func (b *backupBench) conditions() []string {
	return []string{
		fmt.Sprintf("The data directory has %d MiB: tables of pgbench, and 256 MiB that cannot be compressed. The times are medians of %d rounds in random order.",
			b.server.size>>20, b.options.rounds),
		"A ratio is the median of the rounds, with its bootstrapped 95 % interval. More than 1 means that Fettle is faster.",
		"CPU time and memory are those of the contender, of the backup and then of the restore, without the server, the store and cached files.",
		"A restore ends when its files are on disk. No WAL is replayed.",
		"The server and the store (versitygw, with TLS) run on the same machine, with warm caches. All programs are Debian's.",
	}
}
