package rollout

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"
)

// restart is a restart by the operator. It checks the rules about restarts.
func (w *simulator) restart(s *simWorkload, a action) {
	w.logf("restart %s", s.Name)
	w.restarts++
	w.checkCause(s)
	w.checkTime(s)
	key := w.owner().annotation()
	s.records[key], s.templates[key] = a.record.String(), a.record.Hash
	w.roll(s)
	s.ours = true
	inFlight := 0
	for _, other := range w.cluster {
		if other.ours && other.left > 0 && !other.fails {
			inFlight++
		}
	}
	if inFlight > w.policy.MaxConcurrent {
		w.fail("%d restarts are in progress, %d are allowed", inFlight, w.policy.MaxConcurrent)
	}
}

// checkCause requires a reason for a restart. Two kinds of unnecessary restarts are allowed, to be safe. One follows a change of the
// workload around a publication. The other follows a user's restart, without a change of references, while the operator's restart was
// pending.
func (w *simulator) checkCause(s *simWorkload) {
	if w.outdated(s) {
		return
	}
	at, _ := parsePublishedAt(w.stamp)
	if after := s.changed.Sub(at); -clockSkew <= after && after <= startLag {
		return
	}
	n := parseRecord(s.records[w.owner().annotation()])
	if n != nil && s.changed.Before(n.At) && n.Hash != unknownContents(n.Hash) {
		w.fail("%s was restarted although its pods run the published contents: %v", s.Name, s.pods)
	}
}

// checkTime requires that a restart comes neither too soon after a change nor too soon after the previous restart.
func (w *simulator) checkTime(s *simWorkload) {
	at, first := parsePublishedAt(w.stamp)
	if !first && w.now.Before(at.Add(w.policy.Debounce)) {
		w.fail("%s was restarted %s after a change", s.Name, w.now.Sub(at))
	}
	n := parseRecord(s.records[w.owner().annotation()])
	known := n != nil && !n.restartedAt().IsZero() && s.ours
	if known && w.now.Before(s.lastRoll.Add(w.policy.MinInterval-time.Second)) {
		w.fail("%s was restarted again after %s", s.Name, w.now.Sub(s.lastRoll))
	}
}

// randomEvent is a change in the cluster by users, other controllers or GitOps tools.
func (w *simulator) randomEvent() {
	names := w.names()
	if len(names) == 0 || w.rng.IntN(12) == 0 && len(names) < 8 {
		w.create()
		return
	}
	s := w.cluster[names[w.rng.IntN(len(names))]]
	happenings := []func(*simWorkload){
		w.change, w.change, w.remove, w.edit, func(s *simWorkload) { w.userRolls(s, "new image", func() {}) },
		w.stripAll, w.stripTemplate, w.stripRecord, w.fails, w.progress, w.progress, w.progress,
	}
	happenings[w.rng.IntN(len(happenings))](s)
}

func (w *simulator) change(*simWorkload) {
	k := []string{"a", "b", "c"}[w.rng.IntN(3)]
	w.desired = maps.Clone(w.desired)
	w.desired[k] = fmt.Sprint(w.rng.IntN(3))
	w.logf("want %s=%s", k, w.desired[k])
}

func (w *simulator) remove(s *simWorkload) {
	w.logf("delete %s", s.Name)
	delete(w.cluster, s.Name)
}

func (w *simulator) edit(s *simWorkload) {
	w.userRolls(s, "edit", func() { s.References = w.someReferences() })
}

func (w *simulator) stripAll(s *simWorkload) {
	if key := w.owner().annotation(); s.templates[key] != "" {
		w.userRolls(s, "strip all", func() { delete(s.templates, key); delete(s.records, key) })
	}
}

func (w *simulator) stripTemplate(s *simWorkload) {
	if key := w.owner().annotation(); s.templates[key] != "" {
		w.userRolls(s, "strip the template", func() { delete(s.templates, key) })
	}
}

func (w *simulator) stripRecord(s *simWorkload) {
	key := w.owner().annotation()
	if n := parseRecord(s.records[key]); n != nil && !n.Adopted && n.Hash == s.templates[key] {
		w.logf("strip the record of %s", s.Name)
		delete(s.records, key)
		s.ours = false // as far as the operator can know
		w.bump(s)
	}
}

