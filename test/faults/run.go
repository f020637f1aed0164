package faults

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	gocmp "github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"
)

// Environment variables that choose the plans of Run.
const (
	// VariableAmount set to "all" runs every plan; otherwise each write gets one of the F4 answers, another each day, and each
	// child some of the changes.
	VariableAmount = "FAULTS"
	// VariablePlan is the ID of the only plan to run, as in a report: scenario/plan.
	VariablePlan = "FAULTS_PLAN"
	// VariableDay is the day, from 0, whose plans are run; today if empty.
	VariableDay = "FAULTS_DAY"
	// VariableParallel is the number of concurrent plans of all scenarios.
	VariableParallel = "FAULTS_PARALLEL"
)

// references is the number of fault-free runs. They determine a scenario's writes and its nondeterminism.
const references = 3

// Run runs all plans of a scenario, or those that the environment selects, and fails the test for each violation.
func Run(t *testing.T, stage *Stage, scenario Scenario) Report {
	t.Helper()
	options := Options{Only: strings.TrimPrefix(os.Getenv(VariablePlan), scenario.Name+"/"), All: os.Getenv(VariableAmount) == "all"}
	options.Day = day(t)
	if plan := os.Getenv(VariablePlan); plan != "" && !strings.HasPrefix(plan, scenario.Name+"/") {
		t.Skipf("%s=%s is of another scenario", VariablePlan, plan)
	}
	report, err := stage.Execute(t.Context(), scenario, options)
	if err != nil {
		t.Fatal(err)
	}
	for _, violation := range report.Violations {
		t.Errorf("%s", violation)
	}
	if err := report.checkCoverage(); err != nil {
		t.Error(err)
	}
	t.Log(report.String())
	return report
}

// day of a rotation: from the environment, or today.
func day(t *testing.T) int {
	t.Helper()
	asked := os.Getenv(VariableDay)
	if asked == "" {
		return int(time.Now().Unix() / (24 * 60 * 60))
	}
	n, err := strconv.Atoi(asked)
	if err != nil || n < 0 {
		t.Fatalf("%s=%s is not a day: it must be a number from 0", VariableDay, asked)
	}
	return n
}

// Options of Execute.
type Options struct {
	Only     string // ID of the only plan, without the scenario
	Day      int    // of a rotation
	All      bool   // every plan instead of a selection
	Workers  int    // concurrent plans of the scenario, 0 for as many as the stage permits
	FailFast bool   // stop at the first violation
	// ConvergeTimeout is how long a plan may take beyond the fault-free time and the fault's own duration.
	ConvergeTimeout time.Duration
	// LongIdle is how long a fault-free run must be without writes at its end.
	LongIdle time.Duration
}

var quietLogs sync.Once

// Execute runs the plans of a scenario. An error means that the harness itself failed.
func (s *Stage) Execute(ctx context.Context, scenario Scenario, options Options) (Report, error) {
	quietLogs.Do(func() { // crashed connections would log one line each
		klog.SetLogger(logr.Discard())
		ctrl.SetLogger(logr.Discard())
	})
	if err := s.history.watch(s.ctx, scenario.resources()); err != nil {
		return Report{}, fmt.Errorf("scenario %s: %w", scenario.Name, err)
	}
	options.ConvergeTimeout = cmp.Or(options.ConvergeTimeout, scenario.ConvergeTimeout, convergeTimeout)
	options.LongIdle = cmp.Or(options.LongIdle, longQuiet)
	options.Workers = cmp.Or(options.Workers, cap(s.slots))
	started := time.Now()
	fixture := &fixture{s, &scenario, options}
	report := Report{Scenario: scenario.Name}
	reference, err := fixture.runReference(ctx, &report)
	if err != nil || len(report.Violations) > 0 {
		return report, err
	}
	chosen := shortRun
	chosen.day = options.Day
	if options.All || options.Only != "" {
		chosen = fullRun
	}
	plans, err := fixture.plans(ctx, reference, chosen, options.Only)
	fixture.clean(reference.namespace)
	if err != nil {
		return report, err
	}
	report.Plans, report.Kinds = len(plans), kinds(plans)
	if n := scenario.Rotation; n > 1 && chosen != fullRun {
		report.Day = fmt.Sprintf("day %d of %d, %s=%d; ", options.Day%n+1, n, VariableDay, options.Day%n)
	}
	err = fixture.playAll(ctx, plans, reference, &report)
	report.Took = time.Since(started)
	return report, err
}

