package rollout

import (
	"cmp"
	"slices"
	"time"
)

// plan is the set of writes of one reconcile, and the input of its report.
type plan struct {
	// records are written to the workload alone.
	records []action
	// restarts are written to the workload and its pod template, in this order.
	restarts   []action
	dependants []dependant
	// hold is why no restart may start; holdNone if one may.
	hold hold
	// until is when the hold ends; zero if it ends only by a change.
	until        time.Time
	requeueAfter time.Duration
}

// action is a write to a workload.
type action struct {
	at     int // index in plan.dependants
	record record
	// renames are set for restarts only.
	renames map[rename]string
}

// hold is the reason why no restart of an owner may start.
type hold int

const (
	holdNone hold = iota
	holdDisabled
	holdFailed
	holdDebounce
	holdWindow
)

// decide plans a reconcile of the dependants. lastWrite returns the remembered write to each.
func (p *evaluation) decide(workloads []*Workload, lastWrite func(*Workload) lastWrite) plan {
	workloads = slices.SortedFunc(slices.Values(workloads), compareWorkloads)
	var out plan
	for _, w := range workloads {
		if !w.deleting {
			out.dependants = append(out.dependants, p.evaluate(w, lastWrite(w)))
		}
	}
	if p.policy.Disabled {
		out.hold = holdDisabled
		return out
	}
	p.planRecords(&out)
	p.findHold(&out)
	p.planRestarts(&out)
	for i := range out.dependants {
		if d := &out.dependants[i]; p.inProgress(d) && !d.cacheBehind && !d.Progress.deadline {
			out.requeueAt(p.now, p.deadline(d))
		}
	}
	return out
}

// planRecords plans the records of running contents and of completed restarts. If another client keeps changing a workload, its records are
// written no faster than it may be restarted.
func (p *evaluation) planRecords(out *plan) {
	for i := range out.dependants {
		d := &out.dependants[i]
		switch {
		case d.cacheBehind:
		case d.need == needRecord:
			if next, early := p.within(d.recordedAt, p.policy.MinInterval); early && !p.beforeChange {
				out.requeueAt(p.now, next)
				continue
			}
			out.records = append(out.records, action{at: i, record: p.baseline(d, d.wanted)})
		case p.beforeChange && p.mixedPods(d):
			out.records = append(out.records, action{at: i, record: p.baseline(d, unknownContents(d.wanted))})
		case d.Progress.resetsOnPodFailure && d.restartedByOwner() && d.Progress.Phase == Complete:
			out.records = append(out.records, action{at: i, record: d.record.withDone()})
		}
	}
}

func (p *evaluation) baseline(d *dependant, hash string) record {
	return baselineRecord(hash, d.templates[p.owner.annotation()], d.restartedAt, p.now).withVersion(p.version())
}

// version is the version of the only object, which Fettle does not publish; "" otherwise.
func (p *evaluation) version() string {
	if len(p.published) != 1 {
		return ""
	}
	return p.published[0].Version
}

// mixedPods reports whether some pods of d, which needs a restart, may run the published contents and others the previous contents. A user
// may have restarted some pods, or pods crashed or moved. No hash then describes the running contents, and a revert to the recorded
// contents must count as a change.
func (p *evaluation) mixedPods(d *dependant) bool {
	if d.need != needRestart || len(d.renames) > 0 || (d.runs != "" && d.runs == unknownContents(d.runs)) {
		return false
	}
	if at, ok := p.lastIntact.editedSince(d); ok {
		return p.startedSince(d, at)
	}
	at := p.publishedAt(d.uses)
	return d.runs == "" || !d.changed.Before(at) || p.now.Sub(at) > clockSkew
}

// startedSince reports whether pods of d may have started since a foreign edit. All times except now are the API server's, to the second.
// An edit that its clock puts far in the past or in the future proves nothing, so the answer is true.
func (p *evaluation) startedSince(d *dependant, at time.Time) bool {
	rolling := d.Progress.Phase != Complete || !d.changed.Before(at) || d.Progress.since.After(at)
	return rolling || p.now.Sub(at) > clockSkew || at.Sub(p.now) > startLag
}

