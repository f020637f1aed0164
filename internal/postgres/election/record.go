package election

import (
	"cmp"
	"slices"
)

const (
	// history is how many forks a record carries.
	history = 16
	// unknown is how many promotions may follow by an instance that took a Lease without a record, before timelines may collide.
	unknown = 16
)

// forgotten says that what the Lease told was lost with it: somebody deleted it, and its holder did not make it again.
func (v *view) forgotten() bool {
	return v.lease.Primary == "" && v.lease.Timeline == 0 && (v.lease.Remade || !v.MayInitialize)
}

// ownTimeline returns one after used from a range that belongs to this instance alone, for when the record was lost.
func (v *view) ownTimeline(used uint32) uint32 {
	own := uint32(slices.Index(v.Instances, v.Self.Name)) //nolint:gosec // there are few, and this is one of them
	round := uint32(unknown * 64)
	return (used/round+1)*round + own*unknown
}

// claim returns the record that takes the Lease. It claims a timeline that nobody has used, unless the instance was the primary and goes on
// with its own. The rest stays that of the last primary; where the record was lost, Sync says what has to be assumed.
func (v *view) claim() Lease {
	l := v.lease
	l.Holder, l.Released, l.Remade, l.Preferred, l.Whole = v.Self, false, false, "", false
	l.Instances, l.Generation = v.Instances, max(l.Generation, v.Generation)
	if v.forgotten() && v.Synchronous > 0 {
		l.Sync = v.quorums()
	}
	switch s := v.server; {
	case v.forgotten() && s.Position.Timeline > 0:
		l.Timeline = v.ownTimeline(max(s.Position.Timeline, s.Highest))
	case s.Role == Standby || l.Timeline > s.Position.Timeline:
		l.Timeline = max(l.Timeline, s.Position.Timeline, s.Highest) + 1
	default:
		l.Timeline = s.Position.Timeline
	}
	return l
}

// claimed says that the Lease claims a timeline that this standby can be promoted to: a crash may hide that it was already.
func (v *view) claimed() bool {
	return v.lease.Timeline > max(v.server.Position.Timeline, v.server.Highest)
}

// record returns what the holder publishes with its next renewal. urgent says that others wait for it.
func (v *view) record() (next Lease, urgent bool) {
	l, have := v.lease, v.lease
	l.Holder, l.Released, l.Remade, l.Preferred = v.Self, false, v.absent(), ""
	l.Instances, l.Generation = v.listed(), max(l.Generation, v.Generation)
	l.SystemID = cmp.Or(v.server.SystemID, l.SystemID)
	if l.Primary == "" && v.server.Role == Primary && v.server.Data == Usable {
		l.Primary = v.Self.Name
	}
	if v.server.standby() && !v.claimed() {
		l.Timeline = max(v.server.Position.Timeline, v.server.Highest) + 1
	}
	if v.server.primary() {
		l.Primary, l.Whole, l.End = v.Self.Name, false, v.server.Position
		l.Timeline = max(l.Timeline, l.End.Timeline)
		l.History = v.server.History[max(0, len(v.server.History)-history):]
		l.Sync = v.publish()
	}
	return l, l.Holder != have.Holder || l.Primary != have.Primary || l.Timeline != have.Timeline ||
		l.SystemID != have.SystemID || l.differs(have)
}

// listed returns the instances that may take the Lease from this holder, and that it asks for a promise: all heard of, by an answer or a
// stream, within the last length of a Lease. One that is down for longer must not stop the primary when the API server is away too. The
// last ones left stay listed: somebody has to be able to take over when this holder is lost. (3, 7)
func (v *view) listed() []string {
	silent := func(name string) bool {
		heard := max(v.in.Peers[name].Sent, v.in.Followers[name].Seen, v.in.Holding.From)
		return name != v.Self.Name && v.in.Now-heard > v.Lease
	}
	if out := slices.DeleteFunc(slices.Clone(v.Instances), silent); len(out) > 1 {
		return out
	}
	return slices.DeleteFunc(slices.Clone(v.Instances), func(name string) bool { return !slices.Contains(v.lease.Instances, name) })
}

// differs says whether the lists of l and m differ that others wait for, or how they were written. Instances can wait for the next renewal.
func (l Lease) differs(m Lease) bool {
	return l.Remade != m.Remade || !slices.Equal(l.History, m.History) || !slices.EqualFunc(l.Sync, m.Sync, Quorum.Equal)
}

// wanted returns the synchronous setting that shall be in force: the standbys that have caught up, and those in it that have not been away
// for long. It never has too few members for having lost one: then commits wait. (9)
func (v *view) wanted() *Quorum {
	if v.Synchronous == 0 {
		return nil
	}
	var before []string
	if n := len(v.lease.Sync); n > 0 {
		before = v.lease.Sync[n-1].Names
	}
	var names, away []string
	for _, name := range without(v.Instances, v.Self.Name) {
		f := v.in.Followers[name]
		switch {
		case f.Streaming && f.CaughtUp:
			names = append(names, name)
		case !slices.Contains(before, name):
		case v.in.Now-max(f.Seen, v.server.Since) <= v.Lease:
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

// publish returns the settings that may be in force from now on: a new one is added before it is loaded, and the others
// are dropped once everything acknowledged under them is also where the new one needs it. (9)
func (v *view) publish() []Quorum {
	want := v.wanted()
	switch {
	case want == nil:
		return nil
	case v.server.Sync != nil && v.server.Sync.Equal(*want) && v.settled(*want):
		return []Quorum{*want}
	case len(v.lease.Sync) == 0 || want.possible() && !slices.ContainsFunc(v.lease.Sync, want.Equal):
		return append(slices.Clone(v.lease.Sync), *want)
	}
	return v.lease.Sync
}

func (q Quorum) possible() bool { return len(q.Names) >= q.Number }

// settled says that enough members of q have everything from before q was loaded.
func (v *view) settled(q Quorum) bool {
	n := 0
	for _, name := range q.Names {
		if v.in.Followers[name].Flushed >= v.server.SyncAt {
			n++
		}
	}
	return n >= q.Number
}

// nextSync returns the setting to load, once the others know of it. (9)
func (v *view) nextSync() (*Quorum, bool) {
	want, have := v.wanted(), v.server.Sync
	switch {
	case want == nil:
		return nil, have != nil
	case have != nil && have.Equal(*want):
		return nil, false
	case !want.possible():
		return want, true
	}
	return want, v.mine() && v.lease.Primary == v.Self.Name && v.published(*want)
}

// published says that q is in the Lease, whatever became of the writes that have no answer yet.
func (v *view) published(q Quorum) bool {
	writes := v.in.Holding.Unsettled
	if p := v.in.Holding.Pending; p != nil {
		writes = append(slices.Clone(writes), *p)
	}
	lacks := func(w Write) bool { return !slices.ContainsFunc(w.Lease.Sync, q.Equal) }
	return slices.ContainsFunc(v.lease.Sync, q.Equal) && !slices.ContainsFunc(writes, lacks)
}
