package agent

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/election"
	"github.com/fettle-dev/fettle/internal/postgres/server"
)

const (
	// commandTimeout bounds a command to a running server: to load a setting, to stop its WAL receiver.
	commandTimeout = 10 * time.Second
	// walsenderReloadTime is how long walsenders get to load a setting after a session has loaded it. Until then they confirm by
	// the previous one.
	walsenderReloadTime = 250 * time.Millisecond
	// reloadTime is how long after one process of the server all others have loaded a setting.
	reloadTime = 20 * time.Millisecond
	// slotsTimeout bounds the creation of slots beside a promotion.
	slotsTimeout = 500 * time.Millisecond
	// retryPause is the time between two tries.
	retryPause = time.Second
)

func (a *Agent) startStandby(upstream string, at time.Duration) {
	a.own.Role, a.own.Upstream, a.own.Sync = election.Standby, upstream, election.StandbySync(a.config, a.input(at))
	a.startServer(at, rendering{standby: true, upstream: upstream, sync: a.own.Sync, minimumsKnown: true})
}

// startPrimary starts the server without standby.signal, guarded by the fence.
func (a *Agent) startPrimary(at time.Duration) {
	a.own.Role, a.own.Upstream, a.own.Sync = election.Primary, "", election.StandbySync(a.config, a.input(at))
	a.startServer(at, rendering{sync: a.own.Sync})
}

func (a *Agent) startServer(at time.Duration, r rendering) {
	a.setProcess(election.Starting, at)
	a.newEpoch()
	generation, render := a.generation(), a.renderer(r)
	a.updateFence(a.input(at))
	a.startTask(func(ctx context.Context) func() {
		process, err := a.launch(ctx, r.standby, render)
		if err != nil {
			return func() { a.startFailed(err) }
		}
		a.enqueue(func() {
			a.process = process
			a.newEpoch()
			go a.waitForExit(process)
		})
		if err := process.WaitReady(ctx); err != nil {
			return nil // it has exited, or is being stopped
		}
		return func() {
			if a.process == process && a.own.Process == election.Starting {
				a.setProcess(election.Up, now())
				a.maintenance.next = 0
				a.loadedGeneration, a.reloadPending, a.checkpointed = generation, false, true // recovery ends with a checkpoint
				a.log.Info("PostgreSQL accepts connections", "role", string(a.own.Role))
			}
		}
	})
}

// launch starts the server. The fence guards a primary from its first moment on.
func (a *Agent) launch(ctx context.Context, standby bool, render func() (bool, error)) (*server.Process, error) {
	if _, err := render(); err != nil {
		return nil, err
	}
	if err := a.server.SetStandby(standby); err != nil {
		return nil, err
	}
	if !standby {
		if err := a.fence.Allow(ctx); err != nil {
			return nil, err
		}
	}
	process, err := a.server.Start(ctx)
	if err == nil && !standby {
		a.fence.Guard(process)
	}
	return process, err
}

func (a *Agent) startFailed(err error) {
	at := now()
	a.log.Error("failed to start PostgreSQL", "error", err.Error())
	a.setProcess(election.Down, at)
	a.nextTaskAt = at + retryPause
	a.own.Upstream, a.own.Sync = "", nil
	if !errors.Is(err, errLeaseExpired) && !errors.Is(err, errNoWatchdog) && !errors.Is(err, context.Canceled) {
		a.recordCrash(at, "failed to start: "+oneLine(err.Error()))
	}
}

// promote ends recovery, if the lease still allows it.
func (a *Agent) promote(after uint32, at time.Duration) {
	process, timeline, vet := a.process, a.own.Position.Timeline, a.checkImported()
	slots := a.slotsOfOthers()
	a.own.Role = election.Primary
	a.setProcess(election.Promoting, at)
	a.newEpoch()
	a.updateFence(a.input(at))
	a.startTask(func(ctx context.Context) func() {
		a.fence.Guard(process)
		made := a.ensureSlots(ctx, slots)
		err := vet(ctx)
		if err == nil {
			err = reserveSkippedTimelines(a.server.DataDir(), timeline, after)
		}
		if err == nil {
			err = a.fence.Allow(ctx)
		}
		if err == nil {
			err = process.Promote()
		}
		if err != nil {
			return func() { a.promoteFailed(err) }
		}
		if err := a.retryUntil(ctx, process.Done(), a.adminConn.WaitPrimary); err != nil {
			return nil // it has exited, or is being stopped
		}
		<-made
		status, err := a.status(ctx, a.adminConn)
		return func() { a.promoted(process, status, err, after) }
	})
}

// retryUntil repeats a query that waits for something, until it succeeds, the server exits or the task ends. A failure means
// nothing.
func (a *Agent) retryUntil(ctx context.Context, ended <-chan struct{}, query func(context.Context) error) error {
	for {
		bounded, cancel := context.WithTimeout(ctx, commandTimeout)
		err := query(bounded)
		cancel()
		if err == nil {
			return nil
		}
		select {
		case <-ended:
			return err
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(retryPause / 4):
			a.log.Debug("retrying", "error", err.Error())
		}
	}
}

