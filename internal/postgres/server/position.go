package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strconv"

	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

var segmentName = regexp.MustCompile(`^([0-9A-F]{8})([0-9A-F]{8})([0-9A-F]{8})$`)

// Position returns the timeline of a stopped server and the end of the last complete WAL record on disk, up to which it
// would recover. It reads WAL from the last checkpoint. If the context is done first, the next call resumes the scan.
func (s *Server) Position(ctx context.Context) (wal.Timeline, wal.LSN, error) {
	control, err := s.ControlData(ctx)
	if err != nil {
		return 0, 0, err
	}
	dir := filepath.Join(s.DataDir(), "pg_wal")
	entries, err := os.ReadDir(dir)
	if err != nil {
		return 0, 0, fmt.Errorf("read pg_wal: %w", err)
	}
	// A standby may have received a timeline, or a new primary started one, that is not in the control file yet.
	timeline := max(control.Timeline, control.MinRecoveryTimeline)
	for _, e := range entries {
		if match := segmentName.FindStringSubmatch(e.Name()); match != nil {
			if n, err := strconv.ParseUint(match[1], 16, 32); err == nil {
				timeline = max(timeline, wal.Timeline(n))
			}
		}
	}
	start := control.Redo
	if timeline != control.Timeline {
		history, err := s.History(timeline)
		if err != nil {
			return 0, 0, err
		}
		if len(history) > 0 {
			start = max(start, history[len(history)-1].SwitchPoint)
		}
	}
	s.scanMutex.Lock()
	defer s.scanMutex.Unlock()
	if s.scan.Timeline != timeline || s.scan.Start != start {
		s.scan = wal.Scan{Timeline: timeline, Start: start}
	}
	end, err := s.scan.End(ctx, control.WALSegmentSize, func(name string) (io.ReadCloser, error) {
		return os.Open(filepath.Join(dir, name)) //nolint:gosec // named by package wal
	})
	if err != nil {
		return 0, 0, err
	}
	s.scan = wal.Scan{}
	return timeline, max(end, control.MinRecovery), nil
}

// OldestWAL returns the start of the oldest WAL segment on disk. segmentSize is in bytes. Recycled segments do not matter.
// It is an error if there is no segment.
func (s *Server) OldestWAL(segmentSize int64) (wal.LSN, error) {
	entries, err := os.ReadDir(filepath.Join(s.DataDir(), "pg_wal"))
	if err != nil {
		return 0, fmt.Errorf("read pg_wal: %w", err)
	}
	size := uint64(segmentSize) //nolint:gosec // above 0
	oldest, found := uint64(0), false
	for _, e := range entries {
		match := segmentName.FindStringSubmatch(e.Name())
		if match == nil {
			continue
		}
		high, _ := strconv.ParseUint(match[2], 16, 32)
		low, _ := strconv.ParseUint(match[3], 16, 32)
		if at := high<<32 + low*size; !found || at < oldest {
			oldest, found = at, true
		}
	}
	if !found {
		return 0, errors.New("read pg_wal: no WAL segment found")
	}
	return wal.LSN(oldest), nil
}
