package election

import (
	"strconv"
	"time"
)

// deleteLease is a person who deletes the Lease; false if there is none.
func (w *simulation) deleteLease() bool {
	if w.gone > 0 {
		return false
	}
	w.record, w.gone, w.anew = Lease{}, w.now, false
	return true
}

// makeLease is the operator, which creates the Lease without the lost record.
func (w *simulation) makeLease() bool {
	if w.gone == 0 {
		return false
	}
	for _, n := range w.nodes {
		n.config.MayInitialize = false
	}
	w.forgetOldPromises()
	w.version++
	w.record, w.gone, w.anew = Lease{Version: strconv.Itoa(w.version)}, 0, true
	w.logf("the operator re-creates the Lease")
	return true
}

// operator re-creates the Lease while there is no primary.
func (w *simulation) operator() {
	if w.gone == 0 || w.now < w.gone+5*second {
		return
	}
	for _, n := range w.nodes {
		if n.accepts() {
			return
		}
	}
	w.makeLease()
}

// watchdog is when n's watchdog kills, in true time.
func (w *simulation) watchdogs() {
	for _, n := range w.nodes {
		if at, ok := w.watchdog(n); ok && w.now >= at {
			w.logf("%s: the watchdog kills PostgreSQL", n.name)
			n.pg.done = w.now
			w.pgEnds(n, true)
		}
	}
}

// watchdog is when that of n kills, in true time.
func (w *simulation) watchdog(n *instance) (time.Duration, bool) {
	if !n.running || !n.agentFrozen {
		return 0, false
	}
	in := w.input(n)
	in.Now = n.looked // what it was told then stays
	_, kill, ok := Deadline(n.config, in)
	return n.trueTime(kill), ok
}

// checkRecreate checks an agent that is about to create the Lease again: it is the primary, and certain to be the holder.
func (w *simulation) checkRecreate(n *instance, l Lease) {
	if l.Version != "" {
		return
	}
	since := w.now - w.secure(n)
	if l.Holder != n.config.Self || !l.Recreated || l.Released || since > w.timing.FenceDeadline*21/20 {
		w.violated("3: %s makes the Lease again %s after its last renewal: %+v", n.name, since, l)
	}
}
