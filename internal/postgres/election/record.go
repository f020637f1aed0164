package election

import (
	"cmp"
	"slices"
)

const (
	// maxHistory is how many timeline switches a record holds.
	maxHistory = 16
	// timelinesPerInstance is how many promotions may follow by an instance that took a lease without a record, before timelines
	// may collide.
	timelinesPerInstance = 16
)

// recordLost reports that the content of the Lease was lost: it was deleted, and its holder did not create it again.
func (v *decider) recordLost() bool {
	return v.lease.Primary == "" && v.lease.Timeline == 0 && (v.lease.Recreated || !v.MayInitialize)
}

// ownTimeline returns a timeline above used from a range that belongs to this instance alone, for a lost record.
func (v *decider) ownTimeline(used uint32) uint32 {
	own := uint32(slices.Index(v.Instances, v.Self.Name)) //nolint:gosec // there are few, and this is one of them
	round := uint32(timelinesPerInstance * 64)
	return (used/round+1)*round + own*timelinesPerInstance
}

// acquisitionRecord returns the record that takes the lease. It claims a timeline that no instance has used, unless this instance
// was the primary and continues on its own timeline. The rest is copied from the last primary. If the record was lost, Sync holds
// what has to be assumed.
func (v *decider) acquisitionRecord() Lease {
	l := v.lease
	l.Holder, l.Released, l.Recreated, l.Preferred, l.CleanShutdown = v.Self, false, false, "", false
	l.Instances, l.Generation = v.Instances, max(l.Generation, v.Generation)
	if v.recordLost() && v.Synchronous > 0 {
		l.Sync = v.quorums()
	}
	switch s := v.server; {
	case v.recordLost() && s.Position.Timeline > 0 && v.TimelinesKnown:
		l.Timeline = max(s.Position.Timeline, s.HighestTimeline) + 1
	case v.recordLost() && s.Position.Timeline > 0:
		l.Timeline = v.ownTimeline(max(s.Position.Timeline, s.HighestTimeline))
	case s.Role == Standby || l.Timeline > s.Position.Timeline:
		l.Timeline = max(l.Timeline, s.Position.Timeline, s.HighestTimeline) + 1
	default:
		l.Timeline = s.Position.Timeline
	}
	return l
}

// timelineClaimed reports that the Lease claims a timeline that this standby can be promoted to. After a crash it may be in use
// already.
func (v *decider) timelineClaimed() bool {
	return v.lease.Timeline > max(v.server.Position.Timeline, v.server.HighestTimeline)
}

// renewalRecord returns what the holder publishes with its next renewal. urgent means that other instances wait for it.
func (v *decider) renewalRecord() (next Lease, urgent bool) {
	l, have := v.lease, v.lease
	l.Holder, l.Released, l.Recreated, l.Preferred = v.Self, false, v.leaseAbsent(), ""
	l.Instances, l.Generation = v.eligibleInstances(), max(l.Generation, v.Generation)
	l.SystemID = cmp.Or(v.server.SystemID, l.SystemID)
	if l.Primary == "" && v.server.Role == Primary && v.server.Data == Usable {
		l.Primary = v.Self.Name
	}
	if v.server.isStandby() && !v.timelineClaimed() {
		l.Timeline = max(v.server.Position.Timeline, v.server.HighestTimeline) + 1
	}
	if v.server.isPrimary() {
		l.Primary, l.CleanShutdown, l.End = v.Self.Name, false, v.server.Position
		l.Timeline = max(l.Timeline, l.End.Timeline)
		l.History = v.server.History[max(0, len(v.server.History)-maxHistory):]
		l.Sync = v.syncToPublish()
	}
	return l, l.Holder != have.Holder || l.Primary != have.Primary || l.Timeline != have.Timeline ||
		l.SystemID != have.SystemID || l.differs(have)
}

