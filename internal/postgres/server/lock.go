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

// errInUse means that a process still uses the data directory.
var errInUse = errors.New("the data directory is in use")

// pollInterval is the interval of polls for changes without notification.
const pollInterval = 5 * time.Millisecond

// lock locks the data directory. Processes that inherit the file hold the lock too. The error is errInUse while a
// PostgreSQL process is left, in this container or, on a shared volume, in another container on the same node.
func (s *Server) lock() (*os.File, error) {
	f, err := os.OpenFile(s.lockFile(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the data directory: %w", err)
	}
	for err = syscall.EINTR; errors.Is(err, syscall.EINTR); {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) //nolint:gosec // descriptors are small numbers
	}
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = errInUse
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock the data directory: %w", err), f.Close())
	}
	return f, nil
}

// isIdle returns whether no process is left that could write to the data directory.
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

// waitIdle waits until isIdle.
func (s *Server) waitIdle(ctx context.Context) error {
	return pollUntil(ctx, s.isIdle)
}

// pollUntil polls a condition until it is true, fails, or the context is done.
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

// Processes selects the PostgreSQL processes: they hold the lock of the data directory open, or their working directory is
// in it.
func (s *Server) Processes() process.Selector {
	return process.Selector{Dirs: []string{s.DataDir(), s.CloneDir()}, LockFile: s.lockFile()}
}

// KillLeftovers kills processes of earlier runs that still use the data directory. Call it before the first Start. It
// returns nil once none is left, or an error when the context is done.
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
		return fmt.Errorf("processes %v still use %s after SIGKILL: %w", pids, s.DataDir(), err)
	}
	return fmt.Errorf("a process in another container still uses %s: check where else the volume is mounted: %w", s.DataDir(), err)
}
