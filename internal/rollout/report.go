package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
)

// maxNamed is how many workloads a message names.
const maxNamed = 3

// Bounded returns the dependants that a status lists, at most maxDependents: those that are not up to date first. more is the number of the
// others.
func (r Report) Bounded() (listed []Dependent, more int) {
	if len(r.Dependents) <= maxDependents {
		return r.Dependents, 0
	}
	listed = slices.Clone(r.Dependents)
	slices.SortStableFunc(listed, func(a, b Dependent) int {
		switch {
		case (a.State == UpToDate) == (b.State == UpToDate):
			return 0
		case b.State == UpToDate:
			return -1
		default:
			return 1
		}
	})
	return listed[:maxDependents], len(listed) - maxDependents
}

// report describes the state after the plan was executed. rejected holds the reasons of rejected writes, by index.
func (p *evaluation) report(out *plan, rejected map[int]string) Report {
	r := Report{RequeueAfter: out.requeueAfter, Dependents: make([]Dependent, 0, len(out.dependants))}
	started := map[int]bool{}
	for _, a := range out.restarts {
		started[a.at] = true
	}
	for i := range out.dependants {
		d := &out.dependants[i]
		state := p.stateOf(d, started[i], out)
		if reason, ok := rejected[i]; ok {
			state.State, state.Message = Failed, reason
		}
		r.Dependents = append(r.Dependents, state)
		r.LastRestart = latest(r.LastRestart, d.restartedAt)
	}
	if len(out.restarts) > 0 {
		r.LastRestart = latest(r.LastRestart, out.restarts[0].record.At)
	}
	r.Condition = p.condition(out, r.Dependents)
	return r
}

// stateOf is the state of one dependant after the plan was executed.
func (p *evaluation) stateOf(d *dependant, started bool, out *plan) Dependent {
	s := Dependent{Kind: d.Kind, Name: d.Name, Hash: shortHash(d.runs)}
	switch {
	case d.cacheBehind:
		s.State, s.Hash = Restarting, shortHash(d.wanted)
	case started:
		s.Hash = shortHash(d.renamed)
		s.State, s.Message = afterRestart(d)
	case d.need == needContents:
		s.State, s.Message = Pending, d.missingInput
	case d.need == needRestart:
		s.State, s.Message = Pending, holdMessage(out.hold)
	case d.need == needRecord:
		s.State = UpToDate
		if !p.policy.Disabled {
			s.Hash = shortHash(d.wanted)
		}
	default:
		s.State, s.Message = p.rolling(d)
	}
	return s
}

// rolling is the state of a dependant whose template refers to the published contents.
func (p *evaluation) rolling(d *dependant) (State, string) {
	switch {
	case p.stuck(d):
		return Failed, d.failureMessage()
	case d.restartedByOwner() && d.Progress.Phase == Manual:
		return Paused, d.Progress.Manual
	case p.inProgress(d):
		return Restarting, ""
	default:
		return UpToDate, ""
	}
}

func afterRestart(d *dependant) (State, string) {
	switch {
	case d.Progress.Pods == 0:
		return UpToDate, ""
	case d.Progress.Manual != "":
		return Paused, d.Progress.Manual
	default:
		return Restarting, ""
	}
}

// failureMessage says why a rollout failed.
func (d *dependant) failureMessage() string {
	if d.Progress.Message != "" {
		return d.Progress.Message
	}
	return "the rollout made no progress before its deadline"
}

func holdMessage(g hold) string {
	switch g {
	case holdDisabled:
		return "runs the previous contents; strategy None restarts nothing"
	case holdFailed:
		return "pending: another restart failed"
	case holdDebounce:
		return "pending: debouncing changes"
	case holdWindow:
		return "pending: outside the rollout window"
	case holdNone:
	}
	return "pending: other restarts are in progress"
}

// condition summarizes the dependents. The most severe problem sets the reason.
func (p *evaluation) condition(out *plan, dependents []Dependent) metav1.Condition {
	in := func(state State) []Dependent {
		return slices.DeleteFunc(slices.Clone(dependents), func(d Dependent) bool { return d.State != state })
	}
	failed, pending, restarting, manual := in(Failed), in(Pending), in(Restarting), in(Paused)
	progress := fmt.Sprintf("%d of %d workloads run this configuration", len(in(UpToDate)), len(dependents))
	switch {
	case out.hold == holdDisabled:
		return yes(configv1.ReasonRestartsDisabled, "strategy None: no workload is restarted")
	case len(dependents) == 0:
		return yes(configv1.ReasonNoDependents, "no workload uses this configuration")
	case len(failed) > 0:
		return no(configv1.ReasonRolloutFailed, names(failed)+": "+failed[0].Message+
			"; no other workload is restarted until this one recovers or the configuration changes")
	case len(restarting) > 0:
		return no(configv1.ReasonRollingOut, progress+"; restarting "+names(restarting))
	case len(pending) > 0:
		return p.pending(out, pending, progress)
	case len(manual) > 0:
		return no(configv1.ReasonManualRestart, names(manual)+" "+manual[0].Message)
	default:
		return yes(configv1.ReasonRolledOut, progress)
	}
}

func yes(reason, message string) metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionTrue, Reason: reason, Message: message}
}

func no(reason, message string) metav1.Condition {
	return metav1.Condition{Status: metav1.ConditionFalse, Reason: reason, Message: message}
}

// pending is the condition while dependants are pending and no restart is in progress.
func (p *evaluation) pending(out *plan, pending []Dependent, progress string) metav1.Condition {
	switch {
	case !slices.ContainsFunc(out.dependants, func(d dependant) bool { return d.need == needRestart }):
		return no(configv1.ReasonKeyMissing, names(pending)+" "+pending[0].Message)
	case out.hold == holdDebounce:
		return no(configv1.ReasonDebouncing, progress+"; restarts begin when nothing has changed for "+p.policy.Debounce.String())
	case out.hold == holdWindow:
		return no(configv1.ReasonWaitingForWindow, progress+"; "+windowMessage(out.until))
	default:
		return no(configv1.ReasonRollingOut, progress+"; next is "+names(pending[:1]))
	}
}

// eventText is the event's text when a wave of restarts begins with this plan: no workload was restarted for the published contents yet.
func (p *evaluation) eventText(out *plan) string {
	waiting := 0
	for i := range out.dependants {
		switch d := &out.dependants[i]; {
		case d.need == needRestart:
			waiting++
		case d.record != nil && !d.record.Adopted && !d.record.At.Before(p.publishedAt(d.uses)):
			return ""
		}
	}
	if waiting == 0 {
		return ""
	}
	return fmt.Sprintf("the configuration changed: restarting %d of %d workloads, at most %d at a time",
		waiting, len(out.dependants), max(1, p.policy.MaxConcurrent))
}

func windowMessage(at time.Time) string {
	if at.IsZero() {
		return "the rollout window never opens: correct its schedule"
	}
	return "restarts begin when the rollout window opens at " + at.UTC().Format(time.RFC3339)
}

// names lists dependants in a message.
func names(of []Dependent) string {
	var text []string
	for _, d := range of[:min(len(of), maxNamed)] {
		text = append(text, d.Kind+" "+d.Name)
	}
	if more := len(of) - maxNamed; more > 0 {
		text = append(text, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(text, ", ")
}
