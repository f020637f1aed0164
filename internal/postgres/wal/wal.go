// Package wal has types for WAL positions, timelines and timeline histories. It is pure: no files, no connections.
package wal

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// LSN is a WAL position, in bytes. 0 means none.
type LSN uint64

// Timeline is a timeline ID. Each promotion starts a new timeline. 0 means none.
type Timeline uint32

// ParseLSN parses a position in PostgreSQL's format, such as "16/B374D848".
func ParseLSN(text string) (LSN, error) {
	high, low, found := strings.Cut(text, "/")
	h, errHigh := strconv.ParseUint(high, 16, 32)
	l, errLow := strconv.ParseUint(low, 16, 32)
	if !found || errHigh != nil || errLow != nil {
		return 0, fmt.Errorf("invalid LSN %q: want two hexadecimal numbers, as in 16/B374D848", text)
	}
	return LSN(h<<32 | l), nil
}

// String formats the position like PostgreSQL.
func (l LSN) String() string {
	return fmt.Sprintf("%X/%X", uint32(l>>32), uint32(l)) //nolint:gosec // the two halves are meant
}

// HistoryEntry is a line of a timeline history: a timeline that ended, and where the next one starts.
type HistoryEntry struct {
	// Timeline is the timeline that ended.
	Timeline Timeline
	// SwitchPoint is the first position that is no longer part of Timeline.
	SwitchPoint LSN
}

// History lists the ancestors of a timeline, oldest first. Timeline 1 has none.
type History []HistoryEntry

// ParseHistory parses a timeline history file (NNNNNNNN.history in pg_wal).
func ParseHistory(content []byte) (History, error) {
	var history History
	lines := bufio.NewScanner(bytes.NewReader(content))
	for n := 1; lines.Scan(); n++ {
		line := strings.TrimSpace(lines.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 2 {
			return nil, fmt.Errorf("timeline history, line %d: want a timeline and a position, got %q", n, line)
		}
		timeline, err := strconv.ParseUint(fields[0], 10, 32)
		if err != nil {
			return nil, fmt.Errorf("timeline history, line %d: %q is not a timeline", n, fields[0])
		}
		at, err := ParseLSN(fields[1])
		if err != nil {
			return nil, fmt.Errorf("timeline history, line %d: %w", n, err)
		}
		if len(history) > 0 && Timeline(timeline) <= history[len(history)-1].Timeline {
			return nil, fmt.Errorf("timeline history, line %d: timeline %d does not follow %d", n, timeline, history[len(history)-1].Timeline)
		}
		history = append(history, HistoryEntry{Timeline: Timeline(timeline), SwitchPoint: at})
	}
	return history, lines.Err()
}

// HistoryFile is the name of the history file of a timeline.
func HistoryFile(timeline Timeline) string {
	return fmt.Sprintf("%08X.history", uint32(timeline))
}
