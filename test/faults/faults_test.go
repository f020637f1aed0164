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
	scenarios := append(slices.Concat(postgreSQLScenarios(t), webAppScenarios(t), appConfigScenarios(t), backupScenarios(t)), voteConfigScenario(t), appStackScenario(t), demo)

	all := &totals{stage: stage, identity: demo.Identity, executions: map[string]*Execution{}}
	var running sync.WaitGroup // -test.parallel would limit parallel tests to the number of processors
	for _, scenario := range scenarios {
		running.Go(func() {
			t.Run(scenario.Name, func(t *testing.T) {
				e := Run(t, stage, scenario)
				all.add(e.Report, e)
				if scenario.Name == demo.Name {
					runsAllKinds(t, e.Report, CrashBefore, CrashAfter, LostResponse, LostAndStale, Stale, Reply, HeldReply, Unheard, Deleted, Changed)
				}
			})
		})
	}
	for _, name := range slices.Sorted(maps.Keys(mutants)) {
		running.Go(func() { t.Run("mutant that "+name, func(t *testing.T) { all.catches(t, mutants[name]) }) })
	}
	running.Wait()
	all.runDeletions(t, demo.Name)
	t.Logf("faults: %d plans, %d violations in %d of %d scenarios; %d of %d mutants caught",
		all.plans, all.violations, all.completed, len(scenarios), all.caught, len(mutants)+len(deletionMutants))
	stop()
	if leaked, stacks := leakedSince(before, 5*time.Second); leaked > 0 {
		t.Errorf("O5: %d goroutines more than before the scenarios:\n%s", leaked, stacks)
	}
}

// totals are the results of all scenarios and mutants. Only the methods are safe for concurrent use.
type totals struct {
	stage    *Stage
	identity *rest.Config // of the demo

	mu                                   sync.Mutex
	completed, plans, violations, caught int
	executions                           map[string]*Execution // by scenario, those with deletions
}

// add adds a report. e is nil if its deletions were run.
func (a *totals) add(report Report, e *Execution) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.plans += report.Plans
	a.violations += len(report.Violations)
	if e == nil {
		return
	}
	a.completed++
	if len(e.deletions) > 0 {
		a.executions[report.Scenario] = e
	}
}

// runDeletions runs the deletions of all scenarios and their mutants, side by side, on the controllers of Kubernetes.
func (a *totals) runDeletions(t *testing.T, demo string) {
	t.Helper()
	if len(a.executions) == 0 && limited() {
		return
	}
	stop, err := a.stage.StartControllers()
	if err != nil {
		t.Fatal(err)
	}
	started := time.Now()
	var running sync.WaitGroup
	for name, e := range a.executions {
		running.Go(func() {
			t.Run(name+"-deletion", func(t *testing.T) {
				report := RunDeletions(t, e)
				a.add(report, nil)
				if name == demo {
					runsAllKinds(t, report, OwnerDeleted, NamespaceDeleted)
				}
			})
		})
	}
	for _, name := range slices.Sorted(maps.Keys(deletionMutants)) {
		running.Go(func() { t.Run("mutant that "+name, func(t *testing.T) { a.catchesDeletion(t, deletionMutants[name]) }) })
	}
	running.Wait()
	t.Logf("faults: the deletions took %v", time.Since(started).Round(time.Second))
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// runsAllKinds fails unless the plans of the demo are of all these kinds.
func runsAllKinds(t *testing.T, report Report, required ...Kind) {
	t.Helper()
	if limited() {
		return
	}
	for _, kind := range required {
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
