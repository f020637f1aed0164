package election

import (
	"encoding/binary"
	"hash/maphash"
	"maps"
	"slices"
	"strconv"
	"time"
)

var hashSeed = maphash.MakeSeed()

// encoder writes a state so that two states are equal which differ only in the time, in the number of writes, and in the WAL that
// all instances have.
type encoder struct {
	w    *simulation
	buf  []byte
	now  time.Duration // of the clock whose instants are written
	base uint64        // how much of the WAL everybody has
}

// far is the age above which instants are all the same.
const far = 10 * second

func (e *encoder) int(v int) { e.buf = binary.AppendVarint(e.buf, int64(v)) }

func (e *encoder) bool(vs ...bool) {
	for _, v := range vs {
		b := byte(0)
		if v {
			b = 1
		}
		e.buf = append(e.buf, b)
	}
}

func (e *encoder) string(s string) { e.int(len(s)); e.buf = append(e.buf, s...) }

func (e *encoder) time(t time.Duration) {
	if t == 0 {
		e.int(-1 << 40)
		return
	}
	e.int(int(min(e.now-t, far)))
}

func (e *encoder) lsn(v uint64) { e.int(int(max(v, e.base) - e.base)) }

func (e *encoder) position(p Position) { e.int(int(p.Timeline)); e.lsn(p.LSN) }

func (e *encoder) version(v string) {
	n, err := strconv.Atoi(v)
	if err != nil {
		e.int(-1)
		return
	}
	e.int(min(e.w.version-n, 20))
}

func (e *encoder) holder(h Holder) {
	e.string(h.Name)
	for _, n := range e.w.nodes {
		e.bool(n.config.Self == h)
	}
}

func (e *encoder) quorum(q *Quorum) {
	if q == nil {
		e.int(-1)
		return
	}
	e.int(q.Number)
	for _, n := range q.Names {
		e.string(n)
	}
}

func (e *encoder) lease(l Lease) {
	e.version(l.Version)
	e.holder(l.Holder)
	e.bool(l.Released, l.CleanShutdown, l.Recreated)
	e.int(int(e.w.object.generation - l.Generation))
	e.string(l.Preferred)
	e.string(l.Primary)
	e.int(int(l.Timeline))
	e.position(l.End)
	for _, f := range l.History {
		e.position(Position(f))
	}
	for _, q := range l.Sync {
		e.quorum(&q)
	}
	e.int(len(l.Instances))
	for _, name := range l.Instances {
		e.string(name)
	}
}

func (e *encoder) write(w Write) { e.time(w.Sent); e.lease(w.Lease) }

func (e *encoder) holding(h Tenure) {
	e.write(h.Confirmed)
	e.lease(h.LastRecord)
	e.bool(h.Recreated)
	e.time(h.AcquiredAt)
	e.bool(h.Pending != nil)
	if h.Pending != nil {
		e.write(*h.Pending)
	}
	e.int(len(h.Indeterminate))
	for _, w := range h.Indeterminate {
		e.write(w)
	}
	for _, p := range slices.Sorted(maps.Keys(h.Promises)) {
		e.string(p)
		e.time(h.Promises[p])
	}
	e.time(h.TriedAt)
	e.time(h.PromisesRequestedAt)
}

func (e *encoder) database(d *database) {
	e.string(string(d.Data) + string(d.Process) + string(d.Role) + string(d.DataTask) + d.Upstream)
	e.time(d.ProcessSince)
	e.int(int(d.StopMode))
	e.bool(d.CleanShutdown, d.read, d.Receiving, d.hung, d.lag, d.rejects, d.Checkpointing, d.Planned)
	e.time(d.CheckpointedAt)
	e.time(d.EscalatedAt)
	e.time(d.RecoveryAdvancedAt)
	e.time(d.HeartbeatAt)
	e.time(d.CrashedAt)
	e.time(d.PreviousCrashAt)
	e.time(d.UnresponsiveAt)
	e.quorum(d.Sync)
	e.lsn(d.SyncLSN)
	e.lsn(d.OldestWAL)
	e.time(d.WALGoneSince)
	e.time(d.StalledSince)
	e.time(d.AwaitingRecloneSince)
	if d.WALGoneSince > 0 {
		e.time(d.SampledAt)
	}
	if d.StalledSince > 0 {
		e.time(d.PrimaryReachedAt)
	}
	e.int(min(d.Failures, maxFailures))
	e.bool(d.ClonedSinceFollowing, d.damaged, d.wedged)
	e.position(d.control)
	e.int(int(d.claim))
	e.int(d.source)
	for i := int(e.base); i < len(d.wal); i++ {
		e.int(int(d.wal[i].tl))
		e.op(d.wal[i].op)
	}
	for _, p := range d.pending {
		e.lsn(uint64(p))
	}
}

func (e *encoder) op(op int) {
	if op == 0 {
		e.int(-1)
		return
	}
	_, acked := e.w.acked[op]
	_, protected := e.w.protected[op]
	e.int(e.w.ops - op)
	e.bool(acked, protected)
}

func (e *encoder) peer(a Answer) {
	e.time(a.RequestedAt)
	s := a.State
	e.string(string(s.Data) + string(s.Process) + string(s.Role) + string(s.DataTask) + s.Upstream)
	e.position(s.Position)
	e.lsn(s.OldestWAL)
	e.bool(s.WALGone, s.AwaitingReclone, s.Exact, s.Writable, s.Candidate, s.RecentlyUnresponsive, s.API)
	e.version(s.WALReceiverStoppedFor)
	e.int(int(s.FirstIn))
}

func (e *encoder) instance(n *instance) {
	e.now = n.clock(e.w.now)
	e.bool(n.running, n.replaced, n.agentFrozen, n.nodeFrozen, n.exempt, n.stop, n.lose, n.seenFailed)
	e.database(&n.pg)
	e.bool(n.pg.EscalatedAt >= n.config.TargetChangedAt)
	e.lease(n.obs.Lease)
	e.time(n.obs.UnchangedSince)
	e.time(n.obs.ReadAt)
	e.time(n.obs.FailedAt)
	e.bool(n.obs.HolderActive)
	e.holding(n.hold)
	e.time(n.promised)
	for _, p := range e.w.nodes {
		e.peer(n.peers[p.name])
	}
	e.version(n.seenVersion)
	e.time(n.seenSince)
	e.time(n.readable)
	e.now = e.w.now
	e.bool(n.answer != nil)
	if n.answer != nil {
		e.time(n.answer.ends)
		e.bool(n.answer.answers, n.answer.applied)
	}
	e.int(n.config.Synchronous)
	e.int(int(e.w.object.generation - n.config.Generation))
	for _, t := range []time.Duration{n.sees, n.back, n.wakeAt, n.next, n.thawedAt, n.renewedAt, n.pg.done} {
		e.time(t)
	}
	for i, t := range n.granted {
		e.time(t)
		e.bool(slices.Contains(n.listed, e.w.nodes[i].name))
	}
}

// hash distinguishes states.
func (w *simulation) hash() uint64 {
	e := &encoder{w: w, buf: make([]byte, 0, 4096), now: w.now, base: w.common()}
	e.lease(w.record)
	e.bool(w.apiDown, w.readOnly, w.anew, w.inForce)
	e.int(w.sync)
	e.int(int(w.object.generation - w.since))
	e.time(w.gone)
	e.bool(w.apiCut...)
	for _, c := range w.cut {
		e.bool(c...)
	}
	for _, t := range w.timers {
		e.time(t.at)
	}
	e.string(w.nodes[0].config.SwitchoverTarget)
	e.bool(w.nodes[0].config.SwitchoverRequested)
	for _, n := range w.nodes {
		e.instance(n)
	}
	return maphash.Bytes(hashSeed, e.buf)
}

// common is how much WAL all instances have.
func (w *simulation) common() uint64 {
	n := len(w.nodes[0].pg.wal)
	for _, m := range w.nodes {
		n = min(n, len(m.pg.wal))
	}
	a := w.nodes[0].pg.wal
	for i := range n {
		for _, m := range w.nodes {
			if m.pg.wal[i] != a[i] {
				return uint64(i)
			}
		}
	}
	return uint64(n)
}
