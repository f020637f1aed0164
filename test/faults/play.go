package faults

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Times of a plan. All are real time: the API server has no other.
const (
	settleFor   = 150 * time.Millisecond // without writes, between two steps
	quietFor    = 700 * time.Millisecond // without writes, at the end of a plan
	longQuiet   = 3 * time.Second        // without writes, at the end of a fault-free run
	patience    = 40 * time.Second       // beyond the fault-free time and the fault's own: a busy machine is no fault
	firstRun    = 2 * time.Minute        // for a fault-free run, whose time is not known yet
	lookEach    = 20 * time.Millisecond
	catchUpTime = time.Minute
)

// outcome is what one plan led to.
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

// act is a plan being played.
type act struct {
	*stage
	*outcome
	reference *outcome // nil for a fault-free run
	tape      *tape
	lives     *lives
	user      *user
	world     *World
	changed   <-chan struct{}
}

// play runs a plan from an empty namespace to the verdict.
func (s *stage) play(ctx context.Context, plan Plan, reference *outcome) (*outcome, error) {
	namespace, err := s.env.NewNamespace(ctx, "faults")
	if err != nil {
		return nil, err
	}
	a := &act{stage: s, outcome: &outcome{plan: plan, namespace: namespace}, reference: reference,
		tape: &tape{plan: plan, lastWrite: time.Now()}, changed: s.ledger.open(namespace)}
	a.tape.version = func(key Key) string { return s.ledger.version(namespace, key) }
	if a.user, a.world, err = s.newUser(namespace); err != nil {
		return nil, err
	}
	a.tape.touch = func(key Key) error { return a.touch(ctx, key) }
	identity := cmp.Or(s.scenario.Identity, s.env.Operator)
	a.lives = &lives{scenario: s.scenario, mapper: s.mapper, namespace: namespace, tape: a.tape, config: as(identity, "faults-operator")}
	alive, stop := context.WithCancel(ctx)
	defer stop()
	around := func() {}
	if s.scenario.Around != nil {
		if around, err = s.scenario.Around(alive, namespace); err != nil {
			return nil, fmt.Errorf("plan %s: %w", plan.ID(), err)
		}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		a.lives.run(alive)
	}()
	err = a.perform(ctx)
	stop()
	<-ended
	around()
	if err == nil { // only now nothing is written any more
		err = a.finish(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("plan %s: %w", plan.ID(), err)
	}
	a.judgeAll()
	return a.outcome, s.ledger.failure()
}

// perform does the steps, the drift if there is one, and waits for the end.
func (a *act) perform(ctx context.Context) error {
	limit := firstRun
	if a.reference != nil {
		limit = a.reference.took + a.plan.hold() + a.options.Patience
	}
	started := time.Now()
	deadline := started.Add(limit)
	for i, step := range a.scenario.Steps {
		if i > 0 {
			a.settle(ctx, deadline)
		}
		if step.Attended {
			if err := a.waitUntil(ctx, deadline, a.tape.attended); err != nil {
				return fmt.Errorf("before step %s: %w", step.Name, err)
			}
		}
		a.tape.enter(i)
		if err := step.Do(ctx, a.world); err != nil {
			return fmt.Errorf("step %s: %w", step.Name, err)
		}
		last := i == len(a.scenario.Steps)-1
		if err := a.waitUntil(ctx, deadline, func() error { return a.converged(step, last) }); err != nil {
			a.violate("O6", "step %q has not converged after %v: %v", step.Name, time.Since(started).Round(time.Millisecond), err)
			return nil
		}
	}
	if a.plan.Kind == Deleted || a.plan.Kind == Changed {
		a.settle(ctx, deadline)
		deadline = time.Now().Add(a.options.Patience)
		if err := a.drift(ctx, deadline); err != nil {
			return err
		}
	}
	a.took = time.Since(started)
	a.calmDown(ctx, deadline)
	return nil
}

// converged is nil once the step had its effect and, at the end, the world looks as without a fault.
func (a *act) converged(step Step, last bool) error {
	view := a.ledger.view(a.namespace)
	if !a.user.seen(view, a.follows) {
		return fmt.Errorf("the user's changes have not been seen")
	}
	if err := step.Converged(view); err != nil {
		return err
	}
	drifts := a.plan.Kind == Deleted || a.plan.Kind == Changed
	if last && a.reference != nil && !drifts {
		return a.asReference(view)
	}
	return nil
}

func (a *act) asReference(view View) error {
	if object := view.objects[a.plan.Target]; object != nil && a.plan.Kind == Changed {
		view.objects[a.plan.Target] = a.plan.Drift.withoutForeign(object) // the view is a copy
	}
	if diff := difference(a.reference.dumpFor(a.plan.Kind), dump(view, a.namespace, a.plan.Kind)); diff != "" {
		return fmt.Errorf("state differs from the fault-free one (-want +got):\n%s", diff)
	}
	return nil
}

// dumpFor renders the reference's state with the masks of another kind of plan.
func (o *outcome) dumpFor(kind Kind) map[string]string { return dump(o.state, o.namespace, kind) }

func (a *act) follows(key Key) bool { return slices.Contains(a.ledger.resources, key.Resource) }

// calmDown waits for a time without writes (O3).
func (a *act) calmDown(ctx context.Context, deadline time.Time) {
	want := quietFor
	if a.reference == nil {
		want, deadline = a.options.LongQuiet, time.Time{}
	}
	deadline = later(deadline, time.Now().Add(3*want))
	if err := a.waitUntil(ctx, deadline, func() error { return a.quiet(want) }); err != nil {
		a.violate("O3", "%v", err)
	}
}

// settle waits for a pause before the next disturbance. Where there is none, calmDown will say so.
func (a *act) settle(ctx context.Context, deadline time.Time) {
	_ = a.waitUntil(ctx, deadline, func() error { return a.quiet(settleFor) })
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func (a *act) quiet(want time.Duration) error {
	if have := a.tape.quietFor(); have < want {
		writes := a.tape.written()
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

// finish takes down the final state, once the ledger has seen all of it.
func (a *act) finish(ctx context.Context) error {
	deadline := time.Now().Add(catchUpTime)
	for {
		done, err := a.ledger.current(ctx, a.namespace)
		if err != nil {
			return err
		}
		if done {
			break
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the ledger of %s does not catch up with the API server", a.namespace)
		}
		time.Sleep(lookEach)
	}
	a.state = a.ledger.view(a.namespace)
	a.dump = dump(a.state, a.namespace, a.plan.Kind)
	return nil
}

// waitUntil calls done after each change, and often enough to see time pass. It returns done's last error.
func (a *act) waitUntil(ctx context.Context, deadline time.Time, done func() error) error {
	for {
		err := done()
		if err == nil || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
		select {
		case <-ctx.Done():
		case <-a.changed:
		case <-time.After(lookEach):
		}
	}
}