// findHold sets the reason why no restart may start.
func (p *evaluation) findHold(out *plan) {
	if slices.ContainsFunc(out.dependants, func(d dependant) bool { return d.need == needNothing && p.stuck(&d) }) {
		out.hold = holdFailed
		return
	}
	var last time.Time
	for i := range p.published {
		if at, first := parsePublishedAt(p.published[i].PublishedAt); !first {
			last = latest(last, at)
		}
	}
	if settled, early := p.within(last, p.policy.Debounce); early {
		out.hold, out.until = holdDebounce, settled
		return
	}
	if open, wait := p.policy.Window.open(p.now); !open {
		out.hold = holdWindow
		if wait > 0 {
			out.until = p.now.Add(wait)
		}
	}
}

// planRestarts chooses the workloads to restart now.
func (p *evaluation) planRestarts(out *plan) {
	candidates, slots := p.candidates(out)
	for _, i := range candidates {
		d := &out.dependants[i]
		if !p.mayStart(out, d) {
			continue
		}
		switch has := p.inProgress(d); {
		case !p.needsSlot(d), has && slots >= 0:
		case !has && slots > 0:
			slots--
		default:
			continue
		}
		out.restarts = append(out.restarts, action{at: i, record: restartRecord(d.renamed, p.now).withVersion(p.version()), renames: d.renames})
	}
}

// candidates returns the dependants to restart, in order, and the number of free slots.
func (p *evaluation) candidates(out *plan) (candidates []int, slots int) {
	slots = max(1, p.policy.MaxConcurrent)
	for i := range out.dependants {
		d := &out.dependants[i]
		if p.inProgress(d) {
			slots--
		}
		if d.need == needRestart && !d.cacheBehind {
			candidates = append(candidates, i)
		}
	}
	slices.SortStableFunc(candidates, func(a, b int) int {
		return cmp.Compare(p.priority(&out.dependants[a]), p.priority(&out.dependants[b]))
	})
	return candidates, slots
}

// mayStart reports whether the hold and the interval allow a restart of d now. If not, it requests a reconcile for the time when they do.
func (p *evaluation) mayStart(out *plan, d *dependant) bool {
	next, early := p.within(d.restartedAt, p.policy.MinInterval)
	switch {
	case out.hold != holdNone && !d.brokenRef:
		if !out.until.IsZero() {
			out.requeueAt(p.now, out.until)
		}
		return false
	case early:
		out.requeueAt(p.now, next)
		return false
	default:
		return true
	}
}

// needsSlot reports whether the restart of d takes a slot of Policy.MaxConcurrent. A workload that cannot start its pods, has none, or
// waits for a person takes no slot.
func (p *evaluation) needsSlot(d *dependant) bool {
	return !d.brokenRef && d.Progress.Manual == "" && d.Progress.Pods > 0
}

// priority puts first the workloads that the change may repair, then the workloads that hold a slot.
func (p *evaluation) priority(d *dependant) int {
	switch {
	case d.brokenRef:
		return 0
	case p.stuck(d):
		return 1
	case p.inProgress(d):
		return 2
	default:
		return 3
	}
}

// within reports whether now is within span after that time, and when the span ends. A time in the future comes from a wrong clock and must
// not delay a restart for long.
func (p *evaluation) within(at time.Time, span time.Duration) (time.Time, bool) {
	end := at.Add(span)
	return end, !at.IsZero() && p.now.Before(end) && at.Sub(p.now) <= clockSkew
}

// requeueAt requests a reconcile at that time, unless an earlier one is requested.
func (out *plan) requeueAt(now, at time.Time) {
	if wait := max(at.Sub(now), time.Millisecond); out.requeueAfter == 0 || wait < out.requeueAfter {
		out.requeueAfter = wait
	}
}
