package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"
)

// pgbenchOptions are the flags of -mode pgbench.
type pgbenchOptions struct {
	scale, clients    int
	each              time.Duration
	version           string
	binaries, folder  string
	targets           string
	storage, requests string
	share             bool
}

func (o *pgbenchOptions) register(flags *flag.FlagSet) {
	flags.IntVar(&o.scale, "pg-scale", 10, "scale of pgbench's tables, with -mode pgbench")
	flags.IntVar(&o.clients, "pg-clients", 8, "clients of pgbench")
	flags.DurationVar(&o.each, "pg-each", time.Minute, "how long each run of pgbench lasts")
	flags.StringVar(&o.version, "pg-version", "15", "version of the PostgreSQL; the programs in -pg-binaries must be of the same minor version")
	flags.StringVar(&o.binaries, "pg-binaries", "/usr/lib/postgresql/15/bin", "folder of postgres, initdb and pgbench")
	flags.StringVar(&o.folder, "pg-folder", os.TempDir(), "data folder of the bare server: on the filesystem of the instance's volume")
	flags.StringVar(&o.targets, "pg-targets", strings.Join(pgTargets, ","), "targets of pgbench, in the order of each round")
	flags.StringVar(&o.storage, "pg-storage", "5Gi", "storage of the PostgreSQL")
	flags.StringVar(&o.requests, "pg-cpu", "1", "CPU request of the instance; without it, any other process of the machine has priority")
	flags.BoolVar(&o.share, "pg-share", true, "give the bare servers the CPU share of the instance's pod, by its cgroup; needs root")
}

// Targets of pgbench.
const (
	targetService = "service"
	targetPod     = "pod"
	targetBarePod = "bare-pod"
	targetBareTLS = "bare-tls"
	targetBare    = "bare"
)

var pgTargets = []string{targetService, targetPod, targetBarePod, targetBareTLS, targetBare}

// pgTarget is an address of a server. The role bench, which owns the database bench, is used on all servers.
type pgTarget struct {
	name, about string
	host, port  string
	password    string
	tls         bool
}

// pgRole is the name of pgbench's role and of its database.
const pgRole = "bench"

// dsn is the connection string for libpq and pgx, without the password.
func (t *pgTarget) dsn() string {
	mode := "disable"
	if t.tls {
		mode = "require"
	}
	return fmt.Sprintf("host=%s port=%s user=%s dbname=%s sslmode=%s", t.host, t.port, pgRole, pgRole, mode)
}

// pgbenchResults is the content of the result file.
type pgbenchResults struct {
	Machine  machine            `json:"machine"`
	Version  string             `json:"serverVersion"`
	Scale    int                `json:"scale"`
	Clients  int                `json:"clients"`
	Each     string             `json:"each"`
	Settings map[string]string  `json:"settings"` // settings that differ from PostgreSQL's defaults, equal on both servers
	Volume   string             `json:"volume"`
	Share    string             `json:"share"` // of the CPU
	Runs     map[string][]pgRun `json:"runs"`
	Medians  map[string]float64 `json:"medianTPS"`
	Ratios   []ratio            `json:"ratios"`
	Quotient map[string]float64 `json:"ratiosOfMedians"`
	Spread   map[string]float64 `json:"coefficientsOfVariation"`
}

// comparePgbench runs pgbench against one instance of Fettle on the cluster of KUBECONFIG. It also runs it against bare servers beside the
// instance, with the same program, settings and filesystem, interleaved.
//
// Two properties of any pod make a server slower than one in a shell of the same machine: its cgroup and its network. If all processors are
// busy, all pods of a node together have the weight of a few ordinary processes, while each process of a bare server has the weight of one.
// A row to a pod passes two virtual cables, the bridge's filter and the rules of the node. The bare servers therefore get the pod's CPU
// share (-pg-share), and bare-pod runs in the pod's network. The difference to bare-pod is the cost of Fettle. The other servers, on the
// loopback, show the cost of the network, and -pg-share=false the cost of the cgroup.
func comparePgbench(ctx context.Context, o options) (err error) {
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("-mode pgbench needs a cluster with Fettle: set KUBECONFIG: %w", err)
	}
	results := pgbenchResults{Scale: o.pgbench.scale, Clients: o.pgbench.clients, Each: o.pgbench.each.String(), Runs: map[string][]pgRun{}}
	if results.Machine, err = describeMachine(o.out, config); err != nil {
		return err
	}
	instance, err := newPgInstance(ctx, config, o.pgbench)
	if instance != nil {
		defer func() { err = errors.Join(err, instance.remove(context.WithoutCancel(ctx))) }()
	}
	if err != nil {
		return err
	}
	places, err := o.pgbench.places(instance)
	if err != nil {
		return err
	}
	servers := [][]pgTarget{instance.targets()}
	results.Version, results.Share = instance.facts["server_version"], "unlimited, like any process"
	for _, place := range places {
		bare, err := newBareServer(ctx, o.pgbench, instance, place)
		if bare != nil {
			defer func() { err = errors.Join(err, bare.remove()) }()
		}
		if err != nil {
			return err
		}
		if results.Volume, err = sameFilesystem(instance.volume, bare.folder); err != nil {
			return err
		}
		if bare.group != "" {
			results.Share = "equal to the pod's"
		}
		results.Settings = bare.settings
		servers = append(servers, bare.targets())
	}
	return results.take(ctx, o, servers)
}

