package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fettle-dev/fettle/internal/testenv/testpg"
	"github.com/fettle-dev/fettle/test/figures"
)

// effectTime is how long pgbench runs with each contender, effectClients its number of connections.
const (
	effectTime    = 20 * time.Second
	effectClients = 4
)

// effectCase is what runs again and again beside pgbench.
type effectCase struct {
	about  string
	backup func(run string) *exec.Cmd // nil for nothing
	rates  []float64
	runs   int
}

// effect measures how much a backup slows pgbench down.
func (b *backupBench) effect() error {
	standby := b.startStandby()
	cases := []*effectCase{
		{about: "nothing"},
		{about: "Fettle, from the only instance", backup: func(run string) *exec.Cmd { return b.fettle("backup", b.physical(run)) }},
		{about: "Fettle, from a standby", backup: func(run string) *exec.Cmd {
			c := b.physical("standby-" + run)
			c.Backup.Server.Port = int32(standby.Settings.Port)
			return b.fettle("backup", c)
		}},
		{about: "`pg_basebackup` to nothing", backup: b.baseBackup},
		{about: "pgBackRest, process-max=1", backup: b.pgBackRest(1).backup},
	}
	order := rand.New(rand.NewPCG(b.options.seed, 0)).Perm(len(cases))
	for round := range b.options.rounds {
		for i := range order {
			c := cases[order[(i+round)%len(order)]]
			rate, err := b.pgbenchBeside(c, fmt.Sprintf("e%d", round))
			if err != nil {
				return fmt.Errorf("round %d, %s: %w", round+1, c.about, err)
			}
			c.rates = append(c.rates, rate)
			b.Logf("round %d, %s: %.0f transactions per second, %d backups so far (load of the machine %s)", round+1, c.about, rate, c.runs, figures.Load())
		}
	}
	r := figures.Record{
		Command: b.options.command(),
		Conditions: []string{
			fmt.Sprintf("The data directory has %d MiB: tables of pgbench, and 256 MiB that cannot be compressed. The rates are medians of %d rounds in random order.",
				b.server.size>>20, b.options.rounds),
			fmt.Sprintf("pgbench ran for %.0f s with %d clients and TLS. The backup was repeated until its end. What is not complete then does not count.",
				effectTime.Seconds(), effectClients),
			"The server, its standby and the store (versitygw, with TLS) run on the same machine. All programs are Debian's.",
		},
		Columns: []string{"Beside pgbench", "Transactions per second, median", "This / nothing", "Complete backups"},
	}
	for _, c := range cases {
		share := ""
		if c.backup != nil {
			share = newRatio(divide(c.rates, cases[0].rates)).String()
		}
		r.Add(c.about, fmt.Sprintf("%.0f", median(c.rates)), share, strconv.Itoa(c.runs))
	}
	return r.Write(b.options.out, "backup-effect")
}

// startStandby starts one on the same machine.
func (b *backupBench) startStandby() *testpg.Instance {
	s := testpg.NewWithOutput(b, "db-1", io.Discard)
	b.server.ca.EnableTLS(s)
	if err := s.Clone(b.ctx, b.server.ca.Source(b.server.Instance, "db-1")); err != nil {
		b.Fatal(err)
	}
	s.Settings.Upstream, s.Settings.ArchiveCommand = new(b.server.ca.Upstream(b.server.Instance)), "true" // the primary stores WAL
	s.Start(b)
	return s
}

// pgbenchBeside returns the transactions per second of pgbench, while a backup is repeated.
func (b *backupBench) pgbenchBeside(c *effectCase, run string) (float64, error) {
	b.sql(postgresDatabase, "checkpoint")
	ctx, stop := context.WithCancel(b.ctx)
	done := make(chan error, 1)
	go func() { done <- b.repeat(ctx, c, run) }()
	program := filepath.Join(testpg.Binaries(b).Dir, "pgbench")
	command := exec.CommandContext(b.ctx, program, "--client="+strconv.Itoa(effectClients), "--jobs=2", "--no-vacuum", "--time="+strconv.Itoa(int(effectTime.Seconds())),
		b.server.tcp(pgRole))
	command.Env = b.environment("PGPASSWORD=" + b.server.password)
	output, err := command.CombinedOutput()
	stop()
	if failed := <-done; failed != nil {
		return 0, failed
	}
	if err != nil {
		return 0, fmt.Errorf("pgbench: %w: %s", err, output)
	}
	return parsePgbench(string(output))
}

// repeat repeats a backup until the context ends.
func (b *backupBench) repeat(ctx context.Context, c *effectCase, run string) error {
	for i := 0; c.backup != nil && ctx.Err() == nil; i++ {
		command := c.backup(run + "-" + strconv.Itoa(i))
		var output strings.Builder
		if command.Stdout == nil {
			command.Stdout = &output
		}
		command.Stderr, command.Dir = &output, b.folder
		b.inGroup(command)
		if err := command.Start(); err != nil {
			return err
		}
		interrupt := context.AfterFunc(ctx, func() { _ = syscall.Kill(-command.Process.Pid, syscall.SIGTERM) })
		err := command.Wait()
		if interrupt(); ctx.Err() != nil {
			return nil //nolint:nilerr // it was interrupted
		}
		if err != nil {
			return fmt.Errorf("%w: %s", err, output.String())
		}
		c.runs++
	}
	return nil
}
