package server

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

const controlFile = "global/pg_control"

// ControlData is the output of pg_controldata.
type ControlData struct {
	SystemID string
	// State is, for example, "in production", "shut down" or "in archive recovery".
	State string
	// Timeline and Checkpoint are those of the last checkpoint. Redo is where recovery would start.
	Timeline   wal.Timeline
	Checkpoint wal.LSN
	Redo       wal.LSN
	// MinRecovery is the position on MinRecoveryTimeline that a standby must replay to be consistent.
	MinRecovery         wal.LSN
	MinRecoveryTimeline wal.Timeline
	WALSegmentSize      int64
	// Minimums are the primary's parameters. A standby needs at least these values.
	Minimums config.Minimums
}

// ControlData reads the control file of a running or stopped server.
func (s *Server) ControlData(ctx context.Context) (ControlData, error) {
	output, err := s.tool(ctx, toolOptions{quiet: true}, "pg_controldata", s.DataDir())
	if err != nil {
		return ControlData{}, err
	}
	return parseControlData(output)
}

func parseControlData(output string) (ControlData, error) {
	p := controlParser{values: map[string]string{}}
	for line := range strings.Lines(output) {
		if name, value, found := strings.Cut(line, ":"); found {
			p.values[strings.TrimSpace(name)] = strings.TrimSpace(value)
		}
	}
	data := ControlData{
		SystemID:            p.text("Database system identifier"),
		State:               p.text("Database cluster state"),
		Timeline:            wal.Timeline(p.number("Latest checkpoint's TimeLineID")), //nolint:gosec // 32 bits
		Checkpoint:          p.lsn("Latest checkpoint location"),
		Redo:                p.lsn("Latest checkpoint's REDO location"),
		MinRecovery:         p.lsn("Minimum recovery ending location"),
		MinRecoveryTimeline: wal.Timeline(p.number("Min recovery ending loc's timeline")), //nolint:gosec // 32 bits
		WALSegmentSize:      p.number("Bytes per WAL segment"),
		Minimums: config.Minimums{
			MaxConnections:          int(p.number("max_connections setting")),
			MaxWorkerProcesses:      int(p.number("max_worker_processes setting")),
			MaxWALSenders:           int(p.number("max_wal_senders setting")),
			MaxPreparedTransactions: int(p.number("max_prepared_xacts setting")),
			MaxLocksPerTransaction:  int(p.number("max_locks_per_xact setting")),
		},
	}
	return data, p.err
}

// controlParser reads fields and keeps the first error: a missing or malformed field.
type controlParser struct {
	values map[string]string
	err    error
}

func (p *controlParser) text(name string) string {
	value, ok := p.values[name]
	if !ok && p.err == nil {
		p.err = fmt.Errorf("pg_controldata: field %q is missing", name)
	}
	return value
}

func (p *controlParser) number(name string) int64 {
	n, err := strconv.ParseInt(p.text(name), 10, 64)
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("pg_controldata: %s: %w", name, err)
	}
	return n
}

func (p *controlParser) lsn(name string) wal.LSN {
	at, err := wal.ParseLSN(p.text(name))
	if err != nil && p.err == nil {
		p.err = fmt.Errorf("pg_controldata: %s: %w", name, err)
	}
	return at
}

// History reads the history of a timeline from the data directory. Timeline 1 has no history. The error is os.ErrNotExist
// if the file is missing.
func (s *Server) History(timeline wal.Timeline) (wal.History, error) {
	if timeline <= 1 {
		return nil, nil
	}
	content, err := os.ReadFile(filepath.Join(s.DataDir(), "pg_wal", wal.HistoryFile(timeline)))
	if err != nil {
		return nil, fmt.Errorf("read the history of timeline %d: %w", timeline, err)
	}
	return wal.ParseHistory(content)
}
