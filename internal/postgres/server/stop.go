package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// StopMode is a shutdown mode.
type StopMode string

// Shutdown modes of PostgreSQL.
const (
	// Fast rolls back open transactions, sends all WAL to the standbys and writes a checkpoint.
	Fast StopMode = "fast"
	// Immediate stops without a checkpoint, as after a crash.
	Immediate StopMode = "immediate"
)

var stopSignals = map[StopMode]syscall.Signal{Fast: syscall.SIGINT, Immediate: syscall.SIGQUIT}

// signal sends a signal to the postmaster, unless it has exited.
func (p *Process) signal(signal syscall.Signal) error {
	select {
	case <-p.done:
		return nil // another process may have the PID by now
	default:
	}
	if err := syscall.Kill(p.pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("send %s to PostgreSQL: %w", signal, err)
	}
	return nil
}

// Stop stops the server and waits until the postmaster and all its children have exited. If the context is done first, the
// server may still be stopping: call Stop with a harder mode, or Kill.
func (p *Process) Stop(ctx context.Context, mode StopMode) error {
	signal, ok := stopSignals[mode]
	if !ok {
		return fmt.Errorf("invalid shutdown mode %q: use %s or %s", mode, Fast, Immediate)
	}
	if err := p.signal(signal); err != nil {
		return err
	}
	if err := p.waitExit(ctx); err != nil {
		return fmt.Errorf("stop PostgreSQL (%s): %w", mode, err)
	}
	return nil
}

// waitExit waits until the postmaster and all its children have exited.
func (p *Process) waitExit(ctx context.Context) error {
	select {
	case <-p.done:
		return p.server.waitIdle(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Fence stops the server immediately, and kills the remaining processes after grace. It returns nil only if no process is
// left that could write.
func (p *Process) Fence(ctx context.Context, grace time.Duration) error {
	graceful, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if p.Stop(graceful, Immediate) == nil {
		return nil
	}
	return p.Kill(ctx)
}

// Kill kills the postmaster and all its children at once. It returns nil only if no process is left that could write.
func (p *Process) Kill(ctx context.Context) error {
	// Kill the postmaster first: only it creates children.
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	if err := p.server.KillLeftovers(ctx); err != nil {
		return fmt.Errorf("kill PostgreSQL: %w", err)
	}
	return p.waitExit(ctx)
}

// Reload makes the server reload its configuration. sqlclient.Client.WaitSetting waits until it has.
func (p *Process) Reload() error { return p.signal(syscall.SIGHUP) }

// Promote asks a standby to become a primary and returns at once. sqlclient.Client.WaitPrimary waits until it is one.
//
// It does what pg_promote() does, but without a connection: an unresponsive backend or exhausted max_connections cannot
// delay the promotion. It is not slower either: BenchmarkPromote measures a shorter time until the first commit.
func (p *Process) Promote() error {
	path := filepath.Join(p.server.DataDir(), promoteFile)
	// The file need not survive a crash. Without a flush to disk the promotion is faster.
	if err := errors.Join(os.WriteFile(path, nil, 0o600), p.server.chown(path)); err != nil {
		return fmt.Errorf("promote: %w", err)
	}
	return p.signal(syscall.SIGUSR1)
}
