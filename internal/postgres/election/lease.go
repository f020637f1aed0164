package election

import (
	"cmp"
	"slices"
	"time"
)

// Holder is a pod. A new pod of the same name is another holder.
type Holder struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// Position is a position in the WAL.
type Position struct {
	// Timeline is the highest timeline that a promotion may have used. A new promotion uses a higher one.
	Timeline uint32 `json:"timeline"`
	LSN      uint64 `json:"lsn"`
}

// Compare orders by timeline, then by LSN: -1, 0 or 1.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Timeline, q.Timeline), cmp.Compare(p.LSN, q.LSN))
}

// Quorum is the setting "ANY Number (Names)" of synchronous_standby_names. With fewer names than Number no commit returns.
type Quorum struct {
	Number int      `json:"number"`
	Names  []string `json:"names"` // sorted
}

// Equal reports whether q and r are the same setting.
func (q Quorum) Equal(r Quorum) bool { return q.Number == r.Number && slices.Equal(q.Names, r.Names) }

// Lease is the content of the cluster's Lease. The operator creates the object without a holder.
type Lease struct {
	// Version is the resourceVersion of the last read or write.
	Version string `json:"-"`
	// Holder holds the lease; zero means that no instance does.
	Holder Holder `json:"holder"`
	// Released means that the last holder released the lease after its PostgreSQL had stopped. A record without a holder that was
	// not released (of a re-created Lease) can be taken only after it was seen unchanged for as long as the record of a lost
	// holder.
	Released bool `json:"released,omitempty"`
	// Recreated means that the holder created the Lease again after a deletion, and has not renewed it since. Unlike an update,
	// such a write can arrive at any later time: it proves nothing about the current holder.
	Recreated bool `json:"recreated,omitempty"`
	// Preferred wins between equal candidates.
	Preferred string `json:"preferred,omitempty"`
	// SystemID is the system identifier of the cluster; "" before initdb.
	SystemID string `json:"systemID,omitempty"`
	// Timeline is the highest that any promotion may have used: a new one uses a higher one.
	Timeline uint32 `json:"timeline,omitempty"`
	// Primary is the pod that was read-write last.
	Primary string `json:"primary,omitempty"`
	// End is where the WAL of Primary ended when it last wrote this record. History is the history of End's timeline (the last 16
	// switches). CleanShutdown means that Primary shut down cleanly at End: no WAL follows.
	End           Position         `json:"end,omitzero"`
	History       []TimelineSwitch `json:"history,omitempty"`
	CleanShutdown bool             `json:"cleanShutdown,omitempty"`
	// Sync lists the settings of synchronous replication that may be in force, or under which commits were confirmed that the
	// last setting does not cover yet. A new primary satisfies each of them. An empty list means asynchronous.
	Sync []Quorum `json:"sync,omitempty"`
	// Generation is the newest generation of the object with which a holder wrote Sync; 0 if it is unknown.
	Generation int64 `json:"generation,omitempty"`
	// Instances are the only instances that may take the lease from a holder that did not release it. A holder that cannot renew
	// needs the promise of each. It lists the instances that it has recently heard from. An empty list means that the lease never
	// had a holder.
	Instances []string `json:"instances,omitempty"`
}

// Observation is what an agent knows of the Lease. The zero value means that the Lease was not read yet.
type Observation struct {
	// Lease is the content of the last read. Lease.Version is "" before the first read, and while there is no Lease.
	Lease Lease
	// UnchangedSince is when this record was seen for the first time, or the first read after reads had failed.
	UnchangedSince time.Duration
	// ReadAt is when the last successful read was answered.
	ReadAt time.Duration
	// FailedAt is when a request to the API server last failed.
	FailedAt time.Duration
	// HolderActive means that this process has seen the record change, and that no request has failed since: a holder writes it.
	HolderActive bool
}

// Read returns o after a read that was answered at now; l is zero if there is no Lease. Reads come in order. A pause longer than
// gap, three times [Timing.RenewInterval], counts as unobserved.
func (o Observation) Read(now, gap time.Duration, l Lease) Observation {
	switch {
	case o.Lease.Version != l.Version:
		o.UnchangedSince, o.HolderActive = now, o.Lease.Version != "" && l.Version != ""
	case o.FailedAt > o.ReadAt || now-o.ReadAt > gap:
		o.UnchangedSince, o.HolderActive = now, false
	}
	o.Lease, o.ReadAt = l, now
	return o
}

// Failed returns o after a request that failed or timed out at now. A rejected update is not a failure: read the Lease.
func (o Observation) Failed(now time.Duration) Observation {
	o.FailedAt, o.HolderActive = max(now, o.FailedAt), false
	return o
}

// Reachable reports whether the last request to the API server was answered.
func (o Observation) Reachable() bool { return o.ReadAt > o.FailedAt }

// withoutHolder reports whether l has no holder, and was not released either.
func (l Lease) withoutHolder() bool { return l.Holder == (Holder{}) && !l.Released }

// sharedUpTo returns up to which LSN the WAL at p is that of the last primary; ok is false if that is unknown.
func (l Lease) sharedUpTo(p Position) (lsn uint64, ok bool) {
	if p.Timeline == l.End.Timeline {
		return p.LSN, true
	}
	for _, f := range l.History {
		if f.Timeline == p.Timeline {
			return min(p.LSN, f.LSN), true
		}
	}
	return 0, false
}

// diverged reports whether the WAL at p contains something that the last primary's WAL does not.
func (l Lease) diverged(p Position) bool {
	if l.End == (Position{}) || p.Timeline > l.End.Timeline { // a promotion that is not published yet
		return false
	}
	lsn, ok := l.sharedUpTo(p)
	return !ok || lsn < p.LSN
}

// missing returns how many bytes the WAL at p lacks of what the last primary is known to have written; ok as of sharedUpTo. A
// timeline that the record does not contain belongs to a primary whose record was lost.
func (l Lease) missing(p Position) (bytes uint64, ok bool) {
	switch {
	case l.End == (Position{}):
		return 0, true
	case p.Timeline > l.Timeline:
		return 0, false
	case p.Timeline > l.End.Timeline:
		return 0, true
	}
	lsn, ok := l.sharedUpTo(p)
	return l.End.LSN - min(lsn, l.End.LSN), ok
}
