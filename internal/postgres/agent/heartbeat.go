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

// reportAfter is how many heartbeats in a row are rejected before a person is told: one can fail for a query that somebody cancels.
const reportAfter = 3

// heartbeatState is what the heartbeats of a primary have told so far.
type heartbeatState struct {
	// silent says that the last heartbeat that reached a session got no answer.
	silent bool
	// rejection is the last answer that was an error, and rejected how many there were in a row.
	rejection sqlclient.Rejection
	rejected  int
}

// next returns p after a heartbeat that ended with err, and whether that is an answer, see [sqlclient.AsRejection]. An error before there is a
// session is none of a server that was silent: clients that hang with its disk take all connections.
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

// level is how much a heartbeat that failed is worth telling: a rejection that goes on is told once.
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

// sendHeartbeat has a primary write and commit, which tells that it is alive; an error that it answers does as well.
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
		a.log.Log(a.ctx, pulse.level(), "heartbeat", "error", err.Error(), "answered", answered, "after", (now() - sent).Round(time.Millisecond).String())
	})
}

// removeStaleLabels has a new primary be the only one that is labelled so.
func (a *Agent) removeStaleLabels(epoch int, instances []string) {
	others := slices.DeleteFunc(instances, func(name string) bool { return name == a.options.Pod })
	err := a.labels.RemoveStalePrimary(a.ctx, others)
	if err != nil {
		a.log.Warn("labels", "error", err.Error())
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
	// recoveryPause is the time between two looks at a recovery, the first of which comes after recoveryFirst.
	recoveryPause, recoveryFirst = 2 * time.Second, 5 * time.Second
	// recoveryStep is the CPU time that counts as progress: a process that only waits uses less within [election.Timing.Start].
	recoveryStep = 50 * time.Millisecond
)

// watchRecovery notes that a server which starts or is promoted advances: its recovery takes as long as there is to recover.
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

// recordRecovery notes how much time a recovery has used at an instant.
func (a *Agent) recordRecovery(used, at time.Duration) {
	switch {
	case used < a.recoveryCPU: // another process does it now
		a.recoveryCPU = used
	case used-a.recoveryCPU >= recoveryStep:
		a.recoveryCPU, a.own.RecoveryAdvancedAt = used, at
	}
}
