package faults

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Times of a plan, in real time: the API server has no other clock.
const (
	settleFor       = 150 * time.Millisecond // without writes, between two steps
	quietFor        = 700 * time.Millisecond // without writes, at the end of a plan
	longQuiet       = 3 * time.Second        // without writes, at the end of a fault-free run
	convergeTimeout = 40 * time.Second       // beyond the fault-free time and the fault's own: a busy machine is not a fault
	firstRun        = 2 * time.Minute        // for a fault-free run, whose time is not known yet
	pollInterval    = 20 * time.Millisecond
	catchUpTime     = time.Minute
)

// outcome is the result of one plan.
type outcome struct {
	plan       Plan
	namespace  string
	violations []string
	writes     []Record
	fault      Record
	triggered  bool
	took       time.Duration // until converged, without the quiet time
	state      View
	dump       map[string]string
	counts     map[string]int
	log        []string
}

func (o *outcome) violate(oracle, format string, args ...any) {
	o.violations = append(o.violations, oracle+": "+fmt.Sprintf(format, args...))
}

// planRun is a plan in progress.
type planRun struct {
	*fixture
	*outcome
	reference *outcome // nil for a fault-free run
	wanted    map[string]string
	requests  *requestLog
	operator  *operator
	user      *user
	client    *Client
	changed   <-chan struct{}
	deletion  deletion
}

