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

// KeepEdits reduces the managedFields of a published object to what [Edited] reads. It accepts what it returned before.
func KeepEdits(entries []metav1.ManagedFieldsEntry) []metav1.ManagedFieldsEntry {
	var kept []metav1.ManagedFieldsEntry
	for i := range entries {
		if e := &entries[i]; ofContents(e) {
			kept = append(kept, metav1.ManagedFieldsEntry{Manager: e.Manager, Operation: e.Operation, Time: e.Time})
		}
	}
	return kept
}

func ofContents(e *metav1.ManagedFieldsEntry) bool {
	if e.FieldsV1 == nil {
		return true // reduced before
	}
	raw := e.FieldsV1.GetRawBytes()
	return bytes.Contains(raw, []byte(`"f:data":`)) || bytes.Contains(raw, []byte(`"f:binaryData":`))
}

// Edited returns when somebody else than fieldOwner, who applies them, last changed the contents of an object, to the second, by
// its managedFields; zero if nobody is known to have.
func Edited(entries []metav1.ManagedFieldsEntry, fieldOwner string) time.Time {
	var last time.Time
	for i := range entries {
		e := &entries[i]
		own := e.Manager == fieldOwner && e.Operation == metav1.ManagedFieldsOperationApply
		if !own && e.Time != nil && ofContents(e) {
			last = latest(last, e.Time.Time)
		}
	}
	return last
}

// objectID names an object that is published.
type objectID struct{ kind, name string }

// sighting tells contents of an object from others, as far as its metadata does.
type sighting struct {
	stamp  string
	edited time.Time
}

// intact is what the last pass knew that found all as it was published.
type intact struct {
	objects map[objectID]sighting
	// runs has the hash of each dependant that ran what was published.
	runs map[workloadID]string
	// edits are the first changes of others since, by object, and unseen is true where there was one of unknown time.
	edits  map[objectID]time.Time
	unseen bool
	// known is false once a pass has begun that has not come to look yet.
	known bool
}

// editedSince returns since when d may find something else than what it runs, because others changed what is published; false
// where that is not known, or not why.
func (i *intact) editedSince(d *dependant) (time.Time, bool) {
	if i == nil || i.unseen || d.runs == "" || i.runs[idOf(d.Workload)] != d.runs {
		return time.Time{}, false
	}
	var first time.Time
	for _, u := range d.uses {
		id := objectID{u.object.Kind, u.object.Name}
		if i.objects[id].stamp != u.object.Stamp {
			return time.Time{}, false // published anew since
		}
		if at, ok := i.edits[id]; ok && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	return first, !first.IsZero()
}

// look takes down what others have changed by now.
func (i *intact) look(objects []Object) {
	traced := false
	for n := range objects {
		o := &objects[n]
		id := objectID{o.Kind, o.Name}
		if o.Edited.After(i.objects[id].edited) {
			traced = true
			if _, ok := i.edits[id]; !ok {
				i.edits[id] = o.Edited
			}
		}
	}
	i.unseen = i.unseen || !traced
}

// sights holds for each owner what the last pass saw. Losing it costs a restart that may not have been needed.
type sights struct {
	mu sync.Mutex
	of map[Owner]*intact
}

func newSights() *sights { return &sights{of: map[Owner]*intact{}} }

// begin notes that a pass begins. What the passes before saw counts only if the last of them came to look.
func (s *sights) begin(owner Owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if i := s.of[owner]; i != nil && i.known {
		i.known = false
	} else {
		delete(s.of, owner)
	}
}

// rolled notes what a pass saw that found all as published.
func (s *sights) rolled(owner Owner, objects []Object, dependants []dependant) {
	i := &intact{objects: map[objectID]sighting{}, runs: map[workloadID]string{}, edits: map[objectID]time.Time{}, known: true}
	for n := range objects {
		i.objects[objectID{objects[n].Kind, objects[n].Name}] = sighting{objects[n].Stamp, objects[n].Edited}
	}
	for n := range dependants {
		if d := &dependants[n]; d.verdict == nothing {
			i.runs[idOf(d.Workload)] = d.runs
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.of[owner] = i
}

// changed notes that what is published is not as it should be, and returns what is known of the time before; nil if nothing.
func (s *sights) changed(owner Owner, objects []Object) *intact {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := s.of[owner]
	if i != nil {
		i.known = true
		i.look(objects)
	}
	return i
}

func (s *sights) forget(owner Owner) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.of, owner)
}
