package election

import (
	"cmp"
	"slices"
	"time"
)

// Holder is a pod: a new pod of the same name is somebody else.
type Holder struct {
	Name string `json:"name"`
	UID  string `json:"uid"`
}

// Position is a place in the write-ahead log.
type Position struct {
	Timeline uint32 `json:"timeline"`
	LSN      uint64 `json:"lsn"`
}

// Compare orders by timeline, then by LSN: -1, 0 or 1.
func (p Position) Compare(q Position) int {
	return cmp.Or(cmp.Compare(p.Timeline, q.Timeline), cmp.Compare(p.LSN, q.LSN))
}

// Quorum is the setting "ANY Number (Names)" of synchronous_standby_names. With fewer names nothing can be acknowledged.
type Quorum struct {
	Number int      `json:"number"`
	Names  []string `json:"names"` // sorted
}

// Equal says whether q and r are the same setting.
func (q Quorum) Equal(r Quorum) bool { return q.Number == r.Number && slices.Equal(q.Names, r.Names) }

// Lease is the content of the cluster's Lease. The object is made by the operator with no holder.
type Lease struct {
	// Version is the resourceVersion it was read at, or that the last write returned.
	Version string `json:"-"`
	// Holder has the Lease; zero if nobody has.
	Holder Holder `json:"holder"`
	// Released says that the last holder gave it back after its PostgreSQL was down. A record without holder that was
	// not released (a Lease made anew) is taken only after it has been seen unchanged like that of a lost holder.
	Released bool `json:"released,omitempty"`
	// Recreated says that the holder made the Lease again after somebody deleted it, and has not renewed it since. Unlike an
	// update such a write may arrive at any later time: it proves nothing about who holds the Lease when it is read.
	Recreated bool `json:"recreated,omitempty"`
	// Preferred wins between equal candidates.
	Preferred string `json:"preferred,omitempty"`
	// SystemID is that of the cluster, "" before initdb.
	SystemID string `json:"systemID,omitempty"`
	// Timeline is the highest that any promotion may have used: a new one uses a higher one.
	Timeline uint32 `json:"timeline,omitempty"`
	// Primary is the pod that was read-write last.
	Primary string `json:"primary,omitempty"`
	// End is where the log of Primary ended when it last wrote this record, History that of End's timeline (the last 16 forks). Whole says
	// that Primary stopped there in order: nothing comes after.
	End           Position         `json:"end,omitzero"`
	History       []TimelineSwitch `json:"history,omitempty"`
	CleanShutdown bool             `json:"cleanShutdown,omitempty"`
	// Sync are the settings of synchronous replication that may be in force, or may have been while rows were
	// acknowledged that are not yet covered by the last: a new primary satisfies each of them. None is asynchronous.
	Sync []Quorum `json:"sync,omitempty"`
	// Generation is the newest one of the object by which a holder wrote Sync; 0 if that is not known, as agents of releases before wrote none.
	Generation int64 `json:"generation,omitempty"`
	// Instances are those whose promise a holder needs that can't renew, and the only ones that may take the Lease
	// from a holder that did not release it: those that it has heard of lately. Empty: nobody ever held it.
	Instances []string `json:"instances,omitempty"`
}

// Observation is what an agent knows of the Lease. The zero value has not read it yet.
type Observation struct {
	// Lease is as last read; Lease.Version is "" until then, and while there is no Lease.
	Lease Lease
	// UnchangedSince is when this very record was seen for the first time, or the first read after reads had failed.
	UnchangedSince time.Duration
	// ReadAt is when the last successful read was answered.
	ReadAt time.Duration
	// FailedAt is when a request to the API server failed the last time.
	FailedAt time.Duration
	// HolderActive says that this process has seen the record change, and that no request has failed since: somebody writes it.
	HolderActive bool
}

// Read returns o after a read that was answered at now; l is zero if there is no Lease. Reads come in order. A pause above gap, three times
// [Timing.Renew], counts as unobserved.
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

// Failed returns o after a request that failed, or was given up, at now. A refused update is no failure: read the Lease.
func (o Observation) Failed(now time.Duration) Observation {
	o.FailedAt, o.HolderActive = max(now, o.FailedAt), false
	return o
}

// Reachable says whether the last request to the API server was answered.
func (o Observation) Reachable() bool { return o.ReadAt > o.FailedAt }

// withoutHolder says that nobody holds l, and that nobody gave it back either.
func (l Lease) withoutHolder() bool { return l.Holder == (Holder{}) && !l.Released }

// sharedUpTo returns up to where the log at p is that of the last primary; ok is false if that isn't known.
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

// diverged says that the log at p has something that the last primary's does not.
func (l Lease) diverged(p Position) bool {
	if l.End == (Position{}) || p.Timeline > l.End.Timeline { // a promotion that is not published yet
		return false
	}
	lsn, ok := l.sharedUpTo(p)
	return !ok || lsn < p.LSN
}

// missing returns how many bytes known to be written by the last primary the log at p lacks; ok as of common. A timeline that the record
// does not know of is that of a primary whose record was lost.
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
