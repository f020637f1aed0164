package rollout

import (
	"cmp"
	"slices"
	"time"
)

// plan is what one pass does, and what it then reports.
type plan struct {
	// records are written to the workload alone.
	records []action
	// restarts are written to the workload and its pod template, in this order.
	restarts   []action
	dependants []dependant
	// hold is why no restart may start; holdNone if one may.
	hold hold
	// until is when the gate opens by itself; zero if it never does.
	until        time.Time
	requeueAfter time.Duration
}

// action is a write to a workload.
type action struct {
	at     int // index in plan.dependants
	record record
	// renames go with restarts.
	renames map[rename]string
}

// hold says what keeps all restarts of an owner from starting.
type hold int

const (
	holdNone hold = iota
	holdDisabled
	holdFailed
	holdDebounce
	holdWindow
)

// decide plans a pass over the dependants. remembered is what the memory holds of each.
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

// planRecords plans the notes of what is found, and of what was completed. Those of a workload that somebody keeps changing
// are written no faster than it may be restarted.
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

// version is that of the one object which Fettle does not publish, and which is then all there is.
func (p *evaluation) version() string {
	if len(p.published) != 1 {
		return ""
	}
	return p.published[0].Version
}

// mixedPods reports whether some pods of d, which is to be restarted, may run what is published, and others what it replaced: a
// user may have started them anew, or they crashed or moved. Then no contents are those that d runs, and a change back to
// what is noted must not count as none.
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

// startedSince reports whether pods of d may have been started since others changed what is published: all times but now are the
// API server's, to the second. Where its clock says that this was long ago, or is yet to come, anything may have happened since.
func (p *evaluation) startedSince(d *dependant, at time.Time) bool {
	rolling := d.Progress.Phase != Complete || !d.changed.Before(at) || d.Progress.since.After(at)
	return rolling || p.now.Sub(at) > clockSkew || at.Sub(p.now) > startLag
}

// findHold finds what keeps all restarts from starting.
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

// planRestarts chooses who is restarted now.
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

// candidates are those that are to be restarted, in the order in which they are, and how many places are left.
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

// mayStart reports whether the gate and the interval let d be restarted now. If not, it asks for a pass when they do.
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

// needsSlot reports whether the restart of d takes one of the places of Policy.MaxConcurrent. One that can't start its pods,
// or has none, or waits for a person, disturbs nobody.
func (p *evaluation) needsSlot(d *dependant) bool {
	return !d.brokenRef && d.Progress.Manual == "" && d.Progress.Pods > 0
}

// priority puts first what the change may cure, then what has its place already.
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

// within reports whether now is within span after that time, and when it ends. A time in the future is that of a clock which
// is or was wrong: it must not hold anything back for long.
func (p *evaluation) within(at time.Time, span time.Duration) (time.Time, bool) {
	end := at.Add(span)
	return end, !at.IsZero() && p.now.Before(end) && at.Sub(p.now) <= clockSkew
}

// requeueAt asks for a pass at that time, if none is asked for before.
func (out *plan) requeueAt(now, at time.Time) {
	if wait := max(at.Sub(now), time.Millisecond); out.requeueAfter == 0 || wait < out.requeueAfter {
		out.requeueAfter = wait
	}
}