func (w *simulator) fails(s *simWorkload) {
	if s.fails {
		w.recover(s)
	} else {
		s.fails = true
		w.bump(s)
	}
}

// recover ends a failure. The rollout continues, although it has lost its slot.
func (w *simulator) recover(s *simWorkload) {
	if s.fails {
		s.fails, s.ours = false, false
		w.bump(s)
	}
}

// userRolls changes the template, which restarts the pods.
func (w *simulator) userRolls(s *simWorkload, why string, change func()) {
	w.logf("%s %s", why, s.Name)
	change()
	s.changed, s.ours = w.now, false
	w.roll(s)
	w.bump(s)
	if at, _ := parsePublishedAt(w.stamp); w.now.Sub(at) <= clockSkew {
		w.cache[s.Name] = copyOf(s) // see the known limits in the package's documentation
	}
}

// progress advances the rollout of s.
func (w *simulator) progress(s *simWorkload) {
	if s.left > 0 && !s.fails {
		s.left--
		w.bump(s)
	}
}

// operate runs the operator, which may crash and restart.
func (w *simulator) operate() plan {
	w.budget = -1
	if w.rng.IntN(6) == 0 {
		w.budget = w.rng.IntN(4)
	}
	out, err := w.reconcile()
	if err != nil {
		w.logf("the operator crashed and restarts")
		clear(w.writes)
		w.sync()
		w.budget = -1
		if out, err = w.reconcile(); err != nil {
			w.fail("%v", err)
		}
	}
	return out
}

// settle advances time without other events until the operator has no work left.
func (w *simulator) settle() {
	for _, s := range w.cluster {
		w.recover(s)
	}
	for range 400 {
		w.sync()
		out := w.operate()
		rolling := slices.ContainsFunc(out.dependants, func(d dependant) bool { return d.cacheBehind })
		for _, s := range w.cluster {
			rolling = rolling || s.left > 0
			w.progress(s)
		}
		if len(out.records)+len(out.restarts) == 0 && out.requeueAfter == 0 && !rolling {
			return
		}
		w.now = w.now.Add(max(time.Second, min(out.requeueAfter, 31*time.Second)))
	}
	w.fail("the operator never comes to rest")
}

// runHistory is one history: random events, and an operator that runs most of the time.
func (w *simulator) runHistory() {
	up := true
	for range 60 {
		w.randomEvent()
		w.timePasses()
		if w.rng.IntN(10) == 0 {
			if up = !up; up {
				clear(w.writes)
				w.sync()
			}
		}
		if up {
			w.operate()
		}
	}
}

func (w *simulator) timePasses() {
	if w.rng.IntN(3) == 0 {
		w.now = w.now.Add(time.Duration(w.rng.IntN(8)) * time.Second)
	}
	if w.rng.IntN(15) == 0 {
		w.now = w.now.Add(time.Duration(w.rng.IntN(120)) * time.Second)
		w.sync()
	}
	if w.rng.IntN(3) > 0 || w.now.Sub(w.synced) > clockSkew/2 {
		w.sync()
	}
}

// TestSimulation checks invariants 1 to 6 and 12 on random histories.
func TestSimulation(t *testing.T) {
	histories := 1500
	if testing.Short() {
		histories = 100
	}
	restarts, workloads := 0, 0
	for seed := range uint64(histories) {
		w := newSimulator(t, seed)
		w.runHistory()
		w.check(seed)
		restarts += w.restarts
		workloads += w.next
	}
	if restarts < histories {
		t.Fatalf("only %d restarts in %d histories: too few", restarts, histories)
	}
	t.Logf("%d histories with %d workloads and %d restarts", histories, workloads, restarts)
}

// check ends a history: all workloads run the published contents, and another start of the operator does nothing.
func (w *simulator) check(seed uint64) {
	w.settle()
	for _, name := range w.names() {
		if s := w.cluster[name]; w.outdated(s) {
			w.fail("history %d: %s runs %v and not %v", seed, name, s.pods, w.data)
		}
	}
	clear(w.writes)
	w.sync()
	w.now = w.now.Add(time.Hour)
	w.budget = -1
	if out, err := w.reconcile(); err != nil || len(out.records)+len(out.restarts) > 0 {
		w.fail("history %d: a restarted operator plans %d records and %d restarts (%v)", seed, len(out.records), len(out.restarts), err)
	}
}
