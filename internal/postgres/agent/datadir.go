package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/election"
	"github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

const (
	// inspectTimeout bounds an inspection of the data directory. inspectTimeoutLong bounds it after inspections that timed out,
	// as on a disk that hangs.
	inspectTimeout, inspectTimeoutLong = 5 * time.Second, 2 * time.Minute
	// inspectGrace is how long an inspection may take to notice that its time is over.
	inspectGrace = time.Second
	// needsRecloneFile is on the volume from the start of a rewind until its success.
	needsRecloneFile = "needs-reclone"
)

// dataDirState is the state of a stopped server's data directory.
type dataDirState struct {
	data     election.Data
	role     election.Role
	systemID string
	position election.Position
	// exact and clean are as in election.Server.
	exact, clean bool
	history      []election.TimelineSwitch
	// highest is the highest timeline that has a history.
	highest uint32
	// disk is the space of the volume, segment the size of a WAL segment.
	disk    server.Disk
	segment int64
	// minimums is nil if the control file could not be read.
	minimums *config.Minimums
	err      error
}

// lacksSpace reports that the volume lacks the space that a server needs to start: it creates WAL segments in advance.
func (f dataDirState) lacksSpace() bool {
	return lowSpace(f.disk, cmp.Or(f.segment, defaultWALSegment)+fullDisk)
}

// errVolumeTimeout means that an inspection of the volume took too long.
var errVolumeTimeout = errors.New("volume does not respond")

// inspectUntilDone inspects until there is a result, or the context ends. Data that was never inspected would count as data that
// has to be rewound.
func (a *Agent) inspectUntilDone(ctx context.Context) dataDirState {
	for limit := inspectTimeout; ; limit = min(2*limit, inspectTimeoutLong) {
		result := a.inspect(a.ctx, limit)
		if !errors.Is(result.err, errVolumeTimeout) || ctx.Err() != nil {
			return result
		}
		a.log.Warn("failed to inspect data directory", "error", result.err.Error(), "timeout", limit.String())
		a.enqueue(func() { a.lastError = result.err.Error() })
	}
}

// inspect reads what a stopped server left on the disk. It returns at the limit; its error is then errVolumeTimeout.
func (a *Agent) inspect(ctx context.Context, limit time.Duration) dataDirState {
	out := a.inspectPartly(ctx, limit)
	if errors.Is(out.err, errVolumeTimeout) {
		return dataDirState{data: election.Usable, err: errVolumeTimeout}
	}
	return out
}

// inspectPartly is like inspect, but returns everything except the end of the WAL if that took too long to read.
func (a *Agent) inspectPartly(ctx context.Context, limit time.Duration) dataDirState {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	results := make(chan dataDirState, 1)
	go func() { results <- a.inspectOnce(ctx) }()
	select {
	case result := <-results:
		if errors.Is(result.err, context.DeadlineExceeded) {
			result.err = errVolumeTimeout
		}
		return result
	case <-time.After(limit + inspectGrace):
	}
	return dataDirState{data: election.Usable, err: errVolumeTimeout}
}

func dataOf(content server.DataState) election.Data {
	switch content {
	case server.Empty:
		return election.Empty
	case server.Unrecognized:
		return election.Unrecognized
	case server.Incomplete:
		return election.NeedsReclone
	}
	return election.Usable
}

func (a *Agent) inspectOnce(ctx context.Context) dataDirState {
	disk, err := a.server.Disk()
	if err != nil {
		a.log.Warn("failed to read volume usage", "error", err.Error())
	}
	content, err := a.server.DataState()
	if data := dataOf(content); data != election.Usable {
		return dataDirState{data: data, disk: disk, err: err}
	}
	out := dataDirState{data: election.Usable, role: election.Primary, disk: disk}
	if _, err := os.Stat(a.needsReclonePath()); err == nil {
		out.data = election.NeedsReclone
	}
	standby, err := a.server.IsStandby()
	if err != nil {
		out.err = err
		return out
	}
	if standby {
		out.role = election.Standby
	}
	control, err := a.server.ControlData(ctx)
	if err != nil {
		out.err = err
		return out
	}
	out.segment, out.minimums = control.WALSegmentSize, &control.Minimums
	out.systemID, out.clean = control.SystemID, control.State == "shut down"
	if out.highest, err = removeReservations(a.server.DataDir()); err != nil {
		out.err = err
		return out
	}
	timeline, end, err := a.server.Position(ctx)
	out.exact = err == nil
	if err != nil {
		out.err = err
		timeline, end = control.Timeline, max(control.Checkpoint, control.MinRecovery)
	}
	out.position = position(timeline, end)
	out.history, err = a.history(timeline)
	out.err = errors.Join(out.err, err)
	if left, ok := offHistory(control, timeline, out.history); ok {
		out.position, out.exact = left, false
		out.history, err = a.history(control.MinRecoveryTimeline)
		out.err = errors.Join(out.err, err)
	}
	return out
}

