package agent

import (
	"context"
	"slices"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/election"
	"github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/internal/postgres/sqlclient"
)

const (
	// checkpoints are taken before a planned stop until one takes less than checkpointShort: each leaves what was written during
	// it.
	checkpoints     = 3
	checkpointShort = time.Second
	// sendersAsked bounds the query for the standbys, just before a stop.
	sendersAsked = 500 * time.Millisecond
	// marginKills and marginRenewals are how many times KillGrace and RenewInterval the grace period of the pod has left when a
	// fast stop becomes an immediate one: for that stop, for SIGKILL, and for the release of the lease.
	marginKills, marginRenewals = 2, 2
)

// stopTime is how long a fast stop may take in a pod that is killed after grace.
func stopTime(t election.Timing, grace time.Duration) time.Duration {
	return max(grace-marginKills*t.KillGrace-marginRenewals*t.RenewInterval, grace/2)
}

// checkpoint makes the primary take a checkpoint, beside the loop and everything else; then, if there is one, is called after it.
// It may take any time, because clients are served meanwhile. A failure is harmless.
func (a *Agent) checkpoint(then func()) {
	process := a.process
	if process == nil || a.own.Checkpointing {
		return
	}
	a.own.Checkpointing = true
	begun := now()
	go func() {
		err := a.checkpointUntilShort(process)
		a.enqueue(func() {
			if a.process != process || a.own.Process != election.Up {
				return
			}
			a.own.Checkpointing, a.own.CheckpointedAt = false, now()
			a.log.Info("checkpoint before the stop finished", "duration", (now() - begun).Round(time.Millisecond).String(), "error", errorText(err))
			if then != nil {
				then()
			}
		})
	}()
}

func (a *Agent) checkpointUntilShort(process *server.Process) error {
	ctx, cancel := context.WithCancel(a.ctx)
	defer cancel()
	go func() {
		select {
		case <-process.Done():
			cancel()
		case <-ctx.Done():
		}
	}()
	defer a.checkpointConn.Close(a.ctx)
	for range checkpoints {
		begun := now()
		if err := a.checkpointConn.Checkpoint(ctx); err != nil || now()-begun < checkpointShort {
			return err
		}
	}
	return nil
}

// stop orders the server to stop, or to stop harder. It does not wait: a task is cancelled, and orders run in parallel.
func (a *Agent) stop(order election.Stop, at time.Duration) {
	if a.task != nil {
		a.task.cancel()
	}
	if a.process == nil || a.own.Process == election.Stopping && a.own.StopMode >= order.Mode {
		return
	}
	a.recordUnresponsive(at)
	if a.own.Process == election.Starting && a.own.Role == election.Standby && !a.stopping {
		a.own.Failures++ // this start is given up
	}
	successors := election.Successors(a.config, a.input(at))
	a.own = a.own.AfterStopOrder(at, order)
	a.newEpoch()
	process, limit := a.process, a.config.StopTimeout
	go func() {
		ctx, cancel := context.WithTimeout(a.ctx, limit)
		defer cancel()
		if err := a.stopProcess(ctx, process, order.Mode, successors); err != nil {
			a.log.Warn("failed to stop PostgreSQL", "error", err.Error())
		}
	}()
}

// recordUnresponsive records that a primary that is stopped, or has exited, was unresponsive.
func (a *Agent) recordUnresponsive(at time.Duration) {
	if election.Unresponsive(a.config, election.Input{Now: at, Server: a.own}) {
		a.own.UnresponsiveAt = at
		a.log.Warn("PostgreSQL was unresponsive", "lastHeartbeat", (at-a.own.HeartbeatAt).Round(time.Millisecond).String()+" ago")
	}
}

func (a *Agent) stopProcess(ctx context.Context, process *server.Process, mode election.StopMode, successors []string) error {
	switch mode {
	case election.Kill:
		return process.Kill(ctx)
	case election.Immediate:
		return process.Stop(ctx, server.Immediate)
	}
	return process.StopAwaiting(ctx, a.senders(ctx, successors))
}

// senders are the walsenders of a primary that is about to stop; none unless it has to wait only for one of the successors.
func (a *Agent) senders(ctx context.Context, successors []string) server.WALSenders {
	if len(successors) == 0 {
		return server.WALSenders{}
	}
	ctx, cancel := context.WithTimeout(ctx, sendersAsked)
	defer cancel()
	status, err := a.statusConn.Status(ctx)
	if err != nil {
		a.log.Warn("failed to query standbys before the stop", "error", err.Error())
		return server.WALSenders{}
	}
	return sendersOf(status, successors)
}

// sendersOf distinguishes the walsenders of the successors from those that are behind and from all others.
func sendersOf(status sqlclient.Status, successors []string) server.WALSenders {
	var out server.WALSenders
	for _, s := range status.Senders {
		switch {
		case slices.Contains(successors, s.Name):
			out.Awaited = append(out.Awaited, s.PID)
		case s.State != "streaming" || s.Flushed+caughtUp <= status.Written:
			out.Lagging = append(out.Lagging, s.PID)
		default:
			out.Others = append(out.Others, s.PID)
		}
	}
	return out
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
