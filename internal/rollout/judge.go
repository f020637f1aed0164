package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fettle-dev/fettle/internal/digest"
)

const (
	// uncertainty is the span around a publication, or around a restart, in which the clocks and caches involved don't tell
	// what came first.
	uncertainty = 10 * time.Second
	// coverage is how much later than a publication pods must be started to be sure to find it.
	coverage = 3 * time.Second
	// youth is how long CreatedWithAnnotation counts: notes that somebody removes later are no reason for a restart.
	youth = time.Hour
	// defaultDeadline is that of Policy.ProgressDeadline.
	defaultDeadline = 10 * time.Minute
)

// pass is all that one decision is made from.
type pass struct {
	now       time.Time
	owner     Owner
	policy    Policy
	published []Object
	// key is that of digests; nil where no Secret is published.
	key digest.Key
	// before is true where published is about to be replaced. What is not noted then can never be known.
	before bool
	// last is what is known from before that; nil if nothing is.
	last *intact
}

// verdict is what a dependant needs.
type verdict int

const (
	nothing verdict = iota
	// adopt: note what it runs.
	adopt
	// restart: its pods run something else, or that can't be excluded.
	restart
	// wait: it needs what is not published.
	wait
)

// dependant is a workload that uses what is published, and what is known about it.
type dependant struct {
	*Workload
	uses []use
	// wanted is the hash of what is published, under the names that the template has now and would have after a restart.
	wanted, renamed string
	// renames are the names to replace, by kind and name; empty where all are right.
	renames map[rename]string
	// dangling is true where a reference leads nowhere because its version is gone, or never was.
	dangling bool
	// runs is the hash of what its pods are known to run, under the names that the template has now; "" if unknown.
	runs string
	note *note
	// rekeyed is true where runs is not known because it was noted with another digest key.
	rekeyed bool
	// noted is when the last note was written, valid or not, and restarted when the last restart was, as far as is known.
	noted, restarted time.Time
	// remembered is when this process last wrote to it; zero if it did not.
	remembered time.Time
	// behind is true where the cache does not show this package's last write to it.
	behind bool

	verdict verdict
	// reason goes with wait.
	reason string
}

// rename is a name in the references of a pod template.
type rename struct{ kind, name string }

// judge finds out what w needs.
func (p *pass) judge(w *Workload, r recollection) dependant {
	d := dependant{Workload: w, behind: r.behind, noted: r.noted, remembered: r.noted, uses: p.owner.usesOf(w, p.published)}
	d.findRenames()
	d.wanted = hashOf(p.key, p.owner, d.uses)
	d.renamed = d.wanted
	if len(d.renames) > 0 {
		d.renamed = hashOf(p.key, p.owner, p.renameUses(&d))
	}
	if d.runs, d.note = p.owner.runs(w); !sameUse(d.runs, d.wanted) {
		d.rekeyed = rekeyed(d.runs, d.wanted)
		d.runs, d.note = "", nil
	}
	if last := parseNote(w.notes[p.owner.annotation()]); last != nil {
		d.noted, d.restarted = last.At, last.restart()
	} else if w.templates[p.owner.annotation()] != "" {
		d.restarted = r.noted
	}
	d.verdict = p.verdict(&d)
	return d
}

// verdict of a dependant of which all else is known.
func (p *pass) verdict(d *dependant) verdict {
	switch missing := d.missing(); {
	case d.current():
		return nothing
	case missing != "":
		d.reason = missing
		return wait
	case d.rekeyed && !d.misplaced():
		return adopt // whatever that digest was of: neither an upgrade nor the loss of the key restarts anybody
	case len(d.renames) > 0 && (d.runs == "" || d.misplaced()):
		return restart
	case p.covered(d):
		return adopt
	case d.runs != "", p.doubtful(d):
		return restart
	default:
		return adopt
	}
}

// current reports whether the pods are known to run what is published, under names that may stay.
func (d *dependant) current() bool { return sameContent(d.runs, d.wanted) && !d.misplaced() }

// misplaced reports whether a reference must not stay as it is, whatever it leads to: it leads nowhere, or it has a name of
// the other mode.
func (d *dependant) misplaced() bool {
	return d.dangling || slices.ContainsFunc(d.uses, func(u use) bool {
		return u.referred && u.object.Exists && u.name != u.object.Name && (!u.object.Versioned || u.name == u.object.Target)
	})
}

// findRenames compares the names in references with those of the current objects.
func (d *dependant) findRenames() {
	for _, u := range d.uses {
		if !u.referred || u.name == u.object.Name || !u.object.Exists {
			continue
		}
		if d.renames == nil {
			d.renames = map[rename]string{}
		}
		d.renames[rename{u.object.Kind, u.name}] = u.object.Name
		d.dangling = d.dangling || !slices.Contains(u.object.Versions, u.name)
	}
}

