package rollout

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// history is the sequence of reconciles before RecordBaseline is called.
type history func(s *driftTracker, good, edited Object, w *Workload)

// rolledOut is a reconcile that found all objects intact.
func rolledOut(s *driftTracker, o Object, w *Workload) {
	s.begin(theOwner)
	p := &evaluation{now: start, owner: theOwner, policy: thePolicy, published: []Object{o}, key: testKey}
	s.recordIntact(theOwner, []Object{o}, p.decide([]*Workload{w}, func(*Workload) lastWrite { return lastWrite{} }).dependants)
}

// sawIntact is a process that has seen all objects intact.
func sawIntact(s *driftTracker, good, _ Object, w *Workload) { rolledOut(s, good, w) }

// TestForeignEdits edits published objects as another client, an hour ago. It checks which dependants are recorded with unknown contents:
// they are restarted when the edit is reverted, the others are not.
func TestForeignEdits(t *testing.T) {
	good := published("1", "1")
	at := start.Add(-time.Second) // time of the edit; it is noticed at start
	editedAt := func(at time.Time) func(*Object) { return func(o *Object) { o.ForeignEdit = at } }
	since := func(at time.Time) func(*Workload) { return func(w *Workload) { w.Progress.since = at } }
	for name, tc := range map[string]struct {
		edit    func(*Object)
		user    func(*Workload)
		history history
		mixed   bool
	}{
		"no pod started since":                        {},
		"noticed just in time":                        {edit: editedAt(start.Add(-clockSkew))},
		"noticed too late":                            {edit: editedAt(start.Add(-clockSkew - time.Second)), mixed: true},
		"by a clock slightly ahead":                   {edit: editedAt(start.Add(startLag))},
		"by a clock far ahead":                        {edit: editedAt(start.Add(startLag + time.Second)), mixed: true},
		"at an unknown time":                          {edit: editedAt(time.Time{}), mixed: true},
		"pods are starting":                           {user: phase(InProgress), mixed: true},
		"the template was changed in the same second": {user: changedAt(at), mixed: true},
		"the template was changed after it":           {user: changedAt(start), mixed: true},
		"the template was changed before it":          {user: changedAt(at.Add(-time.Second))},
		"its status was reported in the same second":  {user: since(at)},
		"its status was reported after it":            {user: since(at.Add(time.Second)), mixed: true},
		"a process without earlier reconciles":        {history: func(*driftTracker, Object, Object, *Workload) {}, mixed: true},
		"the owner was paused meanwhile, two edits":   {history: func(s *driftTracker, good, _ Object, w *Workload) { rolledOut(s, good, w); s.begin(theOwner) }, mixed: true},
		"a restart was pending": {history: func(s *driftTracker, good, _ Object, w *Workload) {
			other := published("0", "1")
			other.PublishedAt = good.PublishedAt
			rolledOut(s, other, w)
		}, mixed: true},
		"published again since": {history: func(s *driftTracker, good, _ Object, w *Workload) {
			rolledOut(s, publishedAt(good, start.Add(-2*time.Hour)), w)
		}, mixed: true},
		"edited before, and again": {history: func(s *driftTracker, good, edited Object, w *Workload) {
			rolledOut(s, good, w)
			s.begin(theOwner)
			edited.ForeignEdit = start.Add(-time.Minute)
			s.recordDrift(theOwner, []Object{edited})
		}, mixed: true},
		"noticed before, and not reverted yet": {history: func(s *driftTracker, good, edited Object, w *Workload) {
			rolledOut(s, good, w)
			s.begin(theOwner)
			s.recordDrift(theOwner, []Object{edited})
		}},
		"a key was removed before, without a trace": {history: func(s *driftTracker, good, _ Object, w *Workload) {
			rolledOut(s, good, w)
			s.begin(theOwner)
			s.recordDrift(theOwner, []Object{good})
		}, mixed: true},
		"another client managed a field before": {history: func(s *driftTracker, good, edited Object, w *Workload) {
			good.ForeignEdit = edited.ForeignEdit
			rolledOut(s, good, w)
		}, mixed: true},
		"the owner is deleted": {history: func(s *driftTracker, good, _ Object, w *Workload) { rolledOut(s, good, w); s.forget(theOwner) }, mixed: true},
	} {
		t.Run(name, func(t *testing.T) {
			edited := published("foreign", "1")
			edited.ForeignEdit = at
			w := user(Deployment, "x", recorded(good))
			for _, f := range []func(*Workload){tc.user} {
				if f != nil {
					f(w)
				}
			}
			if tc.edit != nil {
				tc.edit(&edited)
			}
			if tc.history == nil {
				tc.history = sawIntact
			}
			s := newDriftTracker()
			tc.history(s, good, edited, w)
			s.begin(theOwner)
			p := &evaluation{now: start, owner: theOwner, policy: thePolicy, published: []Object{edited}, key: testKey, beforeChange: true}
			p.lastIntact = s.recordDrift(theOwner, []Object{edited})
			plan := p.decide([]*Workload{w}, func(*Workload) lastWrite { return lastWrite{} })
			if mixed := len(plan.records) == 1; mixed != tc.mixed {
				t.Errorf("recorded as unknown: %v, want %v", mixed, tc.mixed)
			}
		})
	}
}

// The state is dropped with the owner, and with the next reconcile that finds all objects intact.
func TestDriftTracker_isBounded(t *testing.T) {
	s, good := newDriftTracker(), published("1", "1")
	for _, name := range []string{"x", "y"} {
		rolledOut(s, good, user(Deployment, name, recorded(good)))
	}
	if diff := cmp.Diff(1, len(s.owners[theOwner].runs)); diff != "" {
		t.Errorf("workloads (-want +got):\n%s", diff)
	}
	s.forget(theOwner)
	if len(s.owners) > 0 {
		t.Errorf("still kept: %v", s.owners)
	}
}
