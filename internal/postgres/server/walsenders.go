package server

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/process"
)

// WALSenders are the WAL senders of a primary, by PID. A fast shutdown waits until each of them has sent all WAL or is
// gone.
type WALSenders struct {
	// Awaited are the WAL senders of the standbys of which one must have all WAL. If empty, the server waits for all.
	Awaited []int
	// Lagging would take long to send all WAL. Others are the remaining ones.
	Lagging, Others []int
}

// sendersGrace is how long the others may take after the first awaited sender has sent all WAL.
const sendersGrace = 200 * time.Millisecond

// StopAwaiting is a fast shutdown that waits for only one of the awaited standbys. It terminates lagging WAL senders at
// once, and the others shortly after the first awaited one is done. They cannot reconnect: the server accepts no
// connections any more.
func (p *Process) StopAwaiting(ctx context.Context, senders WALSenders) error {
	if len(senders.Awaited) == 0 {
		return p.Stop(ctx, Fast)
	}
	if err := p.signal(stopSignals[Fast]); err != nil {
		return err
	}
	stopped := make(chan struct{})
	defer close(stopped)
	go p.terminateSenders(ctx, stopped, senders)
	if err := p.waitExit(ctx); err != nil {
		return fmt.Errorf("stop PostgreSQL (%s): %w", Fast, err)
	}
	return nil
}

// terminateSenders terminates WAL senders until stopped is closed.
func (p *Process) terminateSenders(ctx context.Context, stopped chan struct{}, senders WALSenders) {
	s := remainingSenders{WALSenders: senders}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for last := (time.Time{}); ; {
		if pids := s.toTerminate(time.Now(), p.isChild, p.server.isShutDown); time.Since(last) >= sendersGrace {
			for _, pid := range pids { // a sender that waits for the network may need a second signal
				if p.isChild(pid) {
					_ = syscall.Kill(pid, syscall.SIGTERM) // it may just have exited
				}
			}
			last = time.Now()
		}
		select {
		case <-tick.C:
		case <-stopped:
			return
		case <-ctx.Done():
			return
		}
	}
}

// remainingSenders tracks the WAL senders while a server stops.
type remainingSenders struct {
	WALSenders

	// shutDown is true once the server has written its last WAL record. firstSentAt is when the first awaited sender had
	// sent it.
	shutDown    bool
	firstSentAt time.Time
}

// toTerminate returns the WAL senders to terminate now. An awaited sender has sent the last record only if it still runs
// when the record is written and exits afterwards. If it exits earlier, the others are awaited.
func (s *remainingSenders) toTerminate(now time.Time, runs func(pid int) bool, isShutDown func() bool) []int {
	gone := func(pid int) bool { return !runs(pid) }
	running := slices.DeleteFunc(slices.Clone(s.Awaited), gone)
	if s.shutDown = s.shutDown || isShutDown(); !s.shutDown {
		s.Awaited = running
	}
	if s.firstSentAt.IsZero() && len(running) < len(s.Awaited) {
		s.firstSentAt = now
	}
	if s.firstSentAt.IsZero() || now.Sub(s.firstSentAt) < sendersGrace {
		return s.Lagging
	}
	return slices.Concat(s.Lagging, s.Others, s.Awaited)
}

// isShutDown returns whether the server has written its shutdown checkpoint record. After that it only sends WAL.
func (s *Server) isShutDown() bool {
	const at, size, shutDown = 16, 4, 1 // the field state of ControlFileData, in all versions
	control, err := os.ReadFile(filepath.Join(s.DataDir(), controlFile))
	return err == nil && len(control) >= at+size && binary.NativeEndian.Uint32(control[at:]) == shutDown
}

// isChild returns whether a process is a running child of this postmaster.
func (p *Process) isChild(pid int) bool {
	is, ok := process.Get(pid)
	return ok && is.Parent == p.pid && is.State != "Z"
}
