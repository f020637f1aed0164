package election

import (
	"slices"
	"strconv"
	"time"
)

// input is the observation of n's agent.
func (w *simulation) input(n *instance) Input {
	d := n.pg.Server
	d.Position, d.Exact = n.position()
	d.History = n.pg.forks()
	return Input{
		Now: n.clock(w.now), ShuttingDown: n.stop, Lease: n.obs, Tenure: n.hold, PromisedUntil: n.promised,
		Server: d, Peers: n.peers, Standbys: w.followers(n),
	}
}

// agent is one round of the loop.
func (w *simulation) agent(n *instance) {
	c := n.clock(w.now)
	n.exempt, n.looked = false, c
	w.settle(n)
	w.learn(n)
	w.read(n)
	w.poll(n)
	var d Decision
	for range 4 {
		if !n.running {
			return
		}
		w.look(n, c)
		t := Track(n.config, w.input(n))
		n.pg.WALGoneSince, n.pg.StalledSince, n.pg.AwaitingRecloneSince = t.WALGoneSince, t.StalledSince, t.AwaitingRecloneSince
		d = Decide(n.config, w.input(n))
		if _, ok := d.Action.(Wait); ok {
			break
		}
		w.logf("%s %T%+v: %s", n.name, d.Action, d.Action, d.Reason)
		w.do(n, d.Action)
	}
	pause := w.timing.RenewInterval / 2
	if w.rng != nil {
		pause = w.timing.RenewInterval/10 + time.Duration(w.rng.Int64N(int64(w.timing.RenewInterval/2)))
	}
	n.next = w.now + pause
	if at := n.trueTime(d.Until) + time.Millisecond; w.rng != nil && at > w.now {
		n.next = min(n.next, at)
	}
}

// look samples n's server.
func (w *simulation) look(n *instance, c time.Duration) {
	d := &n.pg
	switch {
	case d.isPrimary() && !d.hung:
		d.HeartbeatAt = c
	case d.isStandby() && !d.hung:
		if at := len(d.wal); at != n.lookedAt || d.Receiving && w.canStream(n) {
			d.WALGoneSince, d.StalledSince, n.lookedAt, d.Failures, d.ClonedSinceFollowing = 0, 0, at, 0, false
		}
		if w.canConnect(n) {
			d.PrimaryReachedAt = c
		}
		d.SampledAt = c
	}
}

// read reads the Lease, unless a write is in progress.
func (w *simulation) read(n *instance) {
	if n.hold.Pending != nil {
		return
	}
	c := n.clock(w.now)
	if !w.reaches(n) || w.flaky && w.sometimes(5) {
		if w.choose(2) == 0 || c-n.obs.ReadAt > 2*w.timing.RenewInterval { // the others are not given up yet
			n.obs, n.seenFailed = n.obs.Failed(c), true
		}
		return
	}
	w.see(n, c)
}

func (w *simulation) see(n *instance, c time.Duration) {
	n.obs = n.obs.Read(c, 3*w.timing.RenewInterval, w.record)
	n.hold = n.hold.Read(n.config.Self, w.record)
	if n.seenVersion != w.record.Version || n.seenFailed {
		n.seenVersion, n.seenSince, n.seenFailed = w.record.Version, c, false
	}
}

// poll asks the peers for their state.
func (w *simulation) poll(n *instance) {
	for _, p := range w.nodes {
		if p == n || !w.linked(n.id, p.id) || !p.running || p.frozen() || w.now < w.calm && w.sometimes(6) {
			continue
		}
		n.peers[p.name] = Answer{RequestedAt: n.clock(w.now), State: Report(p.config, w.input(p))}
	}
}

// do carries out an action.
func (w *simulation) do(n *instance, a Action) {
	switch a := a.(type) {
	case Acquire:
		w.checkAcquire(n, a.Lease)
		w.send(n, a.Lease)
	case Renew:
		w.send(n, a.Lease)
	case Release:
		w.checkRelease(n)
		w.send(n, a.Lease)
	case RequestPromises:
		w.askPeers(n, a.Peers)
	case Exit:
		w.killInstance(n, second+time.Duration(w.choose(4000))*time.Millisecond, true)
		if n.id >= w.object.replicas {
			n.back = 0 // till it is wanted again
		}
	default:
		w.doDatabase(n, a)
	}
}

func (w *simulation) doDatabase(n *instance, a Action) {
	d, c := &n.pg, n.clock(w.now)
	d.done = w.now + w.timing.RenewInterval/8 + time.Duration(w.choose(int(w.timing.RenewInterval))) + w.longer(n, a)
	switch a := a.(type) {
	case StartStandby:
		d.Role, d.Upstream, d.Sync = Standby, a.Upstream, StandbySync(n.config, w.input(n))
		d.enter(Starting, c)
	case StartPrimary:
		w.checkLead(n)
		d.Sync = StandbySync(n.config, w.input(n))
		d.enter(Starting, c)
	case Promote:
		w.checkLead(n)
		d.Role, d.claim = Primary, max(a.After, d.end().Timeline)+1
		d.enter(Promoting, c)
	case Follow:
		d.Upstream = a.Upstream
		if a.Upstream == "" {
			d.Receiving = false
		}
	case Stop:
		if a.Planned && !n.config.Hibernated {
			w.checkSwitchover(n)
		}
		w.stop(n, a)
	case Checkpoint:
		d.Checkpointing = true
	case SetSync:
		w.checkSync(n, a.Quorum)
		d.Sync, d.SyncLSN = a.Quorum, uint64(len(d.wal))
	default:
		w.doDataTask(n, a)
	}
}

