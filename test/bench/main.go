// Command bench measures how fast, and with how many requests, Fettle creates the children of WebApps. It compares Fettle with controllers
// that do the same: a naive one, a naive one that compares before it writes, and a raw client that sends only the necessary writes. It
// starts its own etcd (with fsync) and kube-apiserver (with audit log), and a fake Deployment controller, which only Fettle waits for. It
// runs the contenders one after another in random order, round by round, and reports ratios within a run. A figure without a comparison
// mostly measures the machine. Each mode writes a record for `make figures`.
//
//	make bench
//	make bench BENCH_ARGS="-mode memory"
//	make bench BENCH_ARGS="-mode config"
//	make bench BENCH_ARGS="-mode postgres-memory"
//	KUBECONFIG=... make bench BENCH_ARGS="-mode pgbench -rounds 3"
//	make bench BENCH_ARGS="-mode backup"          # Debian's packages pgbackrest, barman-cli-cloud and python3-boto3
//	make bench BENCH_ARGS="-mode backup-effect"
//
// With -mode postgres it measures the failover of a PostgreSQL on the local cluster of `NODES=3 make up`, with Fettle installed, as root.
// See package failover.
//
//	make bench BENCH_ARGS="-mode postgres -runs 10 -operator both"
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log/zap"

	"github.com/fettle-dev/fettle/test/bench/failover"
)

type options struct {
	n         int
	rounds    int
	warmUp    int
	mode      string
	settle    time.Duration
	idle      time.Duration
	seed      uint64
	singles   int
	rate      float64
	limit     time.Duration
	out       string
	args      []string // of the command
	pgFolder  string
	databases int
	scale     int
	only      []string
	profile   string
	postgres  failover.Options
}

// command repeats the measurement.
func (o options) command() string {
	if len(o.args) == 0 {
		return "make bench"
	}
	return `make bench BENCH_ARGS="` + strings.Join(o.args, " ") + `"`
}

// Modes.
const (
	modeCompare  = "compare"
	modeMemory   = "memory"
	modeConfig   = "config"
	modePostgres = "postgres"
	modePgbench  = "pgbench"
	modePgMemory = "postgres-memory"
	modeBackup   = "backup"
	modeEffect   = "backup-effect"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == contendCommand {
		return contend(ctx, args[1:])
	}
	o, err := parse(args)
	if err != nil {
		return err
	}
	if o.mode == modePgbench {
		return comparePgbench(ctx, o)
	}
	switch o.mode {
	case modeBackup:
		return compareBackups(ctx, o, (*backupBench).throughput)
	case modeEffect:
		return compareBackups(ctx, o, (*backupBench).effect)
	}
	if o.mode == modePostgres {
		return failover.Run(ctx, o.postgres)
	}
	ctrl.SetLogger(zap.New()) // of libraries, to standard error
	b, err := newBench(ctx, o)
	if err != nil {
		return err
	}
	defer b.stop()
	switch o.mode {
	case modeMemory:
		return b.memory(ctx)
	case modeConfig:
		return b.configChanges(ctx)
	case modePgMemory:
		return b.postgresMemory(ctx)
	default:
		return b.compare(ctx)
	}
}

func parse(args []string) (options, error) {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.IntVar(&o.n, "n", 1000, "number of WebApps in each block")
	flags.IntVar(&o.rounds, "rounds", 5, "number of rounds; each has a block of every contender, in random order")
	flags.IntVar(&o.warmUp, "warm-up", 100, "number of WebApps in the blocks before the first round, which are not counted")
	flags.StringVar(&o.mode, "mode", modeCompare, "compare; memory: the manager's memory with n WebApps, and what it sends when idle and "+
		"after a restart; config: the time from a change of each of n AppConfigs until the Deployment that uses it restarts; "+
		"pgbench: an instance on the cluster of KUBECONFIG beside a bare server; backup: backups and restores beside other programs; backup-effect: pgbench while a backup runs; postgres: the time without an acknowledged row "+
		"during a fault of the primary of a PostgreSQL on the local cluster")
	flags.DurationVar(&o.settle, "settle", 4*time.Second, "how long to count requests after the last WebApp is Ready")
	flags.DurationVar(&o.idle, "idle", time.Minute, "how long to watch the idle manager, with -mode memory and postgres-memory")
	flags.IntVar(&o.singles, "singles", 200, "number of AppConfigs that are changed one by one, with -mode config")
	flags.Float64Var(&o.rate, "rate", 10, "number of changes per second")
	flags.DurationVar(&o.limit, "limit", 10*time.Minute, "how long to wait for the rollouts, with -mode config, and for a backup or restore, with -mode backup")
	flags.Uint64Var(&o.seed, "seed", rand.Uint64(), "seed of the order of the blocks")
	flags.StringVar(&o.out, "out", "dist/figures", "folder for the record; logs are in its folder logs")
	flags.StringVar(&o.pgFolder, "pg-folder", os.TempDir(), "data folder of the bare servers, on the filesystem of the instance's volume, with -mode pgbench")
	flags.IntVar(&o.databases, "databases", 50, "number of PostgreSQLs of three instances each, with -mode postgres-memory")
	flags.IntVar(&o.scale, "scale", 50, "scale of the pgbench tables, of about 15 MiB each, with -mode backup")
	flags.Func("only", "contenders, such as fettle-physical,pgbackrest-1, with -mode backup; all by default", func(value string) error {
		o.only = strings.Split(value, ",")
		return nil
	})
	flags.StringVar(&o.profile, "profile", "", "folder for CPU profiles of Fettle, with -mode backup")
	o.postgresFlags(flags)
	if err := flags.Parse(args); err != nil {
		return o, err
	}
	o.postgres.Folder, o.args = o.out, args
	o.postgres.Command = o.command()
	if err := o.validate(); err != nil {
		return o, err
	}
	return o, os.MkdirAll(filepath.Join(o.out, "logs"), 0o755)
}

// postgresFlags adds the flags of -mode postgres.
func (o *options) postgresFlags(flags *flag.FlagSet) {
	p := &o.postgres
	p.Log = os.Stderr
	flags.IntVar(&p.Runs, "runs", 10, "how often each row is measured, with -mode postgres")
	flags.Func("rows", "rows, and how often, such as kill=25,node, with -mode postgres: of "+strings.Join(failover.Rows(), ","), func(value string) error {
		p.Rows = strings.Split(value, ",")
		return nil
	})
	flags.BoolVar(&p.Synchronous, "synchronous", true, "enable synchronous replication with one standby, with -mode postgres")
	flags.StringVar(&p.Operator, "operator", failover.OperatorUp, "up, zero or both: whether the operator runs, with -mode postgres")
	flags.StringVar(&p.Namespace, "namespace", "fettle-bench-postgres", "namespace that is created and deleted, with -mode postgres")
	flags.BoolVar(&p.Continue, "continue", false, "add to the existing results in the folder, with -mode postgres")
}

// validate reports all invalid flags.
func (o options) validate() error {
	var errs []error
	if modes := []string{modeCompare, modeMemory, modeConfig, modePgbench, modePgMemory, modePostgres, modeBackup, modeEffect}; !slices.Contains(modes, o.mode) {
		errs = append(errs, fmt.Errorf("-mode=%s: must be one of %v", o.mode, modes))
	}
	if min(o.n, o.rounds, o.warmUp, o.singles, o.databases) < 1 || o.rate <= 0 {
		errs = append(errs, errors.New("-n, -rounds, -warm-up, -singles, -databases and -rate must be positive"))
	}
	return errors.Join(errs...)
}
