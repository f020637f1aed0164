package faults

import (
	"cmp"
	"context"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/fettle-dev/fettle/internal/testenv"
)

// defaultParallel suits two processors: a plan mostly waits.
const defaultParallel = 12

var env *testenv.Env

func TestMain(m *testing.M) {
	debug.SetGCPercent(300) // each plan fills and drops its own caches
	testenv.Main(m, &env, testenv.Options{Fast: true, Private: true, CRDPaths: []string{"testdata/crds"}})
}

// TestFaults runs the scenarios of all kinds and the mutants, side by side.
func TestFaults(t *testing.T) {
	before, _ := goroutines()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	parallel, _ := strconv.Atoi(os.Getenv(VariableParallel)) // zero selects the default
	stage, err := NewStage(ctx, env, cmp.Or(parallel, defaultParallel))
	if err != nil {
		t.Fatal(err)
	}
	demo := demoScenario("demo", newDemo)
	demo.Identity = demoIdentity(t)
	scenarios := append(slices.Concat(postgreSQLScenarios(t), webAppScenarios(t), appConfigScenarios(t), backupScenarios(t)), voteConfigScenario(t), demo)

	var completed, plans, violations, caught atomic.Int64
	var running sync.WaitGroup // -test.parallel would limit parallel tests to the number of processors
	for _, scenario := range scenarios {
		running.Go(func() {
			t.Run(scenario.Name, func(t *testing.T) {
				report := Run(t, stage, scenario)
				completed.Add(1)
				plans.Add(int64(report.Plans))
				violations.Add(int64(len(report.Violations)))
				if scenario.Name == demo.Name {
					runsAllKinds(t, report)
				}
			})
		})
	}
	for _, name := range slices.Sorted(maps.Keys(mutants)) {
		running.Go(func() {
			t.Run("mutant that "+name, func(t *testing.T) {
				if catches(t, stage, demo.Identity, mutants[name]) {
					caught.Add(1)
				}
			})
		})
	}
	running.Wait()
	t.Logf("faults: %d plans, %d violations in %d of %d scenarios; %d of %d mutants caught",
		plans.Load(), violations.Load(), completed.Load(), len(scenarios), caught.Load(), len(mutants))
	stop()
	if leaked, stacks := leakedSince(before, 5*time.Second); leaked > 0 {
		t.Errorf("O5: %d goroutines more than before the scenarios:\n%s", leaked, stacks)
	}
}

// runsAllKinds fails unless the plans of the demo are of all kinds.
func runsAllKinds(t *testing.T, report Report) {
	t.Helper()
	if os.Getenv(VariablePlan) != "" {
		return
	}
	for _, kind := range []Kind{CrashBefore, CrashAfter, LostResponse, LostAndStale, Stale, Reply, HeldReply, Unheard, Deleted, Changed} {
		if report.Kinds[kind] == 0 {
			t.Errorf("no plan of kind %s was run", kind)
		}
	}
	t.Log("writes of a fault-free run:\n" + strings.Join(report.Writes, "\n"))
}

func demoIdentity(t *testing.T) *rest.Config {
	t.Helper()
	config, err := env.Identity(t.Context(), "demo-controller", demoRules)
	if err != nil {
		t.Fatal(err)
	}
	return config
}
