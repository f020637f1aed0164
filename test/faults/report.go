package faults

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Report is the result of a scenario.
type Report struct {
	Scenario   string
	Plans      int    // with a fault; the fault-free runs come on top
	Missed     int    // plans whose write never happened, because the reference run had more writes
	Day        string // the day of a rotation; empty if all plans are run
	Kinds      map[Kind]int
	Writes     []string // of a fault-free run
	Orders     int      // different orders of writes among the fault-free runs
	Violations []Violation
	Took       time.Duration
}

// Violation is a plan that violated at least one oracle.
type Violation struct {
	Plan    string // scenario/plan
	At      string // the write or the child with the fault
	Broken  []string
	LogTail []string
}

// String describes the violation and how to reproduce it.
func (v Violation) String() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%s (%s)\n", v.Plan, v.At)
	for _, broken := range v.Broken {
		fmt.Fprintf(&text, "  %s\n", strings.ReplaceAll(broken, "\n", "\n    "))
	}
	fmt.Fprintf(&text, "  the controller's last log lines:\n    %s\n", strings.Join(v.LogTail, "\n    "))
	fmt.Fprintf(&text, "  to run only this: %s='%s' make faults\n", VariablePlan, v.Plan)
	return text.String()
}

// checkCoverage returns an error if so few plans injected their fault that the scenario proves nothing.
func (r Report) checkCoverage() error {
	switch {
	case len(r.Violations) > 0: // the reference run may have failed
		return nil
	case r.Plans == 0:
		return fmt.Errorf("scenario %s: no plan was run", r.Scenario)
	case r.Missed*2 > r.Plans: // a few misses are allowed: on a busy machine a fault-free run may write a status once more
		return fmt.Errorf("scenario %s: in %d of %d plans the write that should fail never happened", r.Scenario, r.Missed, r.Plans)
	}
	return nil
}

// add adds an outcome to the report.
func (r *Report) add(scenario *Scenario, run *outcome) {
	p := run.plan
	at := p.Target.String()
	if p.Call != "" {
		at = run.fault.String()
		if !run.triggered && p.Kind.deletes() {
			at = "after the step, since its write never happened"
		} else if !run.triggered {
			r.Missed++
			at = "its write never happened"
		}
	} else if p.Kind == None {
		at = "without a fault"
	}
	if len(run.violations) > 0 {
		r.Violations = append(r.Violations, Violation{scenario.Name + "/" + p.ID(), at, run.violations, run.log})
	}
}

// String is the summary of a scenario.
func (r Report) String() string {
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(r.Kinds)) {
		parts = append(parts, fmt.Sprintf("%s %d", kind, r.Kinds[kind]))
	}
	return fmt.Sprintf("faults: %s: %d plans, %d violations (%s%s; %d missed their write; %d writes and %d orders of them in fault-free runs) in %v",
		r.Scenario, r.Plans, len(r.Violations), r.Day, strings.Join(parts, ", "), r.Missed, len(r.Writes), r.Orders, r.Took.Round(time.Second))
}
