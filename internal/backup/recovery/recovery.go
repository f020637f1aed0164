// Package recovery decides how to restore a Physical backup: which base backup, which timeline, and whether the archived WAL
// reaches the target. It is pure: it reads neither the store nor the clock.
package recovery

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

// clockSkew is how far the clocks of the database and of the store may differ.
const clockSkew = time.Minute

// Base is a base backup.
type Base struct {
	// Run is its name.
	Run string
	// SystemID is the system identifier of the database cluster.
	SystemID string
	// Completed is when the copy ended: each later time can be a target.
	Completed time.Time
	// Timeline has all WAL of the copy, which replay needs from Start to End.
	Timeline   wal.Timeline
	Start, End wal.LSN
	// SegmentSize is the size of a WAL segment in bytes.
	SegmentSize int64
}

// Archive is the archived WAL of one system identifier.
type Archive struct {
	// Timelines in any order.
	Timelines []Timeline
}

// Timeline is one timeline in the archive.
type Timeline struct {
	ID wal.Timeline
	// History is empty for timeline 1.
	History wal.History
	// Created is when the history was stored, by the clock of the store; zero if unknown.
	Created time.Time
	// Segments are the numbers of its complete segments, in any order: the position of a segment divided by its size.
	Segments []uint64
}

// Plan is how to restore.
type Plan struct {
	Base Base
	// Timeline is that of the target. Replay follows its history.
	Timeline wal.Timeline
	// Reach is the end of the archived WAL on the way to it, without a gap. Last is the name of its last segment.
	Reach wal.LSN
	Last  string
	// Gap is true if there is further WAL behind Reach, and Missing is the segment that it needs first.
	Gap     bool
	Missing string
}

// Error is why a backup cannot be restored to the target.
type Error struct {
	// Reason of the condition.
	Reason string
	// Message says what is wrong and what to do.
	Message string
}

func (e *Error) Error() string { return e.Message }

func failed(reason, format string, arguments ...any) *Error {
	return &Error{Reason: reason, Message: fmt.Sprintf(format, arguments...)}
}

// SystemID returns the system identifier of the cluster to restore: that of the named run, or of the newest backup that is
// complete before the target. A PostgreSQL that was deleted and created again stores backups of two clusters at one place.
func SystemID(bases []Base, target Target) (string, error) {
	candidates, err := target.candidates(bases)
	if err != nil {
		return "", err
	}
	return candidates[0].SystemID, nil
}

// candidates are the backups that are complete before the target, newest first. The error says that there is none.
func (t Target) candidates(bases []Base) ([]Base, error) {
	bases = slices.Clone(bases)
	slices.SortFunc(bases, func(a, b Base) int { return b.Completed.Compare(a.Completed) })
	if t.Run != "" {
		bases = slices.DeleteFunc(bases, func(b Base) bool { return b.Run != t.Run })
		if len(bases) == 0 {
			return nil, failed(backupv1alpha1.ReasonNoBackup, "the store has no complete Physical backup %s: check spec.bootstrap.recovery.location.run", t.Run)
		}
	}
	if len(bases) == 0 {
		return nil, failed(backupv1alpha1.ReasonNoBackup, "the store has no complete Physical backup at this place: check destination, namespace and backup")
	}
	oldest := bases[len(bases)-1]
	if !t.Time.IsZero() {
		bases = slices.DeleteFunc(bases, func(b Base) bool { return b.Completed.After(t.Time) })
	}
	if len(bases) == 0 {
		return nil, failed(databasev1alpha1.ReasonTargetTooEarly, "targetTime %s is before the end of the oldest usable backup, %s at %s: choose a later time",
			t.Time.UTC().Format(time.RFC3339Nano), oldest.Run, oldest.Completed.UTC().Format(time.RFC3339))
	}
	return bases, nil
}

