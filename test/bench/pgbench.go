package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/fettle-dev/fettle/test/figures"
)

// The database of the benchmark, and the load of one run of pgbench.
const (
	pgVersion  = "15"
	pgBinaries = "/usr/lib/postgresql/" + pgVersion + "/bin" // of the bare servers: the minor version must be the instance's
	pgStorage  = "5Gi"
	pgCPU      = "1" // request of the instance; without it, any other process of the machine has priority
	pgScale    = 10
	pgClients  = 8
	pgEach     = time.Minute
)

// Targets of pgbench, in the order of each round.
const (
	targetService = "service"
	targetPod     = "pod"
	targetBarePod = "bare-pod"
	targetBare    = "bare"
)

// pgTarget is an address of a server. The role bench, which owns the database bench, is used on all servers.
type pgTarget struct {
	name, about string
	host, port  string
	password    string
}

// pgRole is the name of pgbench's role and of its database.
const pgRole = "bench"

// dsn is the connection string for libpq and pgx, without the password.
func (t *pgTarget) dsn() string {
	return fmt.Sprintf("host=%s port=%s user=%s dbname=%s sslmode=require", t.host, t.port, pgRole, pgRole)
}

// comparePgbench runs pgbench against one instance of Fettle on the cluster of KUBECONFIG. It also runs it against bare servers beside the
// instance, with the same program, settings and filesystem, interleaved.
//
// Two properties of any pod make a server slower than one in a shell of the same machine: its cgroup and its network. If all processors are
// busy, all pods of a node together have the weight of a few ordinary processes, while each process of a bare server has the weight of one.
// A row to a pod passes two virtual cables, the bridge's filter and the rules of the node. The bare servers therefore get the pod's CPU
// share, and bare-pod runs in the pod's network. The difference to bare-pod is the cost of Fettle. The other server, on the loopback, shows
// the cost of the network.
func comparePgbench(ctx context.Context, o options) (err error) {
	config, err := ctrl.GetConfig()
	if err != nil {
		return fmt.Errorf("-mode pgbench needs a cluster with Fettle: set KUBECONFIG: %w", err)
	}
	instance, err := newPgInstance(ctx, config)
	if instance != nil {
		defer func() { err = errors.Join(err, instance.remove(context.WithoutCancel(ctx))) }()
	}
	if err != nil {
		return err
	}
	places, err := places(instance)
	if err != nil {
		return err
	}
	targets := instance.targets()
	for _, place := range places {
		bare, err := newBareServer(ctx, o.pgFolder, instance, place)
		if bare != nil {
			defer func() { err = errors.Join(err, bare.remove()) }()
		}
		if err != nil {
			return err
		}
		if err := sameFilesystem(instance.volume, bare.folder); err != nil {
			return err
		}
		targets = append(targets, bare.target())
	}
	tps, err := runRounds(ctx, o.rounds, targets)
	if err != nil {
		return err
	}
	r := figures.Record{
		Command: o.command(),
		Conditions: []string{
			fmt.Sprintf("pgbench ran on the node with scale %d, %d clients and TLS for %.0f s, in %d rounds in turn.", pgScale, pgClients, pgEach.Seconds(), o.rounds),
			fmt.Sprintf("PostgreSQL %s runs from a stand-in of the official image, made of Debian's packages.", instance.facts["server_version"]),
			"All servers have the same programs, settings, filesystem and CPU share.",
		},
		Columns: []string{"pgbench connects to", "Transactions per second, median", "Fettle's Service / this, each round", "Median"},
	}
	for _, t := range targets {
		rounds, middle := "", ""
		if ratios := divide(tps[targetService], tps[t.name]); t.name != targetService {
			rounds, middle = strings.ReplaceAll(strings.Trim(fmt.Sprintf("%.2f", ratios), "[]"), " ", ", "), fmt.Sprintf("%.1f", median(ratios))
		}
		r.Add(t.about, fmt.Sprintf("%.0f", median(tps[t.name])), rounds, middle)
	}
	return r.Write(o.out, modePgbench)
}

// runRounds fills the tables of all servers, the first of which is the instance, and then runs against each target in turn. It returns the
// transactions per second of each round by target.
func runRounds(ctx context.Context, rounds int, targets []pgTarget) (map[string][]float64, error) {
	for _, t := range targets {
		if t.name == targetService {
			continue // the same server as the pod
		}
		fmt.Printf("filling the tables of %s\n", t.about)
		if err := t.fill(ctx); err != nil {
			return nil, err
		}
		if err := sameSettings(ctx, targets[0], t); err != nil {
			return nil, err
		}
	}
	tps := map[string][]float64{}
	for round := range rounds {
		for _, t := range targets {
			rate, err := t.run(ctx)
			if err != nil {
				return nil, fmt.Errorf("round %d, %s: %w", round+1, t.name, err)
			}
			tps[t.name] = append(tps[t.name], rate)
			fmt.Printf("round %d, %-8s: %.0f transactions per second (load of the machine %s)\n", round+1, t.name, rate, figures.Load())
		}
	}
	return tps, nil
}
