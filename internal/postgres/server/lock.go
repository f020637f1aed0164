package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/process"
)

// errInUse means that processes are left that have the data directory open.
var errInUse = errors.New("the data directory is in use")

// pollInterval is how often something is looked at that nobody announces.
const pollInterval = 5 * time.Millisecond

// lock takes the lock of the data directory. Whoever inherits the file holds it too. The error is errInUse while a process
// of PostgreSQL is left, in this container or, on a shared volume, in another one of the same node.
func (s *Server) lock() (*os.File, error) {
	f, err := os.OpenFile(s.lockFile(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) //nolint:gosec // a descriptor is no large number
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errInUse
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock the data directory: %w", err), f.Close())
	}
	return f, nil
}

// isIdle says whether no process is left that could write to the data directory.
func (s *Server) isIdle() (bool, error) {
	f, err := s.lock()
	if errors.Is(err, errInUse) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	return true, f.Close()
}

// waitIdle waits for it.
func (s *Server) waitIdle(ctx context.Context) error {
	return pollUntil(ctx, s.isIdle)
}

// pollUntil asks again and again, until the answer is yes, an error, or the context ends.
func pollUntil(ctx context.Context, condition func() (bool, error)) error {
	tick := time.NewTicker(pollInterval)
	defer tick.Stop()
	for {
		if done, err := condition(); err != nil || done {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
}

// Processes is how the processes of PostgreSQL are known: they have the lock of the data directory open, or work in it.
func (s *Server) Processes() process.Selector {
	return process.Selector{Dirs: []string{s.DataDir(), s.CloneDir()}, LockFile: s.lockFile()}
}

// KillLeftovers ends processes of earlier lives that still use the data directory; call it before the first Start. It
// returns when none is left, and an error if that can't be reached within the context.
func (s *Server) KillLeftovers(ctx context.Context) error {
	err := pollUntil(ctx, func() (bool, error) {
		pids, err := s.Processes().Kill()
		if err != nil {
			return false, err
		}
		idle, err := s.isIdle()
		return idle && pids == 0, err
	})
	if err == nil {
		return nil
	}
	if pids := s.Processes().PIDs(); len(pids) > 0 {
		return fmt.Errorf("processes %v still use %s, and do not end: %w", pids, s.DataDir(), err)
	}
	return fmt.Errorf("a process that can't be seen from here still uses %s: is the volume mounted elsewhere? %w", s.DataDir(), err)
}
