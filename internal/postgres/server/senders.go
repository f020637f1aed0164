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

// Senders are walsenders of a primary, by process. It ends only when each of them has sent everything, or is gone.
type Senders struct {
	// Awaited are those of the standbys of which one must have everything. None: the server waits for all.
	Awaited []int
	// Behind are those that could take long, Others all that are left.
	Behind, Others []int
}

// sendersGrace is how long the others may take after the first that was awaited has sent everything.
const sendersGrace = 200 * time.Millisecond

// StopWithout is a fast stop that waits for no more than one of the standbys that are awaited: the walsenders of those that are
// behind are ended at once, the others a moment after the first that was awaited. They can't come back: the server takes no
// connections any more.
func (p *Process) StopWithout(ctx context.Context, senders Senders) error {
	if len(senders.Awaited) == 0 {
		return p.Stop(ctx, Fast)
	}
	if err := p.signal(stopSignals[Fast]); err != nil {
		return err
	}
	over := make(chan struct{})
	defer close(over)
	go p.endSenders(ctx, over, senders)
	if err := p.ended(ctx); err != nil {
		return fmt.Errorf("stop PostgreSQL (%s): %w", Fast, err)
	}
	return nil
}

// endSenders ends walsenders until over.
func (p *Process) endSenders(ctx context.Context, over chan struct{}, senders Senders) {
	s := sendersLeft{Senders: senders}
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for last := (time.Time{}); ; {
		if end := s.end(time.Now(), p.isChild, p.server.isShutDown); time.Since(last) >= sendersGrace {
			for _, pid := range end { // one that waits for the network may need a second signal
				if p.isChild(pid) {
					_ = syscall.Kill(pid, syscall.SIGTERM) // it may have ended just now
				}
			}
			last = time.Now()
		}
		select {
		case <-tick.C:
		case <-over:
			return
		case <-ctx.Done():
			return
		}
	}
}

// sendersLeft is what is known of the walsenders while a server stops.
type sendersLeft struct {
	Senders

	// down says that the server has written its last record, first when one of those that were awaited had sent it.
	down  bool
	first time.Time
}

// end returns the walsenders that are to be ended at now. Of those that are awaited only one that runs until the last record was
// written, and ends then, has sent it: one that is lost before has not, and the others are waited for.
func (s *sendersLeft) end(now time.Time, runs func(pid int) bool, isShutDown func() bool) []int {
	gone := func(pid int) bool { return !runs(pid) }
	left := slices.DeleteFunc(slices.Clone(s.Awaited), gone)
	if s.down = s.down || isShutDown(); !s.down {
		s.Awaited = left
	}
	if s.first.IsZero() && len(left) < len(s.Awaited) {
		s.first = now
	}
	if s.first.IsZero() || now.Sub(s.first) < sendersGrace {
		return s.Behind
	}
	return slices.Concat(s.Behind, s.Others, s.Awaited)
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