// renameUses returns what d uses once it is renamed.
func (p *pass) renameUses(d *dependant) []use {
	w := *d.Workload
	w.References = nil
	for _, ref := range d.References {
		if name, ok := d.renames[rename{ref.Kind, ref.Name}]; ok {
			ref.Name = name
		}
		w.References = append(w.References, ref)
	}
	w.References = compact(w.References)
	return p.owner.usesOf(&w, p.published)
}

// missing says what pods of d could not start without; "" if nothing.
func (d *dependant) missing() string {
	if !slices.ContainsFunc(d.uses, func(u use) bool { return u.referred || u.optional || u.object.Exists }) {
		return "waits for the first contents"
	}
	for _, u := range d.uses {
		switch _, found := u.object.Data[u.key]; {
		case !u.referred || u.optional:
		case !u.object.Exists:
			return fmt.Sprintf("needs %s %q, which is not published", u.object.Kind, u.object.Target)
		case u.key != "" && !found:
			return fmt.Sprintf("needs key %q of %s %q, which is not published", u.key, u.object.Kind, u.object.Target)
		}
	}
	return ""
}

// doubtful reports whether d, of which nothing is known, was made or changed so close to a publication that its pods may
// have found what was published before, or nothing where they can do without; or whether something was known, but somebody
// removed the note of it and not the template's annotation, so that its pods went on. That its note is gone which was written
// after the publication raises no doubt.
func (p *pass) doubtful(d *dependant) bool {
	if !d.remembered.IsZero() && !d.remembered.Before(p.publishedAt(d.uses)) {
		return false
	}
	if key := p.owner.annotation(); d.templates[key] != "" && parseNote(d.notes[key]) == nil {
		return true
	}
	if version := p.createdWith(d); version != "" {
		return version != p.version()
	}
	if d.templates[FormerHashAnnotation] != "" {
		return false // restarted for each publication by the release that annotated it
	}
	return slices.ContainsFunc(d.uses, func(u use) bool {
		at, first := parseStamp(u.object.Stamp)
		after := latest(d.created, d.changed).Sub(at)
		return !at.IsZero() && (!first || u.optional) && -uncertainty <= after && after <= coverage
	})
}

// createdWith is the version of the object with which d was created; "" where that is not known, long ago, or was noted since.
func (p *pass) createdWith(d *dependant) string {
	if !p.owner.plain() || p.now.Sub(d.created) > youth || parseNote(d.notes[p.owner.annotation()]) != nil {
		return ""
	}
	for entry := range strings.SplitSeq(d.notes[CreatedWithAnnotation], ",") {
		if version, ok := strings.CutPrefix(entry, p.owner.token()+"="); ok {
			return version
		}
	}
	return ""
}

// covered reports whether d was restarted for another owner after all that it uses was published.
func (p *pass) covered(d *dependant) bool {
	at := p.publishedAt(d.uses)
	if at.IsZero() || len(d.renames) > 0 {
		return false
	}
	for key, text := range d.notes {
		if n := parseNote(text); key != p.owner.annotation() && n != nil && !n.Adopted && d.templates[key] == n.Hash && n.At.Sub(at) >= coverage {
			return true
		}
	}
	return false
}

// publishedAt is when the last of the objects used was published.
func (p *pass) publishedAt(uses []use) time.Time {
	var last time.Time
	for _, u := range uses {
		at, _ := parseStamp(u.object.Stamp)
		last = latest(last, at)
	}
	return last
}

// ours reports whether the rollout of d is one that this owner's restart began: nobody has changed the template since, and
// it was not seen to be complete.
func (d *dependant) ours() bool {
	if d.note == nil || d.note.Done || d.note.template() == "" || d.note.restart().IsZero() {
		return false
	}
	return !d.changed.After(d.note.restart().Add(uncertainty))
}

// underWay reports whether d takes one of the places of Policy.MaxConcurrent. Where somebody removed the note of a restart,
// the template's annotation has to do.
func (p *pass) underWay(d *dependant) bool {
	unnoted := d.note == nil && d.runs != ""
	return d.behind || ((d.ours() || unnoted) && d.Progress.Phase == InProgress && p.now.Before(p.deadline(d)))
}

// stuck reports whether the restart of d failed.
func (p *pass) stuck(d *dependant) bool {
	return !d.behind && d.ours() && (d.Progress.Phase == Stuck || (d.Progress.Phase == InProgress && !p.now.Before(p.deadline(d))))
}

// deadline is when a rollout counts as failed whose controller never says so: when it has reported nothing for as long as a
// pod may take, or at the latest when that time has passed for each pod. A Deployment has none here.
func (p *pass) deadline(d *dependant) time.Time {
	if d.Progress.deadline {
		return p.now.Add(defaultDeadline)
	}
	each := p.policy.ProgressDeadline
	if each <= 0 {
		each = defaultDeadline
	}
	if d.note == nil {
		return d.Progress.since.Add(each)
	}
	begun := d.note.restart()
	still := latest(begun, d.Progress.since).Add(each)
	if all := begun.Add(each * time.Duration(max(1, d.Progress.Pods)+1)); all.Before(still) {
		return all
	}
	return still
}
