package rollout

import (
	"bytes"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A change that others make of what is published is repaired, and concerns only pods that were started before it was. When it was
// made, the API server notes, for each who did, in managedFields: of the last change, to the second, and not at all of one that
// only removed keys. So that time counts only where this process has seen in the pass before that all was as published.

// TrimManagedFields reduces the managedFields of a published object to what [Edited] reads. It accepts what it returned before.
func TrimManagedFields(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	var kept []metav1.ManagedFieldsEntry
	for i := range entries {
		if e := &entries[i]; ownsContents(e) {
			kept = append(kept, metav1.ManagedFieldsEntry{Manager: e.Manager, Operation: e.Operation, Time: e.Time})
		}
	}
	return kept
}

func ownsContents(e *metav1.ManagedFieldsEntry) bool {
	if e.FieldsV1 == nil {
		return true // reduced before
	}
	raw := e.FieldsV1.GetRawBytes()
	return bytes.Contains(raw, []byte(`"f:data":`)) || bytes.Contains(raw, []byte(`"f:binaryData":`))
}

// ForeignEditTime returns when somebody else than fieldOwner, who applies them, last changed the contents of an object, to the second, by
// its managedFields; zero if nobody is known to have.
func ForeignEditTime(entries []metav1.ManagedFieldsEntry, fieldOwner string) time.Time {
	var last time.Time
	for i := range entries {
		e := &entries[i]
		own := e.Manager == fieldOwner && e.Operation == metav1.ManagedFieldsOperationApply
		if !own && e.Time != nil && ownsContents(e) {
			last = latest(last, e.Time.Time)
		}
	}
	return last
}

// objectID names an object that is published.
type objectID struct{ kind, name string }

// objectState tells contents of an object from others, as far as its metadata does.
type objectState struct {
	publishedAt string
	edited      time.Time
}

// intactState is what the last pass knew that found all as it was published.
type intactState struct {
	objects map[objectID]objectState
	// runs has the hash of each dependant that ran what was published.
	runs map[workloadID]string
	// edits are the first changes of others since, by object, and unseen is true where there was one of unknown time.
	edits       map[objectID]time.Time
	untimedEdit bool
	// current is false once a pass has begun that has not come to look yet.
	current bool
}

// editedSince returns since when d may find something else than what it runs, because others changed what is published; false
// where that is not known, or not why.
func (i *intactState) editedSince(d *dependant) (time.Time, bool) {
	if i == nil || i.untimedEdit || d.runs == "" || i.runs[idOf(d.Workload)] != d.runs {
		return time.Time{}, false
	}
	var first time.Time
	for _, u := range d.uses {
		id := objectID{u.object.Kind, u.object.Name}
		if i.objects[id].publishedAt != u.object.PublishedAt {
			return time.Time{}, false // published anew since
		}
		if at, ok := i.edits[id]; ok && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first, !first.IsZero()
}

// recordEdits takes down what others have changed by now.
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

// driftTracker holds for each owner what the last pass saw. Losing it costs a restart that may not have been needed.
type driftTracker struct {
	mu     sync.Mutex
	owners map[Owner]*intactState
}

func newDriftTracker() *driftTracker { return &driftTracker{owners: map[Owner]*intactState{}} }

// begin notes that a pass begins. What the passes before saw counts only if the last of them came to look.
func (s *driftTracker) begin(owner Owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.owners[owner]; i != nil && i.current {
		i.current = false
	} else {
		delete(s.owners, owner)
	}
}

// recordIntact notes what a pass saw that found all as published.
func (s *driftTracker) recordIntact(owner Owner, objects []Object, dependants []dependant) {
	i := &intactState{objects: map[objectID]objectState{}, runs: map[workloadID]string{}, edits: map[objectID]time.Time{}, current: true}
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

// recordDrift notes that what is published is not as it should be, and returns what is known of the time before; nil if nothing.
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