// take runs the rounds, prints the results, and writes them to a file.
func (r *pgbenchResults) take(ctx context.Context, o options, servers [][]pgTarget) error {
	if err := runRounds(ctx, o, r, servers); err != nil {
		return err
	}
	r.summarize()
	r.Machine.LoadAfter = load()
	r.print()
	path := filepath.Join(o.out, "pgbench.json")
	fmt.Println("All figures:", path)
	return writeJSON(path, r)
}

// runRounds fills the tables of all servers, the first of which is the instance, and then runs against each target in turn.
func runRounds(ctx context.Context, o options, results *pgbenchResults, servers [][]pgTarget) error {
	for _, ways := range servers {
		t := ways[len(ways)-1]
		fmt.Printf("filling the tables of %s, scale %d\n", t.about, o.pgbench.scale)
		if err := t.fill(ctx, o.pgbench); err != nil {
			return err
		}
		if err := sameSettings(ctx, servers[0][0], t); err != nil {
			return err
		}
	}
	all := slices.Concat(servers...)
	for round := range o.rounds {
		for name := range strings.SplitSeq(o.pgbench.targets, ",") {
			t := all[slices.IndexFunc(all, func(t pgTarget) bool { return t.name == name })]
			run, err := t.run(ctx, o.pgbench)
			if err != nil {
				return fmt.Errorf("round %d, %s: %w", round+1, t.name, err)
			}
			results.Runs[name] = append(results.Runs[name], run)
			fmt.Printf("round %d, %-8s: %.0f transactions per second, latency %.2f ms (load of the machine %s)\n", round+1, name, run.TPS, run.Latency, run.Load)
		}
	}
	return nil
}

// summarize compares each of Fettle's targets with each bare target.
func (r *pgbenchResults) summarize() {
	r.Medians, r.Quotient, r.Spread = map[string]float64{}, map[string]float64{}, map[string]float64{}
	tps := map[string][]float64{}
	for name, runs := range r.Runs {
		for _, run := range runs {
			tps[name] = append(tps[name], run.TPS)
		}
		r.Medians[name], r.Spread[name] = median(tps[name]), spread(tps[name])
	}
	for _, ours := range []string{targetService, targetPod} {
		for _, peer := range []string{targetBarePod, targetBareTLS, targetBare} {
			if len(tps[ours]) == 0 || len(tps[peer]) == 0 {
				continue
			}
			perRound := make([]float64, len(tps[ours]))
			for i := range perRound {
				perRound[i] = tps[ours][i] / tps[peer][i]
			}
			of := ours + "/" + peer
			r.Ratios = append(r.Ratios, newRatio(of, perRound))
			r.Quotient[of] = r.Medians[ours] / r.Medians[peer]
		}
	}
}

func (r *pgbenchResults) print() {
	fmt.Printf("PostgreSQL %s, %d clients, %s each; volumes: %s; CPU share: %s\n", r.Version, r.Clients, r.Each, r.Volume, r.Share)
	for _, name := range pgTargets {
		if len(r.Runs[name]) > 0 {
			fmt.Printf("  %-8s median %.0f transactions per second (variation %.1f %%)\n", name, r.Medians[name], 100*r.Spread[name])
		}
	}
	for _, one := range r.Ratios {
		fmt.Printf("  %-17s ratio of the medians %.3f; median of the rounds' ratios %.3f [%.3f, %.3f]\n", one.Of, r.Quotient[one.Of], one.Median, one.Low, one.High)
	}
}

// validate reports the invalid flags of -mode pgbench.
func (o pgbenchOptions) validate() error {
	var errs []error
	if min(o.scale, o.clients) < 1 || o.each < time.Second {
		errs = append(errs, errors.New("-pg-scale and -pg-clients must be positive, and -pg-each at least 1s"))
	}
	for name := range strings.SplitSeq(o.targets, ",") {
		if !slices.Contains(pgTargets, name) {
			errs = append(errs, fmt.Errorf("-pg-targets=%s: there is no %q, only %s", o.targets, name, strings.Join(pgTargets, ", ")))
		}
	}
	return errors.Join(errs...)
}
