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
	// VariableKind is the only kind of faults, such as F13.
	VariableKind = "FAULTS_KIND"
	// VariableDay is the day, from 0, whose plans are run; today if empty.
	VariableDay = "FAULTS_DAY"
	// VariableParallel is the number of concurrent plans of all scenarios.
	VariableParallel = "FAULTS_PARALLEL"
)

// references is the number of fault-free runs. They determine a scenario's writes and its nondeterminism.
const references = 3

// Run runs all plans of a scenario but the deletions, or those that the environment selects, and fails the test for each violation. The
// caller passes the result to RunDeletions.
func Run(t *testing.T, stage *Stage, scenario Scenario) *Execution {
	t.Helper()
	options := Options{Only: strings.TrimPrefix(os.Getenv(VariablePlan), scenario.Name+"/"), All: os.Getenv(VariableAmount) == "all"}
	options.Day, options.Kind = day(t), Kind(os.Getenv(VariableKind))
	if plan := os.Getenv(VariablePlan); plan != "" && !strings.HasPrefix(plan, scenario.Name+"/") {
		t.Skipf("%s=%s is of another scenario", VariablePlan, plan)
	}
	e, err := stage.Execute(t.Context(), scenario, options)
	if err != nil {
		t.Fatal(err)
	}
	if options.Kind != None && e.Plans+len(e.deletions) == 0 {
		t.Skipf("no plan is of kind %s", options.Kind)
	}
	if e.Plans > 0 || len(e.deletions) == 0 || !limited() {
		e.check(t)
	}
	return e
}

// RunDeletions runs the plans of F13 and F14, and fails the test for each violation. The controllers of StartControllers must run.
func RunDeletions(t *testing.T, e *Execution) Report {
	t.Helper()
	report, err := e.executeDeletions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	report.check(t)
	return report
}

// limited reports whether only one plan or one kind of plans is requested.
func limited() bool { return os.Getenv(VariablePlan) != "" || os.Getenv(VariableKind) != "" }

func (r Report) check(t *testing.T) {
	t.Helper()
	for _, violation := range r.Violations {
		t.Errorf("%s", violation)
	}
	if err := r.checkCoverage(); err != nil {
		t.Error(err)
	}
	t.Log(r.String())
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
	Kind     Kind   // of the only plans
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

// Execution is a scenario whose plans were run, except the deletions.
type Execution struct {
	Report

	fixture   *fixture
	reference *outcome
	deletions []Plan
}

// Execute runs the plans of a scenario, except the deletions. An error means that the harness itself failed.
func (s *Stage) Execute(ctx context.Context, scenario Scenario, options Options) (*Execution, error) {
	quietLogs.Do(func() { // crashed connections would log one line each
		klog.SetLogger(logr.Discard())
		ctrl.SetLogger(logr.Discard())
	})
	if err := s.history.watch(s.ctx, scenario.resources()); err != nil {
		return nil, fmt.Errorf("scenario %s: %w", scenario.Name, err)
	}
	options.ConvergeTimeout = cmp.Or(options.ConvergeTimeout, scenario.ConvergeTimeout, convergeTimeout)
	options.LongIdle = cmp.Or(options.LongIdle, longQuiet)
	options.Workers = cmp.Or(options.Workers, cap(s.slots))
	started := time.Now()
	e := &Execution{fixture: &fixture{s, &scenario, options}, Report: Report{Scenario: scenario.Name}}
	var err error
	if e.reference, err = e.fixture.runReference(ctx, &e.Report); err != nil || len(e.Violations) > 0 {
		return e, err
	}
	chosen := shortRun
	chosen.day = options.Day
	if options.All || options.Only != "" {
		chosen = fullRun
	}
	plans, err := e.fixture.plans(ctx, e.reference, chosen)
	e.fixture.clean(e.reference.namespace)
	if err != nil {
		return e, err
	}
	e.deletions = slices.DeleteFunc(slices.Clone(plans), func(p Plan) bool { return !p.Kind.deletes() })
	plans = slices.DeleteFunc(plans, func(p Plan) bool { return p.Kind.deletes() })
	e.Plans, e.Kinds = len(plans), kinds(plans)
	if n := scenario.Rotation; n > 1 && chosen != fullRun {
		e.Day = fmt.Sprintf("day %d of %d, %s=%d; ", options.Day%n+1, n, VariableDay, options.Day%n)
	}
	err = e.fixture.playAll(ctx, plans, e.reference, &e.Report)
	e.Took = time.Since(started)
	return e, err
}

func (e *Execution) executeDeletions(ctx context.Context) (Report, error) {
	started := time.Now()
	report := Report{Scenario: e.Scenario, Plans: len(e.deletions), Kinds: kinds(e.deletions), Writes: e.Writes, Orders: e.Orders}
	err := e.fixture.playAll(ctx, e.deletions, e.reference, &report)
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
func (s *fixture) plans(ctx context.Context, reference *outcome, chosen selection) ([]Plan, error) {
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
	if chosen != fullRun {
		plans = plansOfDay(plans, s.options.Day, s.scenario.Rotation)
	}
	return s.selected(append(plans, s.deletions(reference.writes, chosen)...))
}

// deletions returns the plans of F13 and F14: one of each kind a day unless all are requested, since each takes seconds.
func (s *fixture) deletions(trace []Record, chosen selection) []Plan {
	if s.scenario.Deletion == nil {
		return nil
	}
	var all []Plan
	for _, kind := range []Kind{OwnerDeleted, NamespaceDeleted} {
		plans := slices.DeleteFunc(deletions(trace, kind, s.scenario.Deletion.Step), func(p Plan) bool { return s.skips(p, fullRun) })
		if chosen != fullRun {
			plans = plansOfDay(plans, s.options.Day, len(plans))
		}
		all = append(all, plans...)
	}
	return all
}

// selected returns the plans that the options allow, in the order in which they are run.
func (s *fixture) selected(plans []Plan) ([]Plan, error) {
	only := s.options.Only
	plans = slices.DeleteFunc(plans, func(p Plan) bool {
		return only != "" && p.ID() != only || s.options.Kind != None && p.Kind != s.options.Kind
	})
	if only != "" && len(plans) == 0 {
		return nil, fmt.Errorf("scenario %s has no plan %q", s.scenario.Name, only)
	}
	return interleave(plans), nil
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
