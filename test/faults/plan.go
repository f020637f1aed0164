package faults

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Kind of fault, with the identifiers of the project's fault catalogue.
type Kind string

// Kinds of faults. A crash ends the running controller at once; a new process starts.
const (
	None         Kind = ""
	CrashBefore  Kind = "F1"         // crash instead of sending a write
	CrashAfter   Kind = "F2"         // crash after a write took effect, before its response
	LostResponse Kind = "F3"         // a write took effect, the controller sees a connection reset
	LostAndStale Kind = "F3-stale"   // as above, and its cache does not see the write for a time
	Reply        Kind = "F4"         // a write is answered with an error and not sent
	HeldReply    Kind = "F4-held"    // as above, and so is every later write of the same kind to the same object, for a time
	Unheard      Kind = "F4-unheard" // a write to an existing object is answered as if the object were missing or changed, and no event follows
	Stale        Kind = "F5"         // a write succeeds, but the cache of its kind does not see it for a time
	Deleted      Kind = "F11-delete" // another client deletes a child
	Changed      Kind = "F11-change" // another client changes a child

	OwnerDeleted     Kind = "F13" // the user deletes the controller's object right after a write took effect
	NamespaceDeleted Kind = "F14" // the user deletes the namespace right after a write took effect
)

// deletes reports whether plans of this kind end with a deletion. They need the controllers of StartControllers.
func (k Kind) deletes() bool { return k == OwnerDeleted || k == NamespaceDeleted }

// Plan is one run with one fault.
type Plan struct {
	Kind   Kind
	Step   int    // of F1 to F5, F13 and F14: the scenario's step that the write belongs to
	Call   string // and the write, as a Record names it. F4-unheard is injected at the step's first such write to an existing object
	Nth    int    // of the others: how many such writes the step has up to this one
	Write  int    // and the number of the write in the reference run, from 1
	Object Key    // and the object that is written
	Answer answer // of F4
	Target Key    // of F11
	Drift  drift  // of F11-change
}

// ID names the plan within its scenario.
func (p Plan) ID() string {
	switch p.Kind {
	case None:
		return "reference"
	case CrashBefore, CrashAfter, LostResponse, LostAndStale, Stale, OwnerDeleted, NamespaceDeleted:
		return fmt.Sprintf("%s@%d", p.Kind, p.Write)
	case Reply, HeldReply:
		return fmt.Sprintf("%s-%s@%d", p.Kind, p.Answer.name, p.Write)
	case Unheard:
		return fmt.Sprintf("%s-%s@%d:%s", p.Kind, p.Answer.name, p.Step, p.Call)
	case Changed:
		return fmt.Sprintf("%s@%s%s", p.Kind, p.Target, p.Drift.pointer)
	}
	return fmt.Sprintf("%s@%s", p.Kind, p.Target)
}

// hold is how long the fault itself keeps the controller from converging.
func (p Plan) hold() time.Duration {
	switch p.Kind {
	case HeldReply:
		return heldFor
	case Stale, LostAndStale:
		return staleFor
	}
	return p.Answer.retryAfter
}

// heldFor is how long a HeldReply lasts, staleFor how long a cache stays behind.
const (
	heldFor  = 2 * time.Second
	staleFor = 400 * time.Millisecond
)

// selection bounds the number of plans. Every F1, F2, F3, F5 and F11-delete is among them.
type selection struct {
	day             int // each day, a write gets another F4 answer
	answersPerWrite int // F4 answers per write; the others are spread over the other writes
	heldPerAnswer   int // writes with each F4 answer held
	unheardPerCall  int // answers of F4-unheard per distinct write of a step
	driftsPerChild  int
}

var (
	shortRun = selection{answersPerWrite: 1, heldPerAnswer: 1, unheardPerCall: 1, driftsPerChild: 2}
	fullRun  = selection{answersPerWrite: 100, heldPerAnswer: 100, unheardPerCall: 100, driftsPerChild: 100}
)