// eligibleInstances returns the instances that may take the lease from this holder, and that it asks for a promise: all that it
// has heard from, by an answer or a stream, within the last lease duration. An instance that is down for longer must not stop the
// primary when the API server is down too. The last ones stay listed, because some instance has to be able to take over when this
// holder is lost. (3, 7)
func (v *decider) eligibleInstances() []string {
	silent := func(name string) bool {
		heard := max(v.in.Peers[name].RequestedAt, v.in.Standbys[name].StreamingAt, v.in.Tenure.AcquiredAt)
		return name != v.Self.Name && v.in.Now-heard > v.LeaseDuration
	}
	if out := slices.DeleteFunc(slices.Clone(v.Instances), silent); len(out) > 1 {
		return out
	}
	return slices.DeleteFunc(slices.Clone(v.Instances), func(name string) bool { return !slices.Contains(v.lease.Instances, name) })
}

// differs reports whether the lists of l and m differ that other instances wait for, or how they were written. Instances can wait
// for the next renewal.
func (l Lease) differs(m Lease) bool {
	return l.Recreated != m.Recreated || !slices.Equal(l.History, m.History) || !slices.EqualFunc(l.Sync, m.Sync, Quorum.Equal)
}

// wantedSync returns the synchronous setting that should be in force: the standbys that have caught up, and those in it that have
// been missing only briefly. It never shrinks below the required number because a standby was lost: then commits wait. (9)
func (v *decider) wantedSync() *Quorum {
	if v.Synchronous == 0 {
		return nil
	}
	var before []string
	if n := len(v.lease.Sync); n > 0 {
		before = v.lease.Sync[n-1].Names
	}
	var names, away []string
	for _, name := range without(v.Instances, v.Self.Name) {
		f := v.in.Standbys[name]
		switch {
		case f.Streaming && f.CaughtUp:
			names = append(names, name)
		case !slices.Contains(before, name):
		case v.in.Now-max(f.StreamingAt, v.server.ProcessSince) <= v.LeaseDuration:
			names = append(names, name)
		default:
			away = append(away, name)
		}
	}
	if len(names) < v.Synchronous {
		names = append(names, away...)
	}
	slices.Sort(names)
	return &Quorum{Number: v.Synchronous, Names: names}
}

// syncToPublish returns the settings that may be in force from now on. A new setting is added before it is loaded. The others are
// removed once everything that was confirmed under them is also where the new setting needs it. (9)
func (v *decider) syncToPublish() []Quorum {
	want := v.wantedSync()
	switch {
	case want == nil:
		return nil
	case v.server.Sync != nil && v.server.Sync.Equal(*want) && v.syncEffective(*want):
		return []Quorum{*want}
	case len(v.lease.Sync) == 0 || want.satisfiable() && !slices.ContainsFunc(v.lease.Sync, want.Equal):
		return append(slices.Clone(v.lease.Sync), *want)
	}
	return v.lease.Sync
}

// satisfiable reports that q has enough names for a commit to return.
func (q Quorum) satisfiable() bool { return len(q.Names) >= q.Number }

// syncEffective reports that enough members of q have all WAL from before q was loaded.
func (v *decider) syncEffective(q Quorum) bool {
	n := 0
	for _, name := range q.Names {
		if v.in.Standbys[name].FlushLSN >= v.server.SyncLSN {
			n++
		}
	}
	return n >= q.Number
}

// nextSync returns the setting to load, once peers can read it in the Lease. (9)
func (v *decider) nextSync() (*Quorum, bool) {
	want, have := v.wantedSync(), v.server.Sync
	switch {
	case want == nil:
		return nil, have != nil
	case have != nil && have.Equal(*want):
		return nil, false
	case !want.satisfiable():
		return want, true
	}
	return want, v.recordNamesSelf() && v.lease.Primary == v.Self.Name && v.isPublished(*want)
}

// isPublished reports that q is in the Lease, whatever the outcome of the writes without an answer.
func (v *decider) isPublished(q Quorum) bool {
	writes := v.in.Tenure.Indeterminate
	if p := v.in.Tenure.Pending; p != nil {
		writes = append(slices.Clone(writes), *p)
	}
	lacks := func(w Write) bool { return !slices.ContainsFunc(w.Lease.Sync, q.Equal) }
	return slices.ContainsFunc(v.lease.Sync, q.Equal) && !slices.ContainsFunc(writes, lacks)
}