// runReference does the fault-free runs. They must be equal and without violations; the run with most writes is the reference.
func (s *fixture) runReference(ctx context.Context, report *Report) (*outcome, error) {
	runs, failures := make([]*outcome, references), make([]error, references)
	var players sync.WaitGroup
	for i := range runs {
		players.Go(func() { runs[i], failures[i] = s.run(ctx, Plan{}, nil) })
	}
	players.Wait()
	if err := errors.Join(failures...); err != nil {
		return nil, fmt.Errorf("scenario %s: fault-free run: %w", s.scenario.Name, err)
	}
	reference := slices.MaxFunc(runs, func(a, b *outcome) int { return cmp.Compare(len(a.writes), len(b.writes)) })
	orders := map[string]bool{}
	for _, run := range runs {
		orders[fmt.Sprint(run.writes)] = true
		if diff := difference(reference.dump, run.dump); diff != "" {
			run.violate("O1", "two fault-free runs end in different states:\n%s", diff)
		}
		if diff := gocmp.Diff(reference.counts, run.counts); diff != "" {
			run.violate("O2", "two fault-free runs create and delete differently:\n%s", diff)
		}
		report.add(s.scenario, run)
		reference.took = max(run.took, reference.took)
		if run != reference {
			s.clean(run.namespace)
		}
	}
	report.Orders = len(orders)
	for _, r := range reference.writes {
		report.Writes = append(report.Writes, r.String())
	}
	return reference, nil
}

// plans returns the plans, while the objects of the reference still exist.
func (s *fixture) plans(ctx context.Context, reference *outcome, chosen selection, only string) ([]Plan, error) {
	var children []Key
	drifts := map[Key][]drift{}
	made := map[Key]bool{}
	for _, r := range reference.writes {
		made[Key{r.Resource, r.Name}] = true
	}
	for key, object := range reference.state.objects {
		// The controller does not repair objects that it does not control, such as a workload that it restarts.
		if key.Resource == s.scenario.Primary || !made[key] || metav1.GetControllerOfNoCopy(object) == nil {
			continue
		}
		children = append(children, key)
		found, err := findDrifts(ctx, s.observer, key, object, chosen.driftsPerChild)
		if err != nil {
			return nil, err
		}
		drifts[key] = found
	}
	slices.SortFunc(children, func(a, b Key) int { return cmp.Compare(a.String(), b.String()) })
	plans := chosen.plans(reference.writes, children, drifts)
	plans = slices.DeleteFunc(plans, func(p Plan) bool { return s.skips(p, chosen) })
	if only == "" && chosen != fullRun {
		plans = plansOfDay(plans, s.options.Day, s.scenario.Rotation)
	}
	if only == "" {
		return interleave(plans), nil
	}
	plans = slices.DeleteFunc(plans, func(p Plan) bool { return p.ID() != only })
	if len(plans) == 0 {
		return nil, fmt.Errorf("scenario %s has no plan %q", s.scenario.Name, only)
	}
	return plans, nil
}

// skips reports whether the scenario skips a plan.
func (s *fixture) skips(p Plan, chosen selection) bool {
	never := s.scenario.Impossible != nil && s.scenario.Impossible(p)
	return never || chosen != fullRun && s.scenario.SkipByDefault != nil && s.scenario.SkipByDefault(p)
}

func (s *fixture) playAll(ctx context.Context, plans []Plan, reference *outcome, report *Report) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	queue := make(chan Plan)
	var workers sync.WaitGroup
	var mu sync.Mutex
	var failures error
	for range s.options.Workers {
		workers.Go(func() {
			for plan := range queue {
				run, err := s.run(ctx, plan, reference)
				if err == nil {
					s.clean(run.namespace)
				}
				mu.Lock()
				if err == nil {
					report.add(s.scenario, run)
				} else if ctx.Err() == nil {
					failures = errors.Join(failures, err)
				}
				if failures != nil || s.options.FailFast && len(report.Violations) > 0 {
					cancel()
				}
				mu.Unlock()
			}
		})
	}
	for _, plan := range plans {
		select {
		case queue <- plan:
		case <-ctx.Done():
		}
	}
	close(queue)
	workers.Wait()
	return failures
}
