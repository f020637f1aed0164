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
	// lookTime bounds a look at the data directory, lookLong one more after looks that took too long, as on a disk that hangs.
	lookTime, lookLong = 5 * time.Second, 2 * time.Minute
	// lookGrace is how long a look may take to notice that its time is over.
	lookGrace = time.Second
	// unfitFile, on the volume, is there from the beginning of a rewind until its success.
	unfitFile = "unfit"
)

// found is what a look at a stopped server's data directory showed.
type found struct {
	data     election.Data
	role     election.Role
	systemID string
	position election.Position
	// exact and clean are as in election.Server.
	exact, clean bool
	history      []election.Fork
	// highest is the highest timeline that has a history.
	highest uint32
	// disk is the space of the volume, segment what the log needs of it at once.
	disk    server.Disk
	segment int64
	// minimums is nil if the control file could not be read.
	minimums *config.Minimums
	err      error
}

// full says that the volume lacks the space that a server needs to go on: it makes segments of its log whole in advance.
func (f found) full() bool { return short(f.disk, cmp.Or(f.segment, usualSegment)+fullDisk) }

// errNoAnswer means that a look at the volume took too long.
var errNoAnswer = errors.New("the volume does not answer")

// lookWell looks until there is a result, or the context ends: data that nobody has seen would pass for such as to be rewound.
func (a *Agent) lookWell(ctx context.Context) found {
	for limit := lookTime; ; limit = min(2*limit, lookLong) {
		result := a.look(a.life, limit)
		if !errors.Is(result.err, errNoAnswer) || ctx.Err() != nil {
			return result
		}
		a.log.Warn("data directory", "error", result.err.Error(), "within", limit.String())
		a.post(func() { a.trouble = result.err.Error() })
	}
}

// look reads what a stopped server left on the disk. It returns at the limit; its error is then errNoAnswer.
func (a *Agent) look(ctx context.Context, limit time.Duration) found {
	out := a.lookPartly(ctx, limit)
	if errors.Is(out.err, errNoAnswer) {
		return found{data: election.Usable, err: errNoAnswer}
	}
	return out
}

// lookPartly is like look, but tells all but the end of the log where that took too long to read.
func (a *Agent) lookPartly(ctx context.Context, limit time.Duration) found {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	results := make(chan found, 1)
	go func() { results <- a.lookNow(ctx) }()
	select {
	case result := <-results:
		if errors.Is(result.err, context.DeadlineExceeded) {
			result.err = errNoAnswer
		}
		return result
	case <-time.After(limit + lookGrace):
	}
	return found{data: election.Usable, err: errNoAnswer}
}

func dataOf(content server.DataState) election.Data {
	switch content {
	case server.Empty:
		return election.Empty
	case server.Unrecognized:
		return election.Foreign
	case server.Incomplete:
		return election.Unfit
	}
	return election.Usable
}