// ensureSlots creates the slots of the other instances beside the promotion. They follow as soon as the lease is held, and an
// instance that finds no slot retries only later. The maintenance retries what fails. The channel is closed at the end.
func (a *Agent) ensureSlots(ctx context.Context, slots []string) <-chan struct{} {
	over := make(chan struct{})
	go func() {
		defer close(over)
		ctx, cancel := context.WithTimeout(ctx, slotsTimeout)
		defer cancel()
		if _, err := a.maintenanceConn.EnsureSlots(ctx, slots); err != nil {
			a.log.Warn("failed to create replication slots", "error", err.Error())
		}
	}()
	return over
}

func (a *Agent) promoteFailed(err error) {
	a.log.Error("failed to promote", "error", err.Error())
	a.nextTaskAt = now() + retryPause
	a.recordSourceError(err)
	if a.own.Process == election.Promoting {
		a.own.Role = election.Standby
		a.setProcess(election.Up, now())
	}
}

func (a *Agent) promoted(process *server.Process, status sample, err error, after uint32) {
	if a.process != process || a.own.Process != election.Promoting {
		return
	}
	at := now()
	a.setProcess(election.Up, at)
	a.newEpoch()
	a.counts.promotions.Add(1)
	a.importStatus = importStatus{}
	if err == nil {
		a.recordSample(status)
		a.log.Info("promoted to primary", "timeline", a.own.Position.Timeline)
	}
	if a.own.Position.Timeline <= after {
		a.log.Error("new timeline was used before", "timeline", a.own.Position.Timeline, "after", after)
	}
	a.own.Upstream, a.own.Receiving = "", false
	a.checkpointed, a.maintenance.next, a.heartbeat.next = false, 0, 0
	a.loadedGeneration, a.reloadAt = 0, 0 // the configuration still names the old primary
	a.events.Normal("Promoted", fmt.Sprintf("promoted %s to primary on timeline %d", a.options.Pod, a.own.Position.Timeline))
}

// setUpstream makes a standby follow another instance, or none.
func (a *Agent) setUpstream(upstream string) {
	process := a.process
	if process == nil {
		return
	}
	render, before := a.renderer(rendering{standby: true, upstream: upstream, sync: a.own.Sync, minimumsKnown: true}), a.own.Upstream
	if upstream != "" {
		a.own.Upstream = upstream // from now on no instance may rely on it to receive nothing
	}
	a.reloadPending = true
	a.startTask(func(ctx context.Context) func() {
		ctx, cancel := context.WithTimeout(ctx, commandTimeout)
		defer cancel()
		if upstream == "" { // a running WAL receiver has the timeline
			if last, err := a.status(ctx, a.adminConn); err == nil {
				a.enqueue(func() {
					if a.process == process && a.own.Process == election.Up {
						a.recordSample(last)
					}
				})
			}
		}
		err := reload(process, render)
		if err == nil && upstream == "" {
			err = a.adminConn.TerminateWALReceiver(ctx)
		}
		status, failure := a.status(ctx, a.adminConn)
		if err == nil && upstream == "" {
			err = failure // what was received is known only from a sample taken after the WAL receiver stopped
		}
		return func() {
			if a.process != process || a.own.Process != election.Up {
				return
			}
			if err != nil {
				a.log.Warn("failed to change upstream", "upstream", upstream, "error", err.Error())
				a.own.Upstream = before
				a.nextTaskAt = now() + retryPause/4
				return
			}
			a.newEpoch() // earlier samples mean nothing any more
			a.own.Upstream = upstream
			if failure == nil {
				a.recordSample(status)
			}
		}
	})
}

func (a *Agent) setSync(quorum *election.Quorum) {
	process := a.process
	if process == nil {
		return
	}
	standby := a.own.Role == election.Standby
	render, value := a.renderer(rendering{standby: standby, upstream: a.own.Upstream, sync: quorum, minimumsKnown: standby}), synchronousNames(quorum)
	a.reloadPending = true
	a.startTask(func(ctx context.Context) func() {
		ctx, cancel := context.WithTimeout(ctx, commandTimeout)
		defer cancel()
		err := reload(process, render)
		if err == nil {
			err = a.adminConn.WaitSetting(ctx, "synchronous_standby_names", value)
		}
		var s sample
		if err == nil {
			// The walsenders, which count the confirmed commits, got the same signal at the same moment.
			sleep(ctx, reloadTime)
			sleep(ctx, walsenderReloadTime)
			s, err = a.status(ctx, a.adminConn)
		}
		return func() {
			if err != nil {
				a.log.Warn("failed to change synchronous standbys", "error", err.Error())
				a.nextTaskAt = now() + retryPause/4
				return
			}
			if a.process == process {
				a.own.Sync, a.own.SyncLSN = quorum, uint64(s.Written)
				a.log.Info("changed synchronous standbys", "synchronous_standby_names", value)
			}
		}
	})
}
