package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/election"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

// reservation is the content of a history file that only keeps a timeline from being used.
const reservation = "# left out: another instance may have used this timeline\n"

// reserve has the next promotion of the server in data use a timeline above after: PostgreSQL takes the first for which
// it finds no history. The files name no ancestor, so no server that runs ever follows them.
func reserve(data string, current, after uint32) error {
	return reserveEach(data, between(current, after+1, nil))
}

// between are the timelines above current and below next, without those of history.
func between(current, next uint32, history []election.Fork) []uint32 {
	var out []uint32
	for timeline := current + 1; timeline < next; timeline++ {
		if !slices.ContainsFunc(history, func(f election.Fork) bool { return f.Timeline == timeline }) {
			out = append(out, timeline)
		}
	}
	return out
}

func reserveEach(data string, timelines []uint32) error {
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

func (a *Agent) reserve(current, after uint32) error {
	return reserve(a.server.DataDir(), current, after)
}

// gap are the timelines between that of a standby and that of the primary which it follows, as far as that has not used them
// itself. The standby asks its primary for the history of each, one after the other, and follows no further while one is missing:
// but the primary has them only until its next start.
func gap(own *election.Server, lease *election.Lease) []uint32 {
	if own.Process != election.Up || own.Role != election.Standby || own.Upstream == "" || own.Upstream != lease.Primary {
		return nil
	}
	return between(own.Position.Timeline, lease.End.Timeline, lease.History)
}

// bridge reserves the timelines of the gap, so that the standby asks for none of them.
func (a *Agent) bridge(at time.Duration) {
	timelines := gap(&a.own, &a.observation.Lease)
	if len(timelines) == 0 || a.task != nil || !a.bridging.due(at) {
		return
	}
	a.begin("bridge timelines", func(context.Context) func() {
		err := reserveEach(a.server.DataDir(), timelines)
		return func() {
			a.bridging.over(now() + pause)
			if err == nil && a.own.Process != election.Up {
				_, err = release(a.server.DataDir()) // it ended meanwhile, and must not start with them
			}
			if err != nil {
				a.log.Warn("bridge timelines", "error", err.Error())
			}
		}
	})
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