// plans returns the plans for a trace of a fault-free run, in a fixed order.
func (s selection) plans(trace []Record, children []Key, drifts map[Key][]drift) []Plan {
	var plans []Plan
	for i, record := range trace {
		for _, kind := range []Kind{CrashBefore, CrashAfter, LostResponse, LostAndStale, Stale} {
			plans = append(plans, planAt(trace, i, kind, answer{}))
		}
		taken := 0
		for n := range answers {
			// Each write starts at another answer, so a few answers per write still cover all answers.
			a := answers[(n+i*s.answersPerWrite+s.day)%len(answers)]
			if a.possible(record) && taken < s.answersPerWrite {
				taken++
				plans = append(plans, planAt(trace, i, Reply, a))
			}
		}
	}
	plans = append(plans, s.held(trace)...)
	plans = append(plans, s.unheard(trace)...)
	for _, child := range children {
		plans = append(plans, Plan{Kind: Deleted, Target: child})
		for _, d := range drifts[child] {
			plans = append(plans, Plan{Kind: Changed, Target: child, Drift: d})
		}
	}
	return plans
}

// planAt returns a plan for a write of the trace.
func planAt(trace []Record, i int, kind Kind, a answer) Plan {
	nth := 0
	for _, r := range trace[:i+1] {
		if r.sameCall(trace[i].Step, trace[i].String()) {
			nth++
		}
	}
	return Plan{Kind: kind, Step: trace[i].Step, Call: trace[i].String(), Nth: nth, Write: i + 1, Object: trace[i].object(), Answer: a}
}

// held returns the plans with answers that last for a time.
func (s selection) held(trace []Record) []Plan {
	var plans []Plan
	for n, a := range answers {
		var writes []int
		for i, record := range trace {
			if a.holdable && a.possible(record) {
				writes = append(writes, i)
			}
		}
		for i := range min(s.heldPerAnswer, len(writes)) {
			at := writes[(n+i+s.day)%len(writes)]
			plans = append(plans, planAt(trace, at, HeldReply, a))
		}
	}
	return plans
}

// unheard returns the plans with answers to writes to existing objects.
func (s selection) unheard(trace []Record) []Plan {
	var plans []Plan
	calls := map[string]bool{}
	for _, record := range trace {
		call := fmt.Sprint(record.Step, record)
		if record.Before == "" || calls[call] {
			continue
		}
		var possible []answer
		for i := range unheardAnswers {
			// Each call starts at another answer, so one answer per call still covers all answers.
			a := unheardAnswers[(i+len(calls)+s.day)%len(unheardAnswers)]
			if a.possible(record) && len(possible) < s.unheardPerCall {
				possible = append(possible, a)
			}
		}
		calls[call] = true
		for _, a := range possible {
			plans = append(plans, Plan{Kind: Unheard, Call: record.String(), Answer: a, Step: record.Step})
		}
	}
	return plans
}

// deletions returns a plan of a kind for each write of a step.
func deletions(trace []Record, kind Kind, step int) []Plan {
	var plans []Plan
	for i, record := range trace {
		if record.Step == step {
			plans = append(plans, planAt(trace, i, kind, answer{}))
		}
	}
	return plans
}

// plansOfDay returns the plans of one day of a rotation; all plans without a rotation.
func plansOfDay(plans []Plan, day, days int) []Plan {
	if days < 2 {
		return plans
	}
	var chosen []Plan
	for i := day % days; i < len(plans); i += days {
		chosen = append(chosen, plans[i])
	}
	return chosen
}

// interleave puts plans of different kinds next to each other, so a bug shows early.
func interleave(plans []Plan) []Plan {
	rank, seen := map[string]int{}, map[Kind]int{}
	for _, p := range plans {
		rank[p.ID()] = seen[p.Kind]
		seen[p.Kind]++
	}
	slices.SortStableFunc(plans, func(a, b Plan) int { return cmp.Compare(rank[a.ID()], rank[b.ID()]) })
	return plans
}

// kinds counts plans by kind.
func kinds(plans []Plan) map[Kind]int {
	counts := map[Kind]int{}
	for _, p := range plans {
		counts[p.Kind]++
	}
	return counts
}
