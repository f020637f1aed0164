package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/fettle-dev/fettle/internal/backup/walarchive"
	"github.com/fettle-dev/fettle/internal/postgres/election"
)

// archiveInherited makes a new primary archive all segments of its ancestors that no archiver was told of. PostgreSQL leaves out a
// segment that ended early, by pg_switch_wal or archive_timeout, if the former primary died before it had sent the unused rest: its
// last record ends the segment for the replay, but the WAL receiver waits for the rest. Recovery would end at this gap. segment is
// the size of a segment in bytes.
func archiveInherited(data string, history []election.TimelineSwitch, segment int64) error {
	entries, err := os.ReadDir(filepath.Join(data, "pg_wal"))
	if err != nil {
		return fmt.Errorf("archive inherited WAL: %w", err)
	}
	for _, entry := range entries {
		name := entry.Name()
		if !walarchive.IsSegment(name) || !isInherited(name, history, segment) {
			continue
		}
		mark := filepath.Join(data, "pg_wal", "archive_status", name)
		_, ready := os.Stat(mark + readySuffix)
		_, done := os.Stat(mark + ".done")
		if ready == nil || done == nil {
			continue
		}
		if err := os.WriteFile(mark+readySuffix, nil, 0o600); err != nil {
			return fmt.Errorf("archive inherited WAL: %w", err)
		}
	}
	return nil
}

// isInherited reports whether all of a segment is before the end of its timeline. Files beyond are recycled ones.
func isInherited(name string, history []election.TimelineSwitch, segment int64) bool {
	timeline, errTimeline := strconv.ParseUint(name[:8], 16, 32)
	high, errHigh := strconv.ParseUint(name[8:16], 16, 32)
	low, errLow := strconv.ParseUint(name[16:], 16, 32)
	if errors.Join(errTimeline, errHigh, errLow) != nil || segment <= 0 {
		return false
	}
	end := high<<32 + (low+1)*uint64(segment)
	return slices.ContainsFunc(history, func(s election.TimelineSwitch) bool { return uint64(s.Timeline) == timeline && end <= s.LSN })
}