func (a *Agent) lookNow(ctx context.Context) found {
	disk, err := a.server.Disk()
	if err != nil {
		a.log.Warn("volume", "error", err.Error())
	}
	content, err := a.server.DataState()
	if data := dataOf(content); data != election.Usable {
		return found{data: data, disk: disk, err: err}
	}
	out := found{data: election.Usable, role: election.Primary, disk: disk}
	if _, err := os.Stat(a.markPath()); err == nil {
		out.data = election.Unfit
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
	if out.highest, err = release(a.server.DataDir()); err != nil {
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
	if left, ok := stray(control, timeline, out.history); ok {
		out.position, out.exact = left, false
		out.history, err = a.history(control.MinRecoveryTimeline)
		out.err = errors.Join(out.err, err)
	}
	return out
}

// stray returns how far a standby has replayed if that is no part of the history of the latest timeline on its disk: it has
// received from a primary that it could not follow, and will not start.
func stray(control server.ControlData, timeline wal.Timeline, history []election.Fork) (election.Position, bool) {
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

func (a *Agent) history(timeline wal.Timeline) ([]election.Fork, error) {
	history, err := a.server.History(timeline)
	if err != nil {
		return nil, err
	}
	return forks(history), nil
}

func forks(history wal.History) []election.Fork {
	var out []election.Fork
	for _, s := range history {
		out = append(out, election.Fork{Timeline: uint32(s.Timeline), LSN: uint64(s.SwitchPoint)})
	}
	return out
}

func position(timeline wal.Timeline, at wal.LSN) election.Position {
	return election.Position{Timeline: uint32(timeline), LSN: uint64(at)}
}

func (a *Agent) take(f found) {
	if f.err != nil {
		a.trouble = f.err.Error()
		a.log.Warn("data directory", "error", a.trouble)
	} else {
		a.trouble = ""
	}
	if f.disk.Size > 0 {
		a.disk = f.disk
	}
	a.own.Data, a.own.FullDisk, a.segment = f.data, f.full(), f.segment
	a.own.Oldest, a.own.Looked, a.minimums = 0, 0, f.minimums
	a.own.Exact, a.own.Clean = f.exact, f.clean
	usable := f.data == election.Usable // then what could not be read is as it was
	if usable {
		a.own.Highest = f.highest
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

// await waits for a server to end, sees to it that nothing is left of it, and has the loop know.
func (a *Agent) await(p *server.Process) {
	<-p.Done()
	for a.life.Err() == nil {
		ctx, cancel := context.WithTimeout(a.life, 10*time.Second)
		err := p.Kill(ctx)
		cancel()
		if err == nil {
			break
		}
		a.log.Error("end what is left of PostgreSQL", "error", err.Error())
	}
	a.fence.Clear(p)
	left := a.look(a.life, lookTime)
	a.post(func() {
		if a.process == p {
			a.ended(p.Exit(), left)
		}
	})
}

func (a *Agent) ended(exit server.Exit, left found) {
	at := now()
	ordered := a.own.Process == election.Stopping
	a.log.Info("PostgreSQL has ended", "how", exit.String(), "ordered", ordered)
	a.process = nil
	a.noteStill(at)
	a.newEpoch()
	a.prepared, a.checkpointed, a.slots, a.followers, a.filled = false, false, nil, nil, 0
	a.replayed, a.receiver.pid = 0, 0
	a.become(election.Down, at)
	a.own.Stop, a.own.Receiving, a.own.Upstream, a.own.Answered = election.NoStop, false, "", 0
	a.own.Sync, a.own.SyncAt, a.own.Checkpointing, a.own.Checkpointed = nil, 0, false, 0
	a.take(left)
	if !ordered {
		a.crashed(at, exit.String())
	}
}

// crashed notes that the server has ended, or did not start, without being told to. What happens for want of space says
// nothing about the server: it does not count towards a second crash.
func (a *Agent) crashed(at time.Duration, how string) {
	a.own.CrashedBefore, a.own.Crashed, a.own.Since = a.own.Crashed, at, at
	if a.own.FullDisk {
		a.own.CrashedBefore = 0
	} else if a.own.Role == election.Standby {
		a.own.Failed++
	}
	a.counts.crashes.Add(1)
	a.trouble = fmt.Sprintf("PostgreSQL %s: its log says why", how)
}

// markPath is a file that says that the data directory can't be relied on.
func (a *Agent) markPath() string { return filepath.Join(a.options.Volume, "fettle", unfitFile) }

// mark notes on the volume that the data directory can't be relied on, before anything of it is changed; unmark that it can, once the data
// are gone, or whole on the disk. Both outlast a crash of the machine, which may leave a mark on good data, but no bad data without one.
func (a *Agent) mark() error {
	return server.WriteFile(a.markPath(), []byte("a rewind did not end\n"))
}

func (a *Agent) unmark() error { return server.RemoveFile(a.markPath()) }

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }
