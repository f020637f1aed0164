package election

import (
	"slices"
	"time"
)

// position is the position that PostgreSQL, or pg_control, reports.
func (n *instance) position() (p Position, exact bool) {
	d := &n.pg
	switch {
	case d.Data != Usable:
		return Position{}, false
	case d.Process == Down && !d.CleanShutdown && !d.read:
		return d.control, false
	}
	return d.end(), true
}

// end is the true end of the WAL.
func (d *database) end() Position {
	if len(d.wal) == 0 {
		return Position{}
	}
	return Position{Timeline: d.wal[len(d.wal)-1].tl, LSN: uint64(len(d.wal))}
}

func (d *database) forks() []TimelineSwitch {
	var out []TimelineSwitch
	for i, e := range d.wal {
		if i > 0 && d.wal[i-1].tl != e.tl {
			out = append(out, TimelineSwitch{Timeline: d.wal[i-1].tl, LSN: uint64(i)})
		}
	}
	return out
}

// accepts reports that clients can write.
func (n *instance) accepts() bool {
	return n.running && !n.nodeFrozen && n.pg.isPrimary() && !n.pg.hung && !n.pg.FullDisk && !n.pg.rejects
}

func (d *database) checkpoint() { d.control = d.end() }

func (d *database) enter(p Process, since time.Duration) {
	d.read = false
	d.Process, d.ProcessSince = p, since
	if p != Stopping {
		d.StopMode = NoStop
	}
}

// pgEnds ends PostgreSQL.
func (w *simulation) pgEnds(n *instance, crash bool) {
	d := &n.pg
	w.hangServer(n)
	d.pending, d.Receiving, d.hung, d.Checkpointing, d.CheckpointedAt = nil, false, false, false, 0
	if d.Process == Down {
		return
	}
	if d.Process == Promoting && d.claim > 0 { // recovery had not ended
		d.Role = Standby
	}
	d.enter(Down, n.clock(w.now))
	d.Upstream, d.Sync = "", nil
	if crash {
		d.PreviousCrashAt, d.CrashedAt = d.CrashedAt, d.ProcessSince
		if d.Role == Standby {
			d.Failures++
		}
	}
}

// pgProgress finishes operations that take time.
func (w *simulation) pgProgress(n *instance) {
	d, c := &n.pg, n.clock(w.now)
	if w.advances(n, c); d.hung && d.StopMode != Kill || w.now < d.done {
		return
	}
	switch {
	case d.DataTask != NoDataTask:
		w.dataTaskEnds(n)
	case d.Process == Starting && d.damaged:
		w.pgEnds(n, true)
	case d.Process == Up && d.Checkpointing:
		d.Checkpointing, d.CheckpointedAt = false, c
	case d.Process == Starting:
		d.enter(Up, c)
		d.CleanShutdown = false
		if d.Role == Primary {
			d.wal = append(slices.Clone(d.wal), entry{tl: d.end().Timeline})
			w.leads(n)
		}
		d.checkpoint()
	case d.Process == Promoting:
		w.promotes(n)
	case d.Process == Stopping:
		w.stops(n)
	}
}

// promotes ends recovery.
func (w *simulation) promotes(n *instance) {
	d := &n.pg
	if owner, ok := w.used[d.claim]; ok {
		w.violated("10: %s promotes to timeline %d, which %d has used", n.name, d.claim, owner)
	}
	w.used[d.claim] = n.id
	w.promos++
	d.wal = append(slices.Clone(d.wal), entry{tl: d.claim})
	d.claim = 0
	d.enter(Up, n.clock(w.now))
	w.leads(n)
}

// stops ends PostgreSQL. The shutdown is clean only after a fast stop, and when all connected standbys have all WAL.
func (w *simulation) stops(n *instance) {
	d := &n.pg
	if d.StopMode == Fast && d.slowStop {
		return
	}
	if d.StopMode == Fast {
		if d.Role == Primary {
			d.wal = append(slices.Clone(d.wal), entry{tl: d.end().Timeline})
			w.replicate()
		}
		d.CleanShutdown = true
		d.checkpoint()
	}
	w.pgEnds(n, false)
}

// dataTaskEnds ends an initdb, clone or rewind.
func (w *simulation) dataTaskEnds(n *instance) {
	d := &n.pg
	work := d.DataTask
	d.DataTask = NoDataTask
	if work == Initializing {
		d.wal, d.Data, d.Role, d.SystemID, d.CleanShutdown = []entry{{tl: 1}}, Usable, Primary, "s", true
		d.checkpoint()
		return
	}
	s := w.nodes[d.source]
	ok := w.linked(n.id, s.id) && s.running && s.pg.Process == Up
	switch {
	case !ok && work == Rewinding:
		return
	case !ok:
		d.Data = Incomplete
		return
	case work == Cloning && w.now < w.calm && w.sometimes(6): // the disk, or the source
		d.Data = Incomplete
		return
	case work == Rewinding && (w.sometimes(4) && w.mayLose(n) || forked(d, &s.pg)):
		d.Data = NeedsReclone
		return
	}
	d.wal, d.Data, d.Role, d.SystemID, d.CleanShutdown = slices.Clone(s.pg.wal), Usable, Standby, s.pg.SystemID, false
	d.OldestWAL = uint64(len(d.wal))
	d.damaged, d.wedged = false, false
	d.Failures, d.ClonedSinceFollowing = 0, work == Cloning
	d.checkpoint()
}

