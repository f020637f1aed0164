package rollout

import (
	"cmp"
	"slices"
	"time"
)

// plan is what one pass does, and what it then reports.
type plan struct {
	// notes are written to the workload alone.
	notes []action
	// restarts are written to the workload and its pod template, in this order.
	restarts   []action
	dependants []dependant
	// gate is why no restart may start; gateOpen if one may.
	gate gate
	// opens is when the gate opens by itself; zero if it never does.
	opens time.Time
	wake  time.Duration
}

// action is a write to a workload.
type action struct {
	at   int // index in plan.dependants
	note note
	// renames go with restarts.
	renames map[rename]string
}

// gate says what keeps all restarts of an owner from starting.
type gate int

const (
	gateOpen gate = iota
	gateDisabled
	gateFailed
	gateDebounce
	gateWindow
)

// decide plans a pass over the dependants. remembered is what the memory holds of each.
func (p *pass) decide(workloads []*Workload, remembered func(*Workload) recollection) plan {
	workloads = slices.SortedFunc(slices.Values(workloads), compareWorkloads)
	var out plan
	for _, w := range workloads {
		if !w.deleting {
			out.dependants = append(out.dependants, p.judge(w, remembered(w)))
		}
	}
	if p.policy.Disabled {
		out.gate = gateDisabled
		return out
	}
	p.planNotes(&out)
	p.findGate(&out)
	p.planRestarts(&out)
	for i := range out.dependants {
		if d := &out.dependants[i]; p.underWay(d) && !d.behind && !d.Progress.deadline {
			out.wakeAt(p.now, p.deadline(d))
		}
	}
	return out
}

// planNotes plans the notes of what is found, and of what was completed. Those of a workload that somebody keeps changing
// are written no faster than it may be restarted.
func (p *pass) planNotes(out *plan) {
	for i := range out.dependants {
		d := &out.dependants[i]
		switch {
		case d.behind:
		case d.verdict == adopt:
			if next, early := p.within(d.noted, p.policy.MinInterval); early && !p.before {
				out.wakeAt(p.now, next)
				continue
			}
			out.notes = append(out.notes, action{at: i, note: p.adopt(d, d.wanted)})
		case p.before && p.mixed(d):
			out.notes = append(out.notes, action{at: i, note: p.adopt(d, unknown(d.wanted))})
		case d.Progress.forgets && d.ours() && d.Progress.Phase == Complete:
			out.notes = append(out.notes, action{at: i, note: d.note.done()})
		}
	}
}

func (p *pass) adopt(d *dependant, hash string) note {
	return adopted(hash, d.templates[p.owner.annotation()], d.restarted, p.now).of(p.version())
}

// version is that of the one object which Fettle does not publish, and which is then all there is.
func (p *pass) version() string {
	if len(p.published) != 1 {
		return ""
	}
	return p.published[0].Version
}

// mixed reports whether some pods of d, which is to be restarted, may run what is published, and others what it replaced: a
// user may have started them anew, or they crashed or moved. Then no contents are those that d runs, and a change back to
// what is noted must not count as none.
func (p *pass) mixed(d *dependant) bool {
	if d.verdict != restart || len(d.renames) > 0 || (d.runs != "" && d.runs == unknown(d.runs)) {
		return false
	}
	if at, ok := p.last.editedSince(d); ok {
		return p.startedSince(d, at)
	}
	at := p.publishedAt(d.uses)
	return d.runs == "" || !d.changed.Before(at) || p.now.Sub(at) > uncertainty
}

// startedSince reports whether pods of d may have been started since others changed what is published: all times but now are the
// API server's, to the second. Where its clock says that this was long ago, or is yet to come, anything may have happened since.
func (p *pass) startedSince(d *dependant, at time.Time) bool {
	rolling := d.Progress.Phase != Complete || !d.changed.Before(at) || d.Progress.since.After(at)
	return rolling || p.now.Sub(at) > uncertainty || at.Sub(p.now) > coverage
}

// findGate finds what keeps all restarts from starting.
func (p *pass) findGate(out *plan) {
	if slices.ContainsFunc(out.dependants, func(d dependant) bool { return d.verdict == nothing && p.stuck(&d) }) {
		out.gate = gateFailed
		return
	}
	var last time.Time
	for i := range p.published {
		if at, first := parseStamp(p.published[i].Stamp); !first {
			last = latest(last, at)
		}
	}
	if settled, early := p.within(last, p.policy.Debounce); early {
		out.gate, out.opens = gateDebounce, settled
		return
	}
	if open, wait := p.policy.Window.open(p.now); !open {
		out.gate = gateWindow
		if wait > 0 {
			out.opens = p.now.Add(wait)
		}
	}
}

// planRestarts chooses who is restarted now.
func (p *pass) planRestarts(out *plan) {
	candidates, places := p.candidates(out)
	for _, i := range candidates {
		d := &out.dependants[i]
		if !p.mayStart(out, d) {
			continue
		}
		switch has := p.underWay(d); {
		case !p.needsPlace(d), has && places >= 0:
		case !has && places > 0:
			places--
		default:
			continue
		}
		out.restarts = append(out.restarts, action{at: i, note: restarted(d.renamed, p.now).of(p.version()), renames: d.renames})
	}
}

// candidates are those that are to be restarted, in the order in which they are, and how many places are left.
func (p *pass) candidates(out *plan) (candidates []int, places int) {
	places = max(1, p.policy.MaxConcurrent)
	for i := range out.dependants {
		d := &out.dependants[i]
		if p.underWay(d) {
			places--
		}
		if d.verdict == restart && !d.behind {
			candidates = append(candidates, i)
		}
	}
	slices.SortStableFunc(candidates, func(a, b int) int {
		return cmp.Compare(p.rank(&out.dependants[a]), p.rank(&out.dependants[b]))
	})
	return candidates, places
}

// mayStart reports whether the gate and the interval let d be restarted now. If not, it asks for a pass when they do.
func (p *pass) mayStart(out *plan, d *dependant) bool {
	next, early := p.within(d.restarted, p.policy.MinInterval)
	switch {
	case out.gate != gateOpen && !d.dangling:
		if !out.opens.IsZero() {
			out.wakeAt(p.now, out.opens)
		}
		return false
	case early:
		out.wakeAt(p.now, next)
		return false
	default:
		return true
	}
}

// needsPlace reports whether the restart of d takes one of the places of Policy.MaxConcurrent. One that can't start its pods,
// or has none, or waits for a person, disturbs nobody.
func (p *pass) needsPlace(d *dependant) bool {
	return !d.dangling && d.Progress.Manual == "" && d.Progress.Pods > 0
}

// rank puts first what the change may cure, then what has its place already.
func (p *pass) rank(d *dependant) int {
	switch {
	case d.dangling:
		return 0
	case p.stuck(d):
		return 1
	case p.underWay(d):
		return 2
	default:
		return 3
	}
}

// within reports whether now is within span after that time, and when it ends. A time in the future is that of a clock which
// is or was wrong: it must not hold anything back for long.
func (p *pass) within(at time.Time, span time.Duration) (time.Time, bool) {
	end := at.Add(span)
	return end, !at.IsZero() && p.now.Before(end) && at.Sub(p.now) <= uncertainty
}

// wakeAt asks for a pass at that time, if none is asked for before.
func (out *plan) wakeAt(now, at time.Time) {
	if wait := max(at.Sub(now), time.Millisecond); out.wake == 0 || wait < out.wake {
		out.wake = wait
	}
}