func (w *simulation) stop(n *instance, order Stop) {
	d := &n.pg
	w.hangServer(n)
	if d.Process == Starting && d.Role == Standby {
		d.Failures++
	}
	d.Server = d.AfterStopOrder(n.clock(w.now), order)
	if order.Mode >= Immediate {
		d.done = w.now
		if d.Role == Primary {
			n.fenced++
		}
	}
}

// hangServer records that PostgreSQL is unresponsive.
func (w *simulation) hangServer(n *instance) {
	if Unresponsive(n.config, w.input(n)) {
		n.pg.UnresponsiveAt = n.clock(w.now)
	}
}

func (w *simulation) doDataTask(n *instance, a Action) {
	d := &n.pg
	index := func(name string) int { return w.node(name).id }
	switch a := a.(type) {
	case InitDB:
		d.DataTask, d.Data = Initializing, Incomplete
	case Clone:
		d.DataTask, d.source, d.Data = Cloning, index(a.Source), Incomplete
	case InspectWAL:
		d.read = true
	case Reclone:
		w.checkUndo(n, a.Source)
		w.checkReclone(n)
		d.DataTask, d.source, d.Data, d.wal = Cloning, index(a.Source), Incomplete, nil
	case RecloneKeepingData:
		d.DataTask, d.source, d.Data, d.wal = Cloning, index(a.Source), Incomplete, nil
	case Rewind:
		w.checkUndo(n, a.Source)
		d.DataTask, d.source = Rewinding, index(a.Source)
	}
}

// send sends a write of the Lease.
func (w *simulation) send(n *instance, l Lease) {
	c := n.clock(w.now)
	n.hold = n.hold.Begin(c, l)
	f := &flight{by: n.id, uid: n.config.Self.UID, lease: l, sent: w.now, clock: c, arrives: w.now, ends: w.now, answers: true}
	switch {
	case !w.reaches(n):
		f.arrives, f.answers, f.ends = 0, false, w.now+w.timing.RenewInterval/2
	case w.readOnly: // an error at once, or silence
		f.arrives, f.answers, f.ends = 0, false, w.now+w.timing.RenewInterval/20+time.Duration(w.choose(2))*w.timing.RenewInterval
	case n.lose || w.flaky && w.sometimes(6): // the answer is lost
		f.answers, f.ends, n.lose = false, w.now+w.timing.RenewInterval, false
	case w.flaky && w.sometimes(6): // it arrives after it was given up
		f.arrives, f.answers, f.ends = w.now+w.timing.RenewInterval*3/2, false, w.now+w.timing.RenewInterval
	case w.sometimes(8): // it takes its time
		f.arrives, f.ends = w.now+w.timing.RenewInterval/10, w.now+w.timing.RenewInterval/5
	}
	if w.checkRecreate(n, l); l.Version == "" && f.arrives > 0 && w.sometimes(3) { // nothing tells the API server that it is too late
		f.arrives = w.now + time.Duration(w.choose(int(2*w.timing.LeaseDuration)))
		f.answers, f.ends = f.arrives < w.now+w.timing.RenewInterval, min(f.arrives, w.now+w.timing.RenewInterval)
	}
	n.answer = f
	w.flights = append(w.flights, f)
	w.deliver()
	w.settle(n)
}

// deliver makes the API server process the writes that have arrived.
func (w *simulation) deliver() {
	w.flights = slices.DeleteFunc(w.flights, func(f *flight) bool {
		if f.arrives == 0 || w.now < f.arrives {
			return f.arrives == 0
		}
		if f.lease.Version != w.record.Version {
			return true
		}
		w.checkTakeover(f)
		w.version++
		w.record, f.applied = f.lease, true
		w.record.Version = strconv.Itoa(w.version)
		f.lease, w.gone, w.anew = w.record, 0, false
		if n := w.nodes[f.by]; n.config.Self.UID == f.uid && f.lease.Holder == n.config.Self {
			n.renewedAt, n.listed = max(n.renewedAt, f.sent), f.lease.Instances
		}
		return true
	})
}

// settle delivers the answer to a write to the agent.
func (w *simulation) settle(n *instance) {
	f := n.answer
	if f == nil || w.now < f.ends {
		return
	}
	c := n.clock(w.now)
	n.answer = nil
	switch {
	case !f.answers:
		n.hold = n.hold.Unknown()
		n.obs, n.seenFailed = n.obs.Failed(c), true
	case f.applied:
		n.hold = n.hold.Applied()
		n.obs = n.obs.Read(c, 3*w.timing.RenewInterval, f.lease)
		n.hold = n.hold.Read(n.config.Self, f.lease)
		n.seenVersion, n.seenSince, n.seenFailed = f.lease.Version, c, false
	default:
		n.hold = n.hold.Rejected()
	}
}

// askPeers asks each peer for a promise.
func (w *simulation) askPeers(n *instance, peers []string) {
	c := n.clock(w.now)
	n.hold.PromisesRequestedAt = c
	reads := n.readable > 0 && c-n.readable <= 3*w.timing.RenewInterval
	if w.reaches(n) {
		n.readable = c
	}
	for _, name := range peers {
		p := w.node(name)
		if !w.linked(n.id, p.id) || !p.running || p.frozen() {
			continue
		}
		r := Promise(p.config, w.input(p), n.config.Self, reads)
		if r.Granted {
			p.promised = r.Until
		}
		if !r.Granted || w.flaky && w.sometimes(4) {
			continue
		}
		n.granted[p.id] = w.now
		n.hold = n.hold.Granted(name, c)
	}
}
