package rollout

import (
	"strings"
	"sync"
	"time"

	"github.com/fettle-dev/fettle/internal/apply"
)

// firstPublication ends the annotation of contents that replaced none.
const firstPublication = " first"

// PublishedAt returns the PublishedAnnotation of contents that are about to be written. live is the annotation of the existing object (in
// versioned mode: of the previous version), existed whether there is one, and changed whether the contents differ.
func PublishedAt(live string, existed, changed bool, now time.Time) string {
	at := now.UTC().Format(time.RFC3339)
	switch {
	case !existed:
		return at + firstPublication
	case changed || live == "":
		return at
	default:
		return live
	}
}

// parsePublishedAt returns when contents were published, and whether they were the first. An invalid annotation gives the zero time.
func parsePublishedAt(stamp string) (at time.Time, first bool) {
	text, first := strings.CutSuffix(stamp, firstPublication)
	at, err := time.Parse(time.RFC3339, text)
	return at, err == nil && first
}

// Edits by other clients are reverted. They concern only pods that started before the revert. The API server records the time of each
// client's last change in managedFields, to the second. It records nothing for a client that only removed keys. The times therefore count
// only if this process found all objects intact in the previous reconcile.

// objectID names a published object.
type objectID struct{ kind, name string }

// objectState identifies the contents of an object, as far as its metadata allows.
type objectState struct {
	publishedAt string
	edited      time.Time
}

// intactState is the state of the last reconcile that found all objects as published.
type intactState struct {
	objects map[objectID]objectState
	// runs has the hash of each dependant that ran the published contents.
	runs map[apply.ObjectID]string
	// edits are the first foreign edits since then, by object. untimedEdit is true if an edit left no time.
	edits       map[objectID]time.Time
	untimedEdit bool
	// current is false once a reconcile has begun and has not recorded its result yet.
	current bool
}

// editedSince returns the time since when d may read contents other than those it runs, because of foreign edits. It returns false if the
// time or the cause is not known.
func (i *intactState) editedSince(d *dependant) (time.Time, bool) {
	if i == nil || i.untimedEdit || d.runs == "" || i.runs[idOf(d.Workload)] != d.runs {
		return time.Time{}, false
	}
	var first time.Time
	for _, u := range d.uses {
		id := objectID{u.object.Kind, u.object.Name}
		if i.objects[id].publishedAt != u.object.PublishedAt {
			return time.Time{}, false // published again since
		}
		if at, ok := i.edits[id]; ok && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first, !first.IsZero()
}

// recordEdits records the foreign edits so far.
func (i *intactState) recordEdits(objects []Object) {
	traced := false
	for n := range objects {
		o := &objects[n]
		id := objectID{o.Kind, o.Name}
		if o.ForeignEdit.After(i.objects[id].edited) {
			traced = true
			if _, ok := i.edits[id]; !ok {
				i.edits[id] = o.ForeignEdit
			}
		}
	}
	i.untimedEdit = i.untimedEdit || !traced
}

// driftTracker holds the state of the last reconcile of each owner. Losing it may cost one unnecessary restart.
type driftTracker struct {
	mu     sync.Mutex
	owners map[Owner]*intactState
}

func newDriftTracker() *driftTracker { return &driftTracker{owners: map[Owner]*intactState{}} }

// begin starts a reconcile. The state of earlier reconciles counts only if the last of them recorded its result.
func (s *driftTracker) begin(owner Owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.owners[owner]; i != nil && i.current {
		i.current = false
	} else {
		delete(s.owners, owner)
	}
}

// recordIntact records the state of a reconcile that found all objects as published.
func (s *driftTracker) recordIntact(owner Owner, objects []Object, dependants []dependant) {
	i := &intactState{objects: map[objectID]objectState{}, runs: map[apply.ObjectID]string{}, edits: map[objectID]time.Time{}, current: true}
	for n := range objects {
		i.objects[objectID{objects[n].Kind, objects[n].Name}] = objectState{objects[n].PublishedAt, objects[n].ForeignEdit}
	}
	for n := range dependants {
		if d := &dependants[n]; d.need == needNothing {
			i.runs[idOf(d.Workload)] = d.runs
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.owners[owner] = i
}

// recordDrift records that published objects differ from their desired state. It returns the last intact state, or nil if there is none.
func (s *driftTracker) recordDrift(owner Owner, objects []Object) *intactState {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.owners[owner]
	if i != nil {
		i.current = true
		i.recordEdits(objects)
	}
	return i
}

func (s *driftTracker) forget(owner Owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.owners, owner)
}
