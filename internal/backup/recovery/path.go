package recovery

import (
	"fmt"
	"slices"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

// path is a timeline and its ancestors, oldest first.
type path []step

// step is the part of a timeline that belongs to a path: from begin to end. end is 0 for the last one.
type step struct {
	timeline   wal.Timeline
	begin, end wal.LSN
	segments   []uint64
}

// way returns the path to a timeline.
func way(to Timeline, all []Timeline) path {
	var out path
	begin := wal.LSN(0)
	for _, ancestor := range to.History {
		s := step{timeline: ancestor.Timeline, begin: begin, end: ancestor.SwitchPoint}
		if i := slices.IndexFunc(all, func(t Timeline) bool { return t.ID == ancestor.Timeline }); i >= 0 {
			s.segments = all[i].Segments
		}
		out, begin = append(out, s), ancestor.SwitchPoint
	}
	return append(out, step{timeline: to.ID, begin: begin, segments: to.Segments})
}

// forked reports whether a timeline, or one that it comes from, was created after a time and left out WAL that its parent had archived: a
// restore to an earlier position began it, so it may lack what was committed before that time. A failover begins where its parent ends.
func forked(t Timeline, all []Timeline, at time.Time, segmentSize int64) bool {
	of := func(id wal.Timeline) Timeline {
		if i := slices.IndexFunc(all, func(t Timeline) bool { return t.ID == id }); i >= 0 {
			return all[i]
		}
		return Timeline{ID: id}
	}
	for i, parent := range t.History {
		child := t
		if i+1 < len(t.History) {
			child = of(t.History[i+1].Timeline)
		}
		next := uint64(parent.SwitchPoint) / uint64(max(segmentSize, 1)) //nolint:gosec // above 0
		beyond := slices.ContainsFunc(of(parent.Timeline).Segments, func(n uint64) bool { return n >= next })
		if beyond && child.Created.After(at) {
			return true
		}
	}
	return false
}

// contains reports whether replay of a backup can follow the path: all WAL of its copy is part of it.
func (p path) contains(b Base) bool {
	return slices.ContainsFunc(p, func(s step) bool {
		return s.timeline == b.Timeline && (s.end == 0 || b.End <= s.end)
	})
}

// owner returns the step that PostgreSQL reads a segment from: the newest timeline that begins in it or before it.
func (p path) owner(segment, size uint64) int {
	for i := len(p) - 1; i > 0; i-- {
		if uint64(p[i].begin)/size <= segment {
			return i
		}
	}
	return 0
}

func (s step) has(segment uint64) bool {
	_, found := slices.BinarySearch(s.segments, segment)
	return found
}

// follow returns how far the archived WAL goes from a backup on.
func (p path) follow(b Base) Plan {
	size := uint64(max(b.SegmentSize, 1)) //nolint:gosec // above 0
	plan := Plan{Base: b, Timeline: p[len(p)-1].timeline}
	segment := uint64(b.Start) / size
	plan.Reach = wal.LSN(segment * size)
	for ; ; segment++ {
		at := p.owner(segment, size)
		if p[at].has(segment) {
			plan.Last, plan.Reach = segmentName(p[at].timeline, segment, size), wal.LSN((segment+1)*size)
			continue
		}
		// Where a timeline begins inside a segment, the one before it may have this segment too, with the same WAL up to there.
		if at > 0 && uint64(p[at].begin)/size == segment && p[at-1].has(segment) {
			plan.Last, plan.Reach = segmentName(p[at-1].timeline, segment, size), p[at].begin
		}
		plan.Missing = segmentName(p[at].timeline, segment, size)
		break
	}
	plan.Gap = p.hasAfter(segment, size)
	return plan
}

// hasAfter reports whether there are segments of the path behind one.
func (p path) hasAfter(segment, size uint64) bool {
	for i, s := range p {
		for _, n := range s.segments {
			if n > segment && p.owner(n, size) == i {
				return true
			}
		}
	}
	return false
}

// bytesPerFile is how many bytes of WAL have the same second number in the names of their segments.
const bytesPerFile = 1 << 32

func segmentName(timeline wal.Timeline, segment, size uint64) string {
	per := bytesPerFile / size
	return fmt.Sprintf("%08X%08X%08X", uint32(timeline), segment/per, segment%per)
}

// SegmentNumber returns the timeline and the number of a segment from its name. ok is false for other names, such as
// those of partial segments.
func SegmentNumber(name string, size int64) (timeline wal.Timeline, segment uint64, ok bool) {
	const digits = 24
	var log, part uint32
	if len(name) != digits || size <= 0 {
		return 0, 0, false
	}
	var number uint32
	if n, err := fmt.Sscanf(name, "%08X%08X%08X", &number, &log, &part); err != nil || n != 3 {
		return 0, 0, false
	}
	timeline = wal.Timeline(number)
	segment = uint64(log)*(bytesPerFile/uint64(size)) + uint64(part)
	return timeline, segment, segmentName(timeline, segment, uint64(size)) == name
}

// SegmentAt returns the name of the segment that has the byte before a position, the last one that replay to it needs.
func SegmentAt(timeline wal.Timeline, at wal.LSN, size int64) string {
	return segmentName(timeline, uint64(max(at, 1)-1)/uint64(size), uint64(size)) //nolint:gosec // above 0
}
