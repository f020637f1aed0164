package election

import (
	"slices"
	"time"
)

// object is the PostgreSQL object in the API server. Each agent has the version that it saw last.
type object struct {
	generation int64
	sync       int
	replicas   int
	paused     bool
}

// change changes the object. Each agent sees the change at its own time, some only after their watch was restarted.
func (w *simulation) change(what func(o *object)) {
	before := w.object.sync
	what(&w.object)
	w.object.generation++
	w.sync = w.object.sync
	switch {
	case w.sync == 0: // what was promised is not any more
		w.since, w.inForce, w.protected = 0, false, map[int]int{}
	case before == 0:
		w.since = w.object.generation
	}
	for _, n := range w.nodes {
		n.sees = w.now + time.Duration(w.choose(2))*time.Duration(w.choose(20_000))*time.Millisecond
	}
}

// learn makes n's agent see the current object, if it can.
func (w *simulation) learn(n *instance) {
	if n.config.Generation == w.object.generation || w.now < n.sees || !w.reaches(n) {
		return
	}
	n.config.Generation, n.config.Synchronous, n.config.Paused = w.object.generation, w.object.sync, w.object.paused
	n.config.Instances = nil
	for _, m := range w.nodes[:max(w.object.replicas, n.id+1)] {
		n.config.Instances = append(n.config.Instances, m.name)
	}
	w.logf("%s sees %+v", n.name, w.object)
}

// turnSynchronous is a person who turns synchronous replication off, or on with a possible number of standbys.
func (w *simulation) turnSynchronous() bool {
	w.change(func(o *object) {
		if o.sync > 0 {
			o.sync = 0
			return
		}
		o.sync = 1 + w.choose(len(w.nodes)/2)
	})
	return true
}

// scale is a person who removes one replica, or restores the original number.
func (w *simulation) scale() bool {
	most := len(w.nodes)
	if most < 3 || w.sync >= most-1 {
		return false
	}
	if w.scaled = true; w.record.Primary == "" {
		w.forgetOldPromises()
	}
	w.change(func(o *object) { o.replicas = 2*most - 1 - o.replicas })
	return true
}

// resize is the operator: the last pod ends when another instance is primary, which the operator requests, and its volume stays.
func (w *simulation) resize() {
	last := w.nodes[len(w.nodes)-1]
	switch leader := w.leader(); {
	case w.object.replicas == len(w.nodes):
		if !last.running && last.back == 0 {
			last.back = w.now + second
		}
	case leader == last:
		for _, m := range w.nodes {
			m.config.SwitchoverTarget, m.config.SwitchoverRequested = w.nodes[0].name, true
		}
	case leader != nil && last.running && w.settledBut(last):
		last.stop = true
	}
}

// settledBut reports that all instances but one are healthy.
func (w *simulation) settledBut(last *instance) bool {
	leader := w.leader()
	for _, n := range w.nodes {
		if _, ok := w.confirms(leader, n); n != leader && n != last && !ok {
			return false
		}
	}
	return true
}

func (w *simulation) node(name string) *instance {
	return w.nodes[slices.IndexFunc(w.nodes, func(n *instance) bool { return n.name == name })]
}

// published reports that the lease contains the mode that the object requests: from then on the object's status may contain it
// too. A mode that was on from the beginning always was published.
func (w *simulation) published() bool {
	return w.since == 1 || w.since > 0 && w.record.Generation >= w.since && len(w.record.Sync) > 0
}

// noteMode records that commits wait for standbys from now on, as the primary reports.
func (w *simulation) noteMode() {
	if n := w.leader(); n != nil && n.pg.Sync != nil && w.published() {
		w.inForce = true
	}
}

// checkMode checks a confirmed row: a row that waited for standbys must never be lost, and no commit may skip the wait.
func (w *simulation) checkMode(n *instance, op int) {
	if n.pg.Sync != nil && w.published() {
		w.protected[op] = n.id
	}
	if n.pg.Sync == nil && w.inForce && !n.exempt {
		w.violated("9: %s acknowledges row %d alone, after synchronous replication was turned on", n.name, op)
	}
}

// forgetOldPromises is the loss of a record: it is no longer known that the mode was turned on after an agent's older object, nor
// that a removed instance had confirmed rows.
func (w *simulation) forgetOldPromises() {
	if w.since > 1 || w.scaled {
		w.inForce, w.protected = false, map[int]int{}
	}
}