// Choose decides from the backups of one system identifier and its archive. It prefers the highest timeline that a backup can
// follow, as PostgreSQL does. For a time, it ignores timelines that a later restore to an earlier position began. Of the backups, it
// prefers the newest one before the target. For a transaction or a name it takes the oldest one, because only replay shows where they are.
func Choose(bases []Base, archive Archive, target Target, now time.Time) (Plan, error) {
	if target.Time.After(now.Add(clockSkew)) {
		return Plan{}, failed(databasev1alpha1.ReasonTargetNotReached, "targetTime %s is in the future: choose a time in the past", target.Time.UTC().Format(time.RFC3339Nano))
	}
	candidates, err := target.candidates(bases)
	if err != nil {
		return Plan{}, err
	}
	if target.XID != "" || target.Name != "" {
		slices.Reverse(candidates)
	}
	timelines := archive.withOwn(candidates)
	var first error
	for _, timeline := range target.eligible(timelines, candidates[0].SegmentSize) {
		for _, base := range candidates {
			p := way(timeline, timelines)
			if !p.contains(base) {
				continue
			}
			plan := p.follow(base)
			err := plan.check(target)
			if err == nil {
				return plan, nil
			}
			if first == nil {
				first = err
			}
			if target.Immediate {
				break // an older backup is another target
			}
		}
		if first != nil && target.LSN == 0 {
			break // a lower timeline lacks the latest data; only a position may be on it alone
		}
	}
	return Plan{}, cmp.Or(first, target.noTimeline())
}

// eligible are the timelines that replay to the target may follow.
func (t Target) eligible(timelines []Timeline, segmentSize int64) []Timeline {
	return slices.DeleteFunc(slices.Clone(timelines), func(line Timeline) bool {
		if t.Timeline != 0 {
			return line.ID != t.Timeline
		}
		return !t.Time.IsZero() && forked(line, timelines, t.Time, segmentSize)
	})
}

// noTimeline is the error where no backup leads to an eligible timeline.
func (t Target) noTimeline() error {
	if t.Timeline != 0 {
		return failed(backupv1alpha1.ReasonNoBackup, "no backup before the target leads to timeline %d: check targetTimeline", t.Timeline)
	}
	return failed(databasev1alpha1.ReasonRecoveryFailed, "no backup is on a known timeline: the archive has no usable timeline history")
}

// withOwn returns the timelines, highest first, with those of the backups even if nothing of them is archived.
func (a Archive) withOwn(bases []Base) []Timeline {
	out := slices.Clone(a.Timelines)
	for _, b := range bases {
		if !slices.ContainsFunc(out, func(t Timeline) bool { return t.ID == b.Timeline }) {
			out = append(out, Timeline{ID: b.Timeline})
		}
	}
	slices.SortFunc(out, func(a, b Timeline) int { return cmp.Compare(b.ID, a.ID) })
	for i := range out {
		out[i].Segments = slices.Sorted(slices.Values(out[i].Segments))
	}
	return out
}

// check returns why a plan does not reach the target. A time is only checked by CheckTime.
func (p Plan) check(target Target) error {
	switch {
	case p.Reach < p.Base.End:
		return failed(databasev1alpha1.ReasonWALMissing,
			"backup %s needs WAL up to %s, and the archive lacks segment %s: choose another backup with location.run", p.Base.Run, p.Base.End, p.Missing)
	case target.Immediate:
		return nil
	case target.LSN != 0 && target.LSN < p.Base.End:
		return failed(databasev1alpha1.ReasonTargetTooEarly, "targetLSN %s is before the end of the oldest usable backup, %s at %s: choose a later position",
			target.LSN, p.Base.Run, p.Base.End)
	case target.LSN > p.Reach:
		return p.tooFar("targetLSN " + target.LSN.String())
	case target.LSN != 0, !target.Time.IsZero(), target.XID != "", target.Name != "":
		return nil
	case p.Gap:
		return p.tooFar("the end of the archive")
	}
	return nil
}

func (p Plan) tooFar(what string) error {
	if p.Gap {
		return failed(databasev1alpha1.ReasonWALMissing, "the archive lacks segment %s before %s: choose a target before %s, or a backup after it", p.Missing, what, p.Reach)
	}
	return failed(databasev1alpha1.ReasonTargetNotReached, "the archived WAL of timeline %d ends at %s, before %s: choose an earlier target", p.Timeline, p.Reach, what)
}

// CheckTime returns why the plan does not reach a time. stored is when the segment Last was stored: its commits are older.
func (p Plan) CheckTime(target Target, stored time.Time) error {
	if target.Time.IsZero() || !target.Time.After(stored.Add(clockSkew)) {
		return nil
	}
	return p.tooFar(fmt.Sprintf("targetTime %s (its last WAL was stored at %s)", target.Time.UTC().Format(time.RFC3339Nano), stored.UTC().Format(time.RFC3339)))
}