// run runs a plan from an empty namespace and checks the result.
func (s *fixture) run(ctx context.Context, plan Plan, reference *outcome) (*outcome, error) {
	select {
	case s.slots <- struct{}{}:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	defer func() { <-s.slots }()
	namespace, err := s.env.NewNamespace(ctx, "faults")
	if err != nil {
		return nil, err
	}
	a := &planRun{fixture: s, outcome: &outcome{plan: plan, namespace: namespace}, reference: reference,
		requests: &requestLog{plan: plan, lastWrite: time.Now()}, changed: s.history.open(namespace, s.scenario)}
	a.requests.version = func(key Key) string { return s.history.version(namespace, key) }
	if a.user, a.client, err = s.newUser(namespace); err != nil {
		return nil, err
	}
	a.requests.touch = func(key Key) error { return a.touch(ctx, key) }
	a.requests.remove = func() { a.delete(ctx) }
	identity := cmp.Or(s.scenario.Identity, s.env.Operator)
	a.operator = &operator{scenario: s.scenario, mapper: s.mapper, namespace: namespace, requests: a.requests, config: as(identity, "faults-operator")}
	alive, stop := context.WithCancel(ctx)
	defer stop()
	around := func() {}
	if s.scenario.Background != nil {
		if around, err = s.scenario.Background(alive, namespace); err != nil {
			return nil, fmt.Errorf("plan %s: %w", plan.ID(), err)
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.operator.run(alive)
	}()
	err = a.runSteps(ctx)
	stop()
	<-ended
	around()
	if err == nil { // no writes happen from here on
		err = a.recordFinalState(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("plan %s: %w", plan.ID(), err)
	}
	a.checkAll()
	return a.outcome, s.history.failure()
}

// runSteps runs the steps, the drift if there is one, and waits for the end.
func (a *planRun) runSteps(ctx context.Context) error {
	limit := firstRun
	if a.reference != nil {
		limit = a.reference.took + a.plan.hold() + a.options.ConvergeTimeout
	}
	started := time.Now()
	deadline := started.Add(limit)
	for i, step := range a.scenario.Steps {
		if i > 0 {
			a.waitForPause(ctx, deadline)
		}
		if step.AfterRestart {
			if err := a.waitUntil(ctx, deadline, a.requests.workersRunning); err != nil {
				return fmt.Errorf("before step %s: %w", step.Name, err)
			}
		}
		a.requests.beginStep(i)
		if a.plan.Kind.deletes() && i == a.plan.Step {
			return a.runDeletion(ctx, step, deadline)
		}
		if err := step.Do(ctx, a.client); err != nil {
			return fmt.Errorf("step %s: %w", step.Name, err)
		}
		last := i == len(a.scenario.Steps)-1
		if err := a.waitUntil(ctx, deadline, func() error { return a.converged(step, last) }); err != nil {
			a.violate("O6", "step %q has not converged after %v: %v", step.Name, time.Since(started).Round(time.Millisecond), err)
			return nil
		}
	}
	if a.plan.Kind == Deleted || a.plan.Kind == Changed {
		a.waitForPause(ctx, deadline)
		deadline = time.Now().Add(a.options.ConvergeTimeout)
		if err := a.drift(ctx, deadline); err != nil {
			return err
		}
	}
	a.took = time.Since(started)
	a.waitForNoWrites(ctx, deadline)
	return nil
}

// converged is nil once the step has had its effect and, at the end, the state equals the fault-free one.
func (a *planRun) converged(step Step, last bool) error {
	view := a.history.view(a.namespace)
	if !a.user.seen(view, a.follows) {
		return fmt.Errorf("the user's changes have not been seen")
	}
	if err := step.Converged(view); err != nil {
		return err
	}
	drifts := a.plan.Kind == Deleted || a.plan.Kind == Changed
	if last && a.reference != nil && !drifts {
		return a.matchesReference(view)
	}
	return nil
}

func (a *planRun) matchesReference(view View) error {
	if object := view.objects[a.plan.Target]; object != nil && a.plan.Kind == Changed {
		view.objects[a.plan.Target] = a.plan.Drift.withoutForeign(object) // the view is a copy
	}
	if diff := difference(a.want(), dump(view, a.namespace, a.plan.Kind)); diff != "" {
		return fmt.Errorf("state differs from the fault-free one (-want +got):\n%s", diff)
	}
	return nil
}

// want renders the reference's state with the masks of the plan's kind.
func (a *planRun) want() map[string]string {
	if a.wanted == nil {
		a.wanted = dump(a.reference.state, a.reference.namespace, a.plan.Kind)
	}
	return a.wanted
}

func (a *planRun) follows(key Key) bool { return slices.Contains(a.scenario.resources(), key.Resource) }

// waitForNoWrites waits for a time without writes (O3).
func (a *planRun) waitForNoWrites(ctx context.Context, deadline time.Time) {
	want := quietFor
	if a.reference == nil {
		want, deadline = a.options.LongIdle, time.Time{}
	}
	deadline = later(deadline, time.Now().Add(3*want))
	if err := a.waitUntil(ctx, deadline, func() error { return a.noWritesFor(want) }); err != nil {
		a.violate("O3", "%v", err)
	}
}

// waitForPause waits for a pause before the next fault. Without a pause, waitForNoWrites will report it.
func (a *planRun) waitForPause(ctx context.Context, deadline time.Time) {
	_ = a.waitUntil(ctx, deadline, func() error { return a.noWritesFor(settleFor) })
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (a *planRun) noWritesFor(want time.Duration) error {
	if have := a.requests.sinceLastWrite(); have < want {
		writes := a.requests.written()
		return fmt.Errorf("still writing, %d writes so far, the last ones: %s", len(writes), tail(writes, 5))
	}
	return nil
}

func tail(writes []Record, n int) string {
	var names []string
	for _, r := range writes[max(0, len(writes)-n):] {
		names = append(names, fmt.Sprintf("%s (%d)", r, r.Code))
	}
	return strings.Join(names, ", ")
}

// recordFinalState records the final state, once the history contains all of it.
func (a *planRun) recordFinalState(ctx context.Context) error {
	deadline := time.Now().Add(catchUpTime)
	for {
		done, err := a.history.current(ctx, a.namespace, a.scenario.resources())
		if err != nil {
			return err
		}
		if done {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the history of %s does not catch up with the API server", a.namespace)
		}
		time.Sleep(pollInterval)
	}
	a.state = a.history.view(a.namespace)
	a.dump = dump(a.state, a.namespace, a.plan.Kind)
	return nil
}

// waitUntil calls done after each change, and periodically. It returns done's last error.
func (a *planRun) waitUntil(ctx context.Context, deadline time.Time, done func() error) error {
	for {
		err := done()
		if err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-a.changed:
		case <-time.After(pollInterval):
		}
	}
}
