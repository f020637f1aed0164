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

// WALSenders are walsenders of a primary, by process. It ends only when each of them has sent everything, or is gone.
type WALSenders struct {
	// Awaited are those of the standbys of which one must have everything. None: the server waits for all.
	Awaited []int
	// Lagging are those that could take long, Others all that are left.
	Lagging, Others []int
}

// sendersGrace is how long the others may take after the first that was awaited has sent everything.
const sendersGrace = 200 * time.Millisecond

// StopAwaiting is a fast stop that waits for no more than one of the standbys that are awaited: the walsenders of those that are
// behind are ended at once, the others a moment after the first that was awaited. They can't come back: the server takes no
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

// terminateSenders ends walsenders until over.
func (p *Process) terminateSenders(ctx context.Context, stopped chan struct{}, senders WALSenders) {
	s := remainingSenders{WALSenders: senders}
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for last := (time.Time{}); ; {
		if pids := s.toTerminate(time.Now(), p.isChild, p.server.isShutDown); time.Since(last) >= sendersGrace {
			for _, pid := range pids { // one that waits for the network may need a second signal
				if p.isChild(pid) {
					_ = syscall.Kill(pid, syscall.SIGTERM) // it may have ended just now
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

// remainingSenders is what is known of the walsenders while a server stops.
type remainingSenders struct {
	WALSenders

	// shutDown says that the server has written its last record, first when one of those that were awaited had sent it.
	shutDown    bool
	firstSentAt time.Time
}

// toTerminate returns the walsenders that are to be ended at now. Of those that are awaited only one that runs until the last record was
// written, and ends then, has sent it: one that is lost before has not, and the others are waited for.
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

// isShutDown says that the server has written the record of its shutdown: what follows is only to be sent.
func (s *Server) isShutDown() bool {
	const at, size, shutDown = 16, 4, 1 // the member state of ControlFileData, of all versions
	control, err := os.ReadFile(filepath.Join(s.DataDir(), controlFile))
	return err == nil && len(control) >= at+size && binary.NativeEndian.Uint32(control[at:]) == shutDown
}

// isChild says whether a process is one of this server's that runs.
func (p *Process) isChild(pid int) bool {
	is, ok := process.Get(pid)
	return ok && is.Parent == p.pid && is.State != "Z"
}
