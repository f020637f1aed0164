// Package wal holds what is said about a write-ahead log: positions, timelines and the history that tells where one
// timeline left another. It is pure: no files, no connections.
package wal

import (
	"bufio"
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// LSN is a position in the write-ahead log, in bytes from its beginning. 0 is no position.
type LSN uint64

// Timeline numbers a history of the write-ahead log; a promotion begins a new one. 0 is none.
type Timeline uint32

// ParseLSN reads a position as PostgreSQL writes it, such as "16/B374D848".
func ParseLSN(text string) (LSN, error) {
	high, low, found := strings.Cut(text, "/")
	h, errHigh := strconv.ParseUint(high, 16, 32)
	l, errLow := strconv.ParseUint(low, 16, 32)
	if !found || errHigh != nil || errLow != nil {
		return 0, fmt.Errorf("%q is no position in the write-ahead log: want two hexadecimal numbers, as in 16/B374D848", text)
	}
	return LSN(h<<32 | l), nil
}

// String writes the position as PostgreSQL does.
func (l LSN) String() string {
	return fmt.Sprintf("%X/%X", uint32(l>>32), uint32(l)) //nolint:gosec // the two halves are meant
}

// HistoryEntry says that a timeline ended, and where: what follows it began there.
type HistoryEntry struct {
	// Timeline is the one that ended.
	Timeline Timeline
	// SwitchPoint is the first position that is no longer part of it.
	SwitchPoint LSN
}

// History lists the ancestors of a timeline, oldest first. Timeline 1 has none.
type History []HistoryEntry

// ParseHistory reads a timeline history file (NNNNNNNN.history in pg_wal).
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
			return nil, fmt.Errorf("timeline history, line %d: %q is no timeline", n, fields[0])
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
