package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fettle-dev/fettle/internal/digest"
)

const (
	// clockSkew is the span around a publication, or around a restart, in which the clocks and caches involved don't tell
	// what came first.
	clockSkew = 10 * time.Second
	// startLag is how much later than a publication pods must be started to be sure to find it.
	startLag = 3 * time.Second
	// creationGrace is how long CreatedWithAnnotation counts: notes that somebody removes later are no reason for a restart.
	creationGrace = time.Hour
	// defaultDeadline is that of Policy.ProgressDeadline.
	defaultDeadline = 10 * time.Minute
)

// evaluation is all that one decision is made from.
type evaluation struct {
	now       time.Time
	owner     Owner
	policy    Policy
	published []Object
	// key is that of digests; nil where no Secret is published.
	key digest.Key
	// beforeChange is true where published is about to be replaced. What is not noted then can never be known.
	beforeChange bool
	// lastIntact is what is known from before that; nil if nothing is.
	lastIntact *intactState
}

// need is what a dependant needs.
type need int

const (
	needNothing need = iota
	// needRecord: note what it runs.
	needRecord
	// needRestart: its pods run something else, or that can't be excluded.
	needRestart
	// needContents: it needs what is not published.
	needContents
)

// dependant is a workload that uses what is published, and what is known about it.
type dependant struct {
	*Workload
	uses []use
	// wanted is the hash of what is published, under the names that the template has now and would have after a restart.
	wanted, renamed string
	// renames are the names to replace, by kind and name; empty where all are right.
	renames map[rename]string
	// brokenRef is true where a reference leads nowhere because its version is gone, or never was.
	brokenRef bool
	// runs is the hash of what its pods are known to run, under the names that the template has now; "" if unknown.
	runs   string
	record *record
	// rekeyed is true where runs is not known because it was noted with another digest key.
	rekeyed bool
	// recordedAt is when the last note was written, valid or not, and restarted when the last restart was, as far as is known.
	recordedAt, restartedAt time.Time
	// ownWriteAt is when this process last wrote to it; zero if it did not.
	ownWriteAt time.Time
	// cacheBehind is true where the cache does not show this package's last write to it.
	cacheBehind bool

	need need
	// missingInput goes with wait.
	missingInput string
}

// rename is a name in the references of a pod template.
type rename struct{ kind, name string }

// evaluate finds out what w needs.
func (p *evaluation) evaluate(w *Workload, r lastWrite) dependant {
	d := dependant{Workload: w, cacheBehind: r.cacheBehind, recordedAt: r.recordedAt, ownWriteAt: r.recordedAt, uses: p.owner.usesOf(w, p.published)}
	d.findRenames()
	d.wanted = hashOf(p.key, p.owner, d.uses)
	d.renamed = d.wanted
	if len(d.renames) > 0 {
		d.renamed = hashOf(p.key, p.owner, p.renameUses(&d))
	}
	if d.runs, d.record = p.owner.runs(w); !sameUse(d.runs, d.wanted) {
		d.rekeyed = rekeyed(d.runs, d.wanted)
		d.runs, d.record = "", nil
	}
	if last := parseRecord(w.records[p.owner.annotation()]); last != nil {
		d.recordedAt, d.restartedAt = last.At, last.restartedAt()
	} else if w.templates[p.owner.annotation()] != "" {
		d.restartedAt = r.recordedAt
	}
	d.need = p.needOf(&d)
	return d
}

// needOf of a dependant of which all else is known.
func (p *evaluation) needOf(d *dependant) need {
	switch missing := d.missing(); {
	case d.current():
		return needNothing
	case missing != "":
		d.missingInput = missing
		return needContents
	case d.rekeyed && !d.refersToWrongName():
		return needRecord // whatever that digest was of: neither an upgrade nor the loss of the key restarts anybody
	case len(d.renames) > 0 && (d.runs == "" || d.refersToWrongName()):
		return needRestart
	case p.restartedSince(d):
		return needRecord
	case d.runs != "", p.uncertain(d):
		return needRestart
	default:
		return needRecord
	}
}

// current reports whether the pods are known to run what is published, under names that may stay.
func (d *dependant) current() bool { return sameContent(d.runs, d.wanted) && !d.refersToWrongName() }

