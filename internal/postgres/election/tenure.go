package election

import (
	"maps"
	"slices"
	"time"
)

// Write is one update of the Lease.
type Write struct {
	// Sent is when it was sent; Lease what it wrote.
	Sent  time.Duration
	Lease Lease
}

// Tenure is what an agent knows of its own writes of the Lease. Each write is announced by Begin before it is sent and
// ended by exactly one of Applied, Refused and Unknown.
type Tenure struct {
	// Confirmed is the last write as a holder that succeeded; zero while this process does not hold the Lease.
	Confirmed Write
	// LastRecord is the record of this holder as it was last read, or as the last write that succeeded left it.
	LastRecord Lease
	// Recreated says that the Lease was deleted, or made anew, since.
	Recreated bool
	// AcquiredAt is when the first write of this holding was sent.
	AcquiredAt time.Duration
	// Pending is the write under way; nil if none is.
	Pending *Write
	// Indeterminate are writes whose outcome is not known: any of them may have been applied, or still be. No two are alike.
	Indeterminate []Write
	// Promises are when the question was sent that a peer granted last.
	Promises map[string]time.Duration
	// TriedAt is when the last write was sent, PromisesRequestedAt when the last round of questions was.
	TriedAt, PromisesRequestedAt time.Duration
}

// Begin returns h with a write of l that is about to be sent.
func (h Tenure) Begin(now time.Duration, l Lease) Tenure {
	h.Pending, h.TriedAt = &Write{Sent: now, Lease: l}, now
	return h
}

// Applied returns h after the pending write succeeded; the caller observes the record it returned as a read.
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

// Unknown returns h after the pending write was given up without an answer. Of several that say the same the first one stands for all, so
// that what is kept, and gone through in each turn of the loop, does not grow with the length of an outage.
func (h Tenure) Unknown() Tenure {
	if w := *h.Pending; !slices.ContainsFunc(h.Indeterminate, w.equivalent) {
		h.Indeterminate = append(slices.Clone(h.Indeterminate), w)
	}
	h.Pending = nil
	return h
}

// equivalent says that it makes no difference which of two unsettled writes is applied: both replace the same record, and tell the same.
func (w Write) equivalent(other Write) bool {
	l, m := w.Lease, other.Lease
	return l.Version == m.Version && l.Holder == m.Holder && slices.Equal(l.Instances, m.Instances) &&
		slices.EqualFunc(l.Sync, m.Sync, Quorum.Equal)
}

// Read returns h after a read of the Lease that was sent when no write was under way; l is zero if there is no Lease. A
// record without holder that nobody released is a Lease made anew: the holder writes itself into it, or makes it again.
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

// lastRecordAt is what this holder left, as the content of a Lease that was taken away, or made anew, since: the settings of
// synchronous replication that are in force are in it, as none is loaded before it was read.
func (h Tenure) lastRecordAt(version string) Lease {
	l := h.LastRecord
	l.Version, l.Holder = version, Holder{}
	return l
}

// Granted returns h after peer granted the question that was sent at sent.
func (h Tenure) Granted(peer string, sent time.Duration) Tenure {
	h.Promises = maps.Clone(h.Promises)
	if h.Promises == nil {
		h.Promises = map[string]time.Duration{}
	}
	h.Promises[peer] = max(h.Promises[peer], sent)
	return h
}
