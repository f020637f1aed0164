package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/fettle-dev/fettle/internal/digest"
)

const (
	// clockSkew is the span around a publication or a restart in which clocks and caches cannot tell the order of events.
	clockSkew = 10 * time.Second
	// startLag is how long after a publication pods must start to be sure to read it.
	startLag = 3 * time.Second
	// creationGrace is how long CreatedWithAnnotation counts. A record that another client removes later causes no restart.
	creationGrace = time.Hour
	// defaultDeadline is the default of Policy.ProgressDeadline.
	defaultDeadline = 10 * time.Minute
)

// evaluation holds the inputs of one decision.
type evaluation struct {
	now       time.Time
	owner     Owner
	policy    Policy
	published []Object
	// key is the key for digests; nil if no Secret is published.
	key digest.Key
	// beforeChange is true if published is about to be replaced. Running contents that are not recorded then are lost.
	beforeChange bool
	// lastIntact is the last intact state; nil if there is none.
	lastIntact *intactState
}

// need is what a dependant needs.
type need int

const (
	needNothing need = iota
	// needRecord: record what it runs.
	needRecord
	// needRestart: its pods run other contents, or may do so.
	needRestart
	// needContents: it needs contents that are not published.
	needContents
)

// dependant is a workload that uses published objects, and its state.
type dependant struct {
	*Workload
	uses []use
	// wanted is the hash of the published contents under the names in the current template; renamed under the names after a restart.
	wanted, renamed string
	// renames are the names to replace, by kind and name; empty if all are right.
	renames map[rename]string
	// brokenRef is true if a reference names a version that does not exist.
	brokenRef bool
	// runs is the hash of the contents that its pods are known to run, under the names in the current template; "" if unknown.
	runs   string
	record *record
	// rekeyed is true if runs is unknown because it was recorded with another digest key.
	rekeyed bool
	// recordedAt is when the last record was written, valid or not. restartedAt is when the last known restart was written.
	recordedAt, restartedAt time.Time
	// ownWriteAt is when this process last wrote to it; zero if it did not.
	ownWriteAt time.Time
	// cacheBehind is true if the cache does not show this package's last write to it.
	cacheBehind bool

	need need
	// missingInput is set with needContents.
	missingInput string
}

// rename is a name in the references of a pod template.
type rename struct{ kind, name string }

// evaluate determines what w needs.
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

// needOf returns what d needs. All other fields of d are set.
func (p *evaluation) needOf(d *dependant) need {
	switch missing := d.missing(); {
	case d.current():
		return needNothing
	case missing != "":
		d.missingInput = missing
		return needContents
	case d.rekeyed && !d.refersToWrongName():
		return needRecord // whatever that digest was: an upgrade or the loss of the key restarts nothing
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

// current reports whether the pods are known to run the published contents under names that may stay.
func (d *dependant) current() bool { return sameContent(d.runs, d.wanted) && !d.refersToWrongName() }

// refersToWrongName reports whether a reference must be replaced in any case: its version does not exist, or its name belongs to the other
// mode.
func (d *dependant) refersToWrongName() bool {
	return d.brokenRef || slices.ContainsFunc(d.uses, func(u use) bool {
		return u.referred && u.object.Exists && u.name != u.object.Name && (!u.object.Versioned || u.name == u.object.Target)
	})
}

// findRenames compares the names in references with the names of the current objects.
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

// renameUses returns the uses of d after the renames.
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

// missing describes the contents that pods of d cannot start without; "" if none are missing.
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

// uncertain reports whether d may run older contents although it has no record. One case: it was created or changed so close to a
// publication that its pods may have read the previous contents, or none if they are optional. The other: another client removed the record
// but kept the template's annotation, so the pods went on. A record that was written after the publication and is gone now raises no doubt.
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

// createdWith is the version of the object when d was created; "" if it is unknown, too long ago, or recorded since.
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

// restartedSince reports whether d was restarted for another owner after all objects that it uses were published.
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

// publishedAt is when the last of the used objects was published.
func (p *evaluation) publishedAt(uses []use) time.Time {
	var last time.Time
	for _, u := range uses {
		at, _ := parsePublishedAt(u.object.PublishedAt)
		last = latest(last, at)
	}
	return last
}

// restartedByOwner reports whether this owner's restart began the current rollout of d: the template has not changed since, and no
// reconcile saw the rollout complete.
func (d *dependant) restartedByOwner() bool {
	if d.record == nil || d.record.Done || d.record.template() == "" || d.record.restartedAt().IsZero() {
		return false
	}
	return !d.changed.After(d.record.restartedAt().Add(clockSkew))
}

// inProgress reports whether d takes a slot of Policy.MaxConcurrent. If another client removed the record of a restart, the template's
// annotation decides.
func (p *evaluation) inProgress(d *dependant) bool {
	unrecorded := d.record == nil && d.runs != ""
	return d.cacheBehind || ((d.restartedByOwner() || unrecorded) && d.Progress.Phase == InProgress && p.now.Before(p.deadline(d)))
}

// stuck reports whether the restart of d failed.
func (p *evaluation) stuck(d *dependant) bool {
	return !d.cacheBehind && d.restartedByOwner() && (d.Progress.Phase == Stuck || (d.Progress.Phase == InProgress && !p.now.Before(p.deadline(d))))
}

// deadline is when a rollout counts as failed if the workload's controller never reports failure. It is reached after no report for as long
// as one pod may take, and at the latest after that time for each pod. A Deployment has no deadline here.
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