// refersToWrongName reports whether a reference must not stay as it is, whatever it leads to: it leads nowhere, or it has a name of
// the other mode.
func (d *dependant) refersToWrongName() bool {
	return d.brokenRef || slices.ContainsFunc(d.uses, func(u use) bool {
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
		d.brokenRef = d.brokenRef || !slices.Contains(u.object.Versions, u.name)
	}
}

// renameUses returns what d uses once it is renamed.
func (p *evaluation) renameUses(d *dependant) []use {
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
		return "pending: no contents are published yet"
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

// uncertain reports whether d, of which nothing is known, was made or changed so close to a publication that its pods may
// have found what was published before, or nothing where they can do without; or whether something was known, but somebody
// removed the note of it and not the template's annotation, so that its pods went on. That its note is gone which was written
// after the publication raises no doubt.
func (p *evaluation) uncertain(d *dependant) bool {
	if !d.ownWriteAt.IsZero() && !d.ownWriteAt.Before(p.publishedAt(d.uses)) {
		return false
	}
	if key := p.owner.annotation(); d.templates[key] != "" && parseRecord(d.records[key]) == nil {
		return true
	}
	if version := p.createdWith(d); version != "" {
		return version != p.version()
	}
	if d.templates[FormerHashAnnotation] != "" {
		return false // restarted for each publication by the release that annotated it
	}
	return slices.ContainsFunc(d.uses, func(u use) bool {
		at, first := parsePublishedAt(u.object.PublishedAt)
		after := latest(d.created, d.changed).Sub(at)
		return !at.IsZero() && (!first || u.optional) && -clockSkew <= after && after <= startLag
	})
}

// createdWith is the version of the object with which d was created; "" where that is not known, long ago, or was noted since.
func (p *evaluation) createdWith(d *dependant) string {
	if !p.owner.plain() || p.now.Sub(d.created) > creationGrace || parseRecord(d.records[p.owner.annotation()]) != nil {
		return ""
	}
	for entry := range strings.SplitSeq(d.records[CreatedWithAnnotation], ",") {
		if version, ok := strings.CutPrefix(entry, p.owner.token()+"="); ok {
			return version
		}
	}
	return ""
}

// restartedSince reports whether d was restarted for another owner after all that it uses was published.
func (p *evaluation) restartedSince(d *dependant) bool {
	at := p.publishedAt(d.uses)
	if at.IsZero() || len(d.renames) > 0 {
		return false
	}
	for key, text := range d.records {
		if n := parseRecord(text); key != p.owner.annotation() && n != nil && !n.Adopted && d.templates[key] == n.Hash && n.At.Sub(at) >= startLag {
			return true
		}
	}
	return false
}

// publishedAt is when the last of the objects used was published.
func (p *evaluation) publishedAt(uses []use) time.Time {
	var last time.Time
	for _, u := range uses {
		at, _ := parsePublishedAt(u.object.PublishedAt)
		last = latest(last, at)
	}
	return last
}

// restartedByOwner reports whether the rollout of d is one that this owner's restart began: nobody has changed the template since, and
// it was not seen to be complete.
func (d *dependant) restartedByOwner() bool {
	if d.record == nil || d.record.Done || d.record.template() == "" || d.record.restartedAt().IsZero() {
		return false
	}
	return !d.changed.After(d.record.restartedAt().Add(clockSkew))
}

// inProgress reports whether d takes one of the places of Policy.MaxConcurrent. Where somebody removed the note of a restart,
// the template's annotation has to do.
func (p *evaluation) inProgress(d *dependant) bool {
	unrecorded := d.record == nil && d.runs != ""
	return d.cacheBehind || ((d.restartedByOwner() || unrecorded) && d.Progress.Phase == InProgress && p.now.Before(p.deadline(d)))
}

// stuck reports whether the restart of d failed.
func (p *evaluation) stuck(d *dependant) bool {
	return !d.cacheBehind && d.restartedByOwner() && (d.Progress.Phase == Stuck || (d.Progress.Phase == InProgress && !p.now.Before(p.deadline(d))))
}

// deadline is when a rollout counts as failed whose controller never says so: when it has reported nothing for as long as a
// pod may take, or at the latest when that time has passed for each pod. A Deployment has none here.
func (p *evaluation) deadline(d *dependant) time.Time {
	if d.Progress.deadline {
		return p.now.Add(defaultDeadline)
	}
	each := p.policy.ProgressDeadline
	if each <= 0 {
		each = defaultDeadline
	}
	if d.record == nil {
		return d.Progress.since.Add(each)
	}
	begun := d.record.restartedAt()
	stalled := latest(begun, d.Progress.since).Add(each)
	if all := begun.Add(each * time.Duration(max(1, d.Progress.Pods)+1)); all.Before(stalled) {
		return all
	}
	return stalled
}