// forked reports that two WALs differ on one timeline, where pg_rewind finds nothing to do.
func forked(a, b *database) bool {
	return a.end().Timeline == b.end().Timeline && !prefix(a.wal, b.wal)
}

// mayLose reports that the other copies suffice without n's: a cluster in which two rewinds have failed waits for a person.
func (w *simulation) mayLose(n *instance) bool {
	return !slices.ContainsFunc(w.nodes, func(m *instance) bool { return m != n && m.pg.Data != Usable })
}

func prefix(a, b []entry) bool { return len(a) <= len(b) && slices.Equal(a, b[:len(a)]) }

// replicate sends WAL along each live connection.
func (w *simulation) replicate() {
	for range w.nodes { // cascades
		for _, n := range w.nodes {
			w.receive(n)
		}
	}
}

// listens reports that a standby has an instance to connect to.
func (n *instance) listens() bool {
	return n.runs() && n.pg.isStandby() && !n.pg.hung && n.pg.Upstream != "" && n.pg.Upstream != n.name
}

func (n *instance) runs() bool { return n.running && !n.nodeFrozen }

// sends reports that standbys can connect, or stay connected.
func (n *instance) sends() bool {
	return n.running && (n.pg.Process == Up || n.pg.Process == Stopping) && !n.pg.hung
}

func (w *simulation) receive(n *instance) {
	d := &n.pg
	if !n.listens() {
		return
	}
	s := w.node(d.Upstream)
	if s.nodeFrozen || w.cut[s.id][n.id] {
		return // nothing comes, and the connection lives on for all that is known
	}
	if d.Receiving = w.canStream(n); !d.Receiving {
		return
	}
	if !d.lag && prefix(d.wal, s.pg.wal) && len(d.wal) < len(s.pg.wal) {
		d.wal = slices.Clip(s.pg.wal)
	}
}

// canConnect reports that the upstream accepts a connection from n.
func (w *simulation) canConnect(n *instance) bool {
	if !n.listens() {
		return false
	}
	s := w.node(n.pg.Upstream)
	return s.sends() && w.linked(n.id, s.id)
}

// canStream reports that the upstream has the WAL that n needs next, and that n can receive it.
func (w *simulation) canStream(n *instance) bool {
	if n.pg.Upstream == "" || n.pg.wedged {
		return false
	}
	s := w.node(n.pg.Upstream)
	return s.sends() && s.pg.has(len(n.pg.wal))
}

// has reports that the entries after that number are available.
func (d *database) has(entries int) bool { return uint64(entries) >= d.OldestWAL }

// confirms reports whether a standby is connected to n, and its position.
func (w *simulation) confirms(n, s *instance) (uint64, bool) {
	d := &s.pg
	ok := s.running && n.pg.has(len(d.wal)) && d.isStandby() && d.Receiving && d.Upstream == n.name && w.linked(n.id, s.id) && prefix(d.wal, n.pg.wal)
	return uint64(len(d.wal)), ok
}

// followers is n's pg_stat_replication.
func (w *simulation) followers(n *instance) map[string]StandbyStatus {
	out := map[string]StandbyStatus{}
	if !n.pg.isPrimary() {
		return out
	}
	for _, s := range w.nodes {
		if flushed, ok := w.confirms(n, s); ok && s != n {
			out[s.name] = StandbyStatus{
				Streaming: true, CaughtUp: int(flushed) == len(n.pg.wal) && !s.pg.lag, FlushLSN: flushed, StreamingAt: n.clock(w.now),
			}
		}
	}
	return out
}

// write is a client that writes to any server that it is connected to.
func (w *simulation) write(n *instance) {
	if !n.accepts() {
		return
	}
	w.ops++
	n.pg.wal = append(slices.Clone(n.pg.wal), entry{tl: n.pg.end().Timeline, op: w.ops})
	n.pg.pending = append(slices.Clone(n.pg.pending), len(n.pg.wal))
	w.replicate()
	w.acknowledge()
}

// acknowledge answers the clients whose rows are where they must be.
func (w *simulation) acknowledge() {
	for _, n := range w.nodes {
		if !n.accepts() || len(n.pg.pending) == 0 {
			continue
		}
		n.pg.pending = slices.DeleteFunc(slices.Clone(n.pg.pending), func(lsn int) bool {
			if !w.confirmed(n, uint64(lsn)) {
				return false
			}
			w.ack(n, n.pg.wal[lsn-1].op)
			return true
		})
	}
}

func (w *simulation) confirmed(n *instance, lsn uint64) bool {
	q := n.pg.Sync
	if q == nil {
		return true
	}
	have := 0
	for _, name := range q.Names {
		if flushed, ok := w.confirms(n, w.node(name)); ok && flushed >= lsn {
			have++
		}
	}
	return have >= q.Number
}
