package election

import (
	"maps"
	"slices"
	"time"
)

// Write is one update of the Lease.
type Write struct {
	// Sent is when it was sent, Lease its content.
	Sent  time.Duration
	Lease Lease
}

// Tenure is what an agent knows of its own writes to the Lease. Begin announces each write before it is sent. Exactly one of
// Applied, Rejected and Unknown ends it.
type Tenure struct {
	// Confirmed is the last successful write as a holder; zero while this process does not hold the lease.
	Confirmed Write
	// LastRecord is the record of this holder as of its last read or its last successful write.
	LastRecord Lease
	// Recreated means that the Lease was deleted, or re-created, since.
	Recreated bool
	// AcquiredAt is when the first write of this tenure was sent.
	AcquiredAt time.Duration
	// Pending is the write in progress; nil if there is none.
	Pending *Write
	// Indeterminate are writes with unknown outcome: each may have been applied, or may still be. No two are equivalent.
	Indeterminate []Write
	// Promises are, by peer, when the last granted request was sent.
	Promises map[string]time.Duration
	// TriedAt is when the last write was sent, PromisesRequestedAt when the last round of requests for promises was.
	TriedAt, PromisesRequestedAt time.Duration
}

// Begin returns h with a write of l that is about to be sent.
func (h Tenure) Begin(now time.Duration, l Lease) Tenure {
	h.Pending, h.TriedAt = &Write{Sent: now, Lease: l}, now
	return h
}

// Applied returns h after the pending write succeeded. The caller observes the returned record like a read.
func (h Tenure) Applied() Tenure {
	w := *h.Pending
	h.Pending, h.Indeterminate = nil, nil
	if w.Lease.Holder == (Holder{}) {
		return Tenure{TriedAt: h.TriedAt}
	}
	if h.Confirmed.Sent == 0 || h.Recreated {
		h.AcquiredAt = w.Sent
	}
	h.Confirmed, h.LastRecord, h.Recreated = w, w.Lease, false
	return h
}

// Rejected returns h after the pending write was certainly not applied. The caller reads the Lease next.
func (h Tenure) Rejected() Tenure {
	h.Pending = nil
	return h
}

// Unknown returns h after the pending write timed out. The first of several equivalent writes stands for all, so the list does
// not grow during a long outage.
func (h Tenure) Unknown() Tenure {
	if w := *h.Pending; !slices.ContainsFunc(h.Indeterminate, w.equivalent) {
		h.Indeterminate = append(slices.Clone(h.Indeterminate), w)
	}
	h.Pending = nil
	return h
}

// equivalent reports whether it makes no difference which of two indeterminate writes is applied: both replace the same record
// with the same content.
func (w Write) equivalent(other Write) bool {
	l, m := w.Lease, other.Lease
	return l.Version == m.Version && l.Holder == m.Holder && slices.Equal(l.Instances, m.Instances) &&
		slices.EqualFunc(l.Sync, m.Sync, Quorum.Equal)
}

// Read returns h after a read of the Lease that was sent while no write was in progress; l is zero if there is no Lease. A record
// that has no holder and was not released is a re-created Lease: the holder writes itself into it, or creates it again.
func (h Tenure) Read(self Holder, l Lease) Tenure {
	switch {
	case l.Holder == self:
		h.LastRecord, h.Recreated = l, false
		return h
	case l.withoutHolder() && h.Confirmed.Sent > 0:
		h.Recreated = true
		return h
	}
	stale := func(w Write) bool { return w.Lease.Version != l.Version }
	return Tenure{
		Pending:       h.Pending,
		Indeterminate: slices.DeleteFunc(slices.Clone(h.Indeterminate), stale),
		TriedAt:       h.TriedAt,
	}
}

// lastRecordAt returns the last record of this holder as the content of a Lease that was deleted or re-created since. It contains
// the current settings of synchronous replication, because no setting is loaded before its record was read.
func (h Tenure) lastRecordAt(version string) Lease {
	l := h.LastRecord
	l.Version, l.Holder = version, Holder{}
	return l
}

// Granted returns h after peer granted the request that was sent at sent.
func (h Tenure) Granted(peer string, sent time.Duration) Tenure {
	h.Promises = maps.Clone(h.Promises)
	if h.Promises == nil {
		h.Promises = map[string]time.Duration{}
	}
	h.Promises[peer] = max(h.Promises[peer], sent)
	return h
}
