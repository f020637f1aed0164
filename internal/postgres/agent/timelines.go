package agent

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

// reservation is the content of a history file that only keeps a timeline from being used.
const reservation = "# left out: another instance may have used this timeline\n"

// reserve has the next promotion of the server in data use a timeline above after: PostgreSQL takes the first for which
// it finds no history. The files name no ancestor, so no server that runs ever follows them.
func reserve(data string, current, after uint32) error {
	for timeline := current + 1; timeline <= after; timeline++ {
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

func (a *Agent) reserve(current, after uint32) error {
	return reserve(a.server.DataDir(), current, after)
}

// release removes what reserve left in the data directory of a server that is down, and returns the highest timeline
// that is left: a standby that starts would take a reservation for the history of the timeline it has to recover to,
// and never get there.
func release(data string) (highest uint32, err error) {
	paths, err := filepath.Glob(filepath.Join(data, "pg_wal", "*.history"))
	if err != nil {
		return 0, fmt.Errorf("timelines: %w", err)
	}
	for _, path := range paths {
		content, err := os.ReadFile(path)
		if err != nil {
			return 0, fmt.Errorf("timelines: %w", err)
		}
		if string(content) == "" || strings.HasPrefix(reservation, string(content)) { // or a part of it, after a crash
			if err := os.Remove(path); err != nil {
				return 0, fmt.Errorf("timelines: %w", err)
			}
			continue
		}
		timeline, err := strconv.ParseUint(strings.TrimSuffix(filepath.Base(path), ".history"), 16, 32)
		if err == nil {
			highest = max(highest, uint32(timeline))
		}
	}
	return highest, nil
}
