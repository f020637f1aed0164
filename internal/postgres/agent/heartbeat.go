package agent

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/election"
	"github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/internal/postgres/sqlclient"
)

// reportAfter is how many heartbeats in a row are rejected before it is reported: one can fail because its query was cancelled.
const reportAfter = 3

// heartbeatState is the outcome of the last heartbeats of a primary.
type heartbeatState struct {
	// silent means that the last heartbeat that reached a session got no answer.
	silent bool
	// rejection is the last answer that was an error, and rejected the number of such answers in a row.
	rejection sqlclient.Rejection
	rejected  int
}

// next returns p after a heartbeat that ended with err, and whether that is an answer, see [sqlclient.AsRejection]. For a server
// that was silent, an error before a session exists is no answer: clients that hang with its disk take all connections.
func (p heartbeatState) next(err error) (heartbeatState, bool) {
	if err == nil {
		return heartbeatState{}, true
	}
	return p.failed(sqlclient.AsRejection(err))
}

func (p heartbeatState) failed(rejection sqlclient.Rejection, rejected bool) (heartbeatState, bool) {
	if rejected && (!rejection.Connecting || !p.silent) {
		return heartbeatState{rejection: rejection, rejected: p.rejected + 1}, true
	}
	return heartbeatState{silent: true}, false
}

// level is the log level of a failed heartbeat. A repeated rejection is logged once.
func (p heartbeatState) level() slog.Level {
	if p.rejected > 1 {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// message says that writes are rejected, and what to do; "" while they are not.
func (p heartbeatState) message(pod string) string {
	if p.rejected < reportAfter {
		return ""
	}
	text := fmt.Sprintf("PostgreSQL on %s rejects writes with SQLSTATE %s (%s)", pod, p.rejection.SQLState, oneLine(p.rejection.Message))
	if advice := p.rejection.Advice(); advice != "" {
		return text + ": " + advice
	}
	return text + ": see the log of the pod"
}

// sendHeartbeat makes a primary write and commit, which proves that it is alive. An error as an answer proves that too.
func (a *Agent) sendHeartbeat(epoch int, prepared bool) {
	var err error
	if !prepared {
		ctx, cancel := context.WithTimeout(a.ctx, prepareTime)
		err = a.heartbeatConn.Prepare(ctx)
		cancel()
		prepared = err == nil
	}
	sent := now()
	if err == nil {
		ctx, cancel := context.WithTimeout(a.ctx, 2*heartbeatPause)
		err = a.heartbeatConn.Heartbeat(ctx)
		cancel()
	}
	took := now() - sent
	a.enqueue(func() {
		wait := heartbeatPause
		if err != nil {
			wait /= 4
		}
		pulse, answered := a.heartbeatState.next(err)
		if pulse.rejected > 0 {
			wait = heartbeatPause
		}
		a.heartbeat.over(max(now(), sent+wait))
		if epoch != a.epoch {
			return
		}
		a.rolesPrepared = a.rolesPrepared || prepared
		a.own.FullDisk = errors.Is(err, sqlclient.ErrDiskFull) || a.disk.Size > 0 && a.disk.Free < fullDisk
		a.heartbeatState = pulse
		if answered {
			a.own.HeartbeatAt = sent
		}
		if err == nil {
			a.counts.heartbeats.Add(1)
			a.heartbeatTimes.Observe(took.Seconds())
			return
		}
		a.counts.heartbeatFailures.Add(1)
		a.log.Log(a.ctx, pulse.level(), "heartbeat failed", "error", err.Error(), "answered", answered, "duration", (now() - sent).Round(time.Millisecond).String())
	})
}

// removeStaleLabels makes a new primary the only pod with the label of a primary.
func (a *Agent) removeStaleLabels(epoch int, instances []string) {
	others := slices.DeleteFunc(instances, func(name string) bool { return name == a.options.Pod })
	err := a.labels.RemoveStalePrimary(a.ctx, others)
	if err != nil {
		a.log.Warn("failed to remove stale primary labels", "error", err.Error())
	}
	a.enqueue(func() {
		if epoch == a.epoch && err == nil {
			a.staleLabelsRemoved = true
		} else if epoch == a.epoch {
			a.maintenance.next = min(a.maintenance.next, now()+retryPause)
		}
	})
}

const (
	// recoveryPause is the time between two checks of a recovery, the first of which happens after recoveryFirst.
	recoveryPause, recoveryFirst = 2 * time.Second, 5 * time.Second
	// recoveryStep is the CPU time that counts as progress: a process that only waits uses less within [election.Timing.Start].
	recoveryStep = 50 * time.Millisecond
)

// watchRecovery records that a starting or promoting server makes progress. Its recovery takes as long as the amount of WAL
// requires.
func (a *Agent) watchRecovery(at time.Duration) {
	recovering := a.own.Process == election.Starting || a.own.Process == election.Promoting
	if !recovering || a.process == nil || at < a.own.ProcessSince+recoveryFirst || !a.recoveryCheck.due(at) {
		return
	}
	go func(process *server.Process, epoch int) {
		used := process.RecoveryCPUTime()
		a.enqueue(func() {
			a.recoveryCheck.over(now() + recoveryPause)
			if epoch == a.epoch {
				a.recordRecovery(used, at)
			}
		})
	}(a.process, a.epoch)
}

// recordRecovery records how much CPU time a recovery has used at an instant.
func (a *Agent) recordRecovery(used, at time.Duration) {
	switch {
	case used < a.recoveryCPU: // another process does it now
		a.recoveryCPU = used
	case used-a.recoveryCPU >= recoveryStep:
		a.recoveryCPU, a.own.RecoveryAdvancedAt = used, at
	}
}