// offHistory returns how far a standby has replayed if that is not part of the history of the latest timeline on its disk: it has
// received from a primary that it could not follow, and will not start.
func offHistory(control server.ControlData, timeline wal.Timeline, history []election.TimelineSwitch) (election.Position, bool) {
	at := position(control.MinRecoveryTimeline, control.MinRecovery)
	if at.Timeline == 0 || at.Timeline >= uint32(timeline) {
		return at, false
	}
	for _, fork := range history {
		if fork.Timeline == at.Timeline {
			return at, at.LSN > fork.LSN
		}
	}
	return at, true
}

func (a *Agent) history(timeline wal.Timeline) ([]election.TimelineSwitch, error) {
	history, err := a.server.History(timeline)
	if err != nil {
		return nil, err
	}
	return timelineSwitches(history), nil
}

func timelineSwitches(history wal.History) []election.TimelineSwitch {
	var out []election.TimelineSwitch
	for _, s := range history {
		out = append(out, election.TimelineSwitch{Timeline: uint32(s.Timeline), LSN: uint64(s.SwitchPoint)})
	}
	return out
}

func position(timeline wal.Timeline, at wal.LSN) election.Position {
	return election.Position{Timeline: uint32(timeline), LSN: uint64(at)}
}

func (a *Agent) recordDataDir(f dataDirState) {
	if f.err != nil {
		a.lastError = f.err.Error()
		a.log.Warn("failed to inspect data directory", "error", a.lastError)
	} else {
		a.lastError = ""
	}
	if f.disk.Size > 0 {
		a.disk = f.disk
	}
	a.own.Data, a.own.FullDisk, a.walSegmentSize = f.data, f.lacksSpace(), f.segment
	a.own.OldestWAL, a.own.SampledAt, a.minimums = 0, 0, f.minimums
	a.own.Exact, a.own.CleanShutdown = f.exact, f.clean
	usable := f.data == election.Usable // then values that could not be read stay as they were
	if usable {
		a.own.HighestTimeline = f.highest
		if a.record != nil {
			a.own.HighestTimeline = max(f.highest, a.record.AfterTimeline)
		}
	}
	if !usable || f.role != "" {
		a.own.Role = f.role
	}
	if !usable || f.systemID != "" {
		a.own.SystemID = f.systemID
	}
	if !usable || f.position != (election.Position{}) {
		a.own.Position, a.own.History = f.position, f.history
	}
}

// waitForExit waits until a server exits, kills its remaining processes, and informs the loop.
func (a *Agent) waitForExit(p *server.Process) {
	<-p.Done()
	for a.ctx.Err() == nil {
		ctx, cancel := context.WithTimeout(a.ctx, 10*time.Second)
		err := p.Kill(ctx)
		cancel()
		if err == nil {
			break
		}
		a.log.Error("failed to kill remaining processes", "error", err.Error())
	}
	a.fence.Clear(p)
	left := a.inspect(a.ctx, inspectTimeout)
	a.enqueue(func() {
		if a.process == p {
			a.processExited(p.Exit(), left)
		}
	})
}

func (a *Agent) processExited(exit server.Exit, left dataDirState) {
	at := now()
	ordered := a.own.Process == election.Stopping
	a.log.Info("PostgreSQL exited", "status", exit.String(), "ordered", ordered)
	a.process = nil
	a.recordUnresponsive(at)
	a.newEpoch()
	a.rolesPrepared, a.checkpointed, a.slots, a.standbys, a.gapsReservedTo = false, false, nil, nil, 0
	a.replayed, a.receiver.pid = 0, 0
	a.setProcess(election.Down, at)
	a.own.StopMode, a.own.Receiving, a.own.Upstream, a.own.HeartbeatAt = election.NoStop, false, "", 0
	a.own.Sync, a.own.SyncLSN, a.own.Checkpointing, a.own.CheckpointedAt = nil, 0, false, 0
	a.recordDataDir(left)
	if !ordered {
		a.recordCrash(at, exit.String())
	}
}

// recordCrash records that the server exited, or did not start, without an order. A crash for lack of space says nothing about
// the server: it does not count towards a second crash.
func (a *Agent) recordCrash(at time.Duration, how string) {
	a.own.PreviousCrashAt, a.own.CrashedAt, a.own.ProcessSince = a.own.CrashedAt, at, at
	if a.own.FullDisk {
		a.own.PreviousCrashAt = 0
	} else if a.own.Role == election.Standby {
		a.own.Failures++
	}
	a.counts.crashes.Add(1)
	a.lastError = fmt.Sprintf("PostgreSQL %s: see its log", how)
}

// needsReclonePath is a file which says that the data directory is unusable.
func (a *Agent) needsReclonePath() string {
	return filepath.Join(a.options.Volume, "fettle", needsRecloneFile)
}

// markNeedsReclone marks the data directory as unusable on the volume, before anything in it changes. clearNeedsReclone removes
// the mark once the data is gone, or complete on the disk. Both survive a crash of the machine, which may leave a mark on good
// data, but never bad data without one.
func (a *Agent) markNeedsReclone() error {
	return server.WriteFile(a.needsReclonePath(), []byte("a rewind did not finish\n"))
}

func (a *Agent) clearNeedsReclone() error { return server.RemoveFile(a.needsReclonePath()) }

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
