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

// StopMode is how a server is asked to stop.
type StopMode string

// The modes of PostgreSQL.
const (
	// Fast rolls open transactions back, sends everything to the standbys and writes a checkpoint.
	Fast StopMode = "fast"
	// Immediate stops without a checkpoint, as after a crash.
	Immediate StopMode = "immediate"
)

var stopSignals = map[StopMode]syscall.Signal{Fast: syscall.SIGINT, Immediate: syscall.SIGQUIT}

// signal sends one to the postmaster. One that is gone needs none.
func (p *Process) signal(signal syscall.Signal) error {
	select {
	case <-p.done:
		return nil // its number may belong to somebody else by now
	default:
	}
	if err := syscall.Kill(p.pid, signal); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("send %s to PostgreSQL: %w", signal, err)
	}
	return nil
}

// Stop asks the server to stop and waits until neither the postmaster nor a child of it is left. At the context's end it
// returns its error, and the server may still be stopping: ask again in a harder mode, or Kill.
func (p *Process) Stop(ctx context.Context, mode StopMode) error {
	signal, ok := stopSignals[mode]
	if !ok {
		return fmt.Errorf("%q is no way to stop: use %s or %s", mode, Fast, Immediate)
	}
	if err := p.signal(signal); err != nil {
		return err
	}
	if err := p.waitExit(ctx); err != nil {
		return fmt.Errorf("stop PostgreSQL (%s): %w", mode, err)
	}
	return nil
}

// waitExit waits until neither the postmaster nor a child of it is left.
func (p *Process) waitExit(ctx context.Context) error {
	select {
	case <-p.done:
		return p.server.waitIdle(ctx)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Fence stops the server immediately, and kills what is left of it after grace. It returns nil only if nothing is left
// that could write.
func (p *Process) Fence(ctx context.Context, grace time.Duration) error {
	graceful, cancel := context.WithTimeout(ctx, grace)
	defer cancel()
	if p.Stop(graceful, Immediate) == nil {
		return nil
	}
	return p.Kill(ctx)
}

// Kill ends the postmaster and all its children at once. It returns nil only if nothing is left that could write.
func (p *Process) Kill(ctx context.Context) error {
	// The postmaster first: without it there are no new children.
	if err := p.signal(syscall.SIGKILL); err != nil {
		return err
	}
	if err := p.server.KillLeftovers(ctx); err != nil {
		return fmt.Errorf("kill PostgreSQL: %w", err)
	}
	return p.waitExit(ctx)
}

// Reload has the server read its configuration again. sqlclient.Client.WaitSetting tells when it has.
func (p *Process) Reload() error { return p.signal(syscall.SIGHUP) }

// Promote asks a standby to become a primary and returns at once. sqlclient.Client.WaitPrimary waits until it is one.
//
// It does what pg_promote() does, without a session: one that stands still, or finds no room among max_connections, holds
// no promotion up. Nor is it slower: from the call to the first commit BenchmarkPromote finds less time for it, as a
// question more to a busy server takes its time.
func (p *Process) Promote() error {
	path := filepath.Join(p.server.DataDir(), "promote")
	// It need not survive a crash, so it is not flushed to disk: that would cost time.
	if err := errors.Join(os.WriteFile(path, nil, 0o600), p.server.chown(path)); err != nil {
		return fmt.Errorf("promote: %w", err)
	}
	return p.signal(syscall.SIGUSR1)
}
