package election

import (
	"strings"
	"time"
)

// maximumLag of the model is in rows, and in records that servers write on their own.
const maximumLag = 3

// patience is how long a person waits for the last primary.
const patience = 40 * second

// accept makes a person accept data loss where n asks for that. The operator revokes the consent when another instance is
// primary.
func (w *simulation) accept(n *instance) {
	d := Decide(n.config, w.input(n))
	_, name, asks := strings.Cut(d.Reason, "fettle.dev/accept-data-loss=")
	switch leader := w.leader(); {
	case leader != nil && n.config.AcceptDataLoss != "" && n.config.AcceptDataLoss != leader.name:
		name = ""
	case !asks || !d.ManualIntervention || !d.NeedsDataLossConsent || n.config.AcceptDataLoss != "" || w.now < w.calm+patience:
		return
	default:
		w.consents++
	}
	w.logf("a person accepts what is lost with %q", name)
	for _, m := range w.nodes {
		m.config.AcceptDataLoss = name
	}
}

// checkLoss checks a primary that is about to accept connections. It may lack no more rows than a person accepts of those that
// the last primary had confirmed before it last renewed the lease or answered the new primary. Later rows are unknown to all.
func (w *simulation) checkLoss(n *instance) {
	last := w.record.Primary
	if last == "" || last == n.name { // no instance knows, or its volume was lost
		clear(w.line)
		return
	}
	lost, known := 0, w.node(last).lastHeardFrom(n)
	for op, at := range w.line {
		if n.has(op) {
			continue
		}
		if delete(w.line, op); at < known && w.acked[op] == w.node(last).id {
			lost++
		}
	}
	if lost > maximumLag && w.sync == 0 && n.config.AcceptDataLoss != n.name {
		w.violated("13: %s is primary without %d rows that %s is known to have acknowledged", n.name, lost, last)
	}
	w.lostRows += lost
}

// lastHeardFrom is until when n can know what a primary has confirmed.
func (m *instance) lastHeardFrom(n *instance) time.Duration {
	a := n.peers[m.name]
	if a.RequestedAt == 0 || a.State.Role != Primary || a.State.Process != Up || a.State.UID != m.config.Self.UID {
		return m.renewedAt
	}
	return max(m.renewedAt, n.trueTime(a.RequestedAt))
}

// checkUndo checks data that is about to be rewound or recloned to follow source.
func (w *simulation) checkUndo(n *instance, source string) {
	s := w.node(source)
	if w.sync > 0 || n.config.AcceptDataLoss == w.record.Holder.Name || n.pg.Data != Usable || s.pg.Data != Usable {
		return
	}
	lost := 0
	for _, e := range n.pg.wal {
		if _, acked := w.acked[e.op]; acked && !s.has(e.op) {
			lost++
		}
	}
	if lost > maximumLag {
		w.violated("13: %d rows that only %s has are undone to follow %s", lost, n.name, source)
	}
}
