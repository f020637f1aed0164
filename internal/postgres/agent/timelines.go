package agent

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/fettle-dev/fettle/internal/postgres/election"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

// reservation is the content of a history file that only keeps a timeline from being used.
const reservation = "# left out: another instance may have used this timeline\n"

// reserveSkippedTimelines makes the next promotion of the server in data use a timeline above after: PostgreSQL takes the first
// timeline without a history file. The files name no ancestor, so no running server ever follows them.
func reserveSkippedTimelines(data string, current, after uint32) error {
	return reserveTimelines(data, skippedTimelines(current, after+1, nil))
}

// skippedTimelines are the timelines above current and below next, without those of history.
func skippedTimelines(current, next uint32, history []election.TimelineSwitch) []uint32 {
	var out []uint32
	for timeline := current + 1; timeline < next; timeline++ {
		if !slices.ContainsFunc(history, func(f election.TimelineSwitch) bool { return f.Timeline == timeline }) {
			out = append(out, timeline)
		}
	}
	return out
}

func reserveTimelines(data string, timelines []uint32) error {
	for _, timeline := range timelines {
		path := filepath.Join(data, "pg_wal", wal.HistoryFile(wal.Timeline(timeline)))
		file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("reserve timeline %d: %w", timeline, err)
		}
		_, err = file.WriteString(reservation)
		if err := errors.Join(err, file.Close()); err != nil {
			return fmt.Errorf("reserve timeline %d: %w", timeline, err)
		}
	}
	return nil
}

// fillGaps reserves the timelines that the primary and its predecessors have skipped, on each primary. A standby that is behind
// requests the history of every timeline, one after the other, and stops following at a missing one. fillGaps also archives the
// timelines that this primary skipped, once its own history is archived: recovery to "latest" probes timeline after timeline, and
// ends at the first missing one. done means that nothing is left to do for this timeline.
func fillGaps(data string, timeline uint32, history []election.TimelineSwitch) (done bool, err error) {
	if err := reserveTimelines(data, skippedTimelines(1, timeline, history)); err != nil {
		return false, err
	}
	status := func(timeline uint32, suffix string) string {
		return filepath.Join(data, "pg_wal", "archive_status", wal.HistoryFile(wal.Timeline(timeline))+suffix)
	}
	if _, err := os.Stat(status(timeline, ".done")); err != nil {
		_, err = os.Stat(status(timeline, ".ready"))
		return err != nil, nil //nolint:nilerr // without either file nothing is archived, and nothing is left to do
	}
	parent := uint32(1)
	if len(history) > 0 {
		parent = history[len(history)-1].Timeline
	}
	for _, left := range skippedTimelines(parent, timeline, nil) {
		content, err := os.ReadFile(filepath.Join(data, "pg_wal", wal.HistoryFile(wal.Timeline(left))))
		if err != nil {
			return false, fmt.Errorf("archive timeline %d: %w", left, err)
		}
		if _, err := os.Stat(status(left, ".done")); err == nil || string(content) != reservation {
			continue
		}
		if err := os.WriteFile(status(left, ".ready"), nil, 0o600); err != nil {
			return false, fmt.Errorf("archive timeline %d: %w", left, err)
		}
	}
	return true, nil
}

// removeReservations removes the reservations of a stopped server above all timelines that were used, and returns the highest of
// those. A standby that starts would take a reservation for the history that it has to recover to.
func removeReservations(data string) (highest uint32, err error) {
	paths, err := filepath.Glob(filepath.Join(data, "pg_wal", "*.history"))
	if err != nil {
		return 0, fmt.Errorf("timelines: %w", err)
	}
	reserved := map[string]uint64{}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return 0, fmt.Errorf("timelines: %w", err)
		}
		timeline, err := strconv.ParseUint(strings.TrimSuffix(filepath.Base(path), ".history"), 16, 32)
		switch {
		case string(content) == reservation && err == nil:
			reserved[path] = timeline
		case strings.HasPrefix(reservation, string(content)): // or a part of it, after a crash
			reserved[path] = math.MaxUint64
		case err == nil:
			highest = max(highest, uint32(timeline))
		}
	}
	for path, timeline := range reserved {
		if timeline < uint64(highest) {
			continue
		}
		if err := os.Remove(path); err != nil {
			return 0, fmt.Errorf("timelines: %w", err)
		}
	}
	return highest, nil
}

// reserveGaps reserves and archives skipped timelines on a primary, and archives what its ancestors left.
func (a *Agent) reserveGaps(timeline uint32, history []election.TimelineSwitch, segment int64) {
	err := archiveInherited(a.server.DataDir(), history, segment)
	done := false
	if err == nil {
		done, err = fillGaps(a.server.DataDir(), timeline, history)
	}
	if err != nil {
		a.log.Warn("failed to reserve timelines", "error", err.Error())
	}
	if done && segment > 0 {
		a.enqueue(func() { a.gapsReservedTo = timeline })
	}
}
