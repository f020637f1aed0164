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
	// commandTimeout bounds what is asked of a server that runs: to take over a setting, to end its receiver.
	commandTimeout = 10 * time.Second
	// walsenderReloadTime is what walsenders get to load a setting after a session has: until then they acknowledge by the one before.
	walsenderReloadTime = 250 * time.Millisecond
	// reloadTime is how long after one process of the server all others have taken over a setting.
	reloadTime = 20 * time.Millisecond
	// slotsTimeout bounds the making of slots beside a promotion.
	slotsTimeout = 500 * time.Millisecond
	// retryPause is the time between two tries.
	retryPause = time.Second
)

func (a *Agent) startStandby(upstream string, at time.Duration) {
	a.own.Role, a.own.Upstream, a.own.Sync = election.Standby, upstream, election.StandbySync(a.config, a.input(at))
	a.startServer("start as a standby", at, true, rendering{standby: true, upstream: upstream, sync: a.own.Sync, looked: true})
}

// startPrimary starts the server without standby.signal, under the eyes of the fence.
func (a *Agent) startPrimary(at time.Duration) {
	a.own.Role, a.own.Upstream, a.own.Sync = election.Primary, "", election.StandbySync(a.config, a.input(at))
	a.startServer("start as the primary", at, false, rendering{sync: a.own.Sync})
}

func (a *Agent) startServer(name string, at time.Duration, standby bool, r rendering) {
	a.setProcess(election.Starting, at)
	a.newEpoch()
	generation, render := a.generation(), a.renderer(r)
	a.updateFence(a.input(at))
	a.startTask(name, func(ctx context.Context) func() {
		process, err := a.launch(ctx, standby, render)
		if err != nil {
			return func() { a.startFailed(err) }
		}
		a.enqueue(func() {
			a.process = process
			a.newEpoch()
			go a.waitForExit(process)
		})
		if err := process.WaitReady(ctx); err != nil {
			return nil // it has ended, or is being stopped
		}
		return func() {
			if a.process == process && a.own.Process == election.Starting {
				a.setProcess(election.Up, now())
				a.maintenance.next = 0
				a.loadedGeneration, a.reloadPending, a.checkpointed = generation, false, true // recovery ends with a checkpoint
				a.log.Info("PostgreSQL takes connections", "role", string(a.own.Role))
			}
		}
	})
}

// launch starts the server. A primary is under the eyes of the fence from its first moment on.
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
	a.log.Error("start PostgreSQL", "error", err.Error())
	a.setProcess(election.Down, at)
	a.nextTaskAt = at + retryPause
	a.own.Upstream, a.own.Sync = "", nil
	if !errors.Is(err, errLeaseExpired) && !errors.Is(err, errNoWatchdog) && !errors.Is(err, context.Canceled) {
		a.recordCrash(at, "did not start: "+oneLine(err.Error()))
	}
}

// promote ends recovery, if the Lease still allows it.
func (a *Agent) promote(after uint32, at time.Duration) {
	process, timeline, vet := a.process, a.own.Position.Timeline, a.checkImported()
	slots := a.slotsOfOthers()
	a.own.Role = election.Primary
	a.setProcess(election.Promoting, at)
	a.newEpoch()
	a.updateFence(a.input(at))
	a.startTask("promote", func(ctx context.Context) func() {
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
			return nil // it has ended, or is being stopped
		}
		<-made
		status, err := a.status(ctx, a.adminConn)
		return func() { a.promoted(process, status, err, after) }
	})
}

// retryUntil repeats a query that waits for something, until it succeeds, the server ends or the task does: a failure says nothing.
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
			a.log.Debug("trying again", "error", err.Error())
		}
	}
}

// ensureSlots makes the slots of the others beside the promotion: they follow from the moment on that the Lease is held, and
// who finds no slot tries again only later. What fails is looked at again. The channel is closed when it is over.
func (a *Agent) ensureSlots(ctx context.Context, slots []string) <-chan struct{} {
	over := make(chan struct{})
	go func() {
		defer close(over)
		ctx, cancel := context.WithTimeout(ctx, slotsTimeout)
		defer cancel()
		if _, err := a.maintenanceConn.EnsureSlots(ctx, slots); err != nil {
			a.log.Warn("slots", "error", err.Error())
		}
	}()
	return over
}

func (a *Agent) promoteFailed(err error) {
	a.log.Error("promote", "error", err.Error())
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
		a.log.Info("promoted", "timeline", a.own.Position.Timeline)
	}
	if a.own.Position.Timeline <= after {
		a.log.Error("the new timeline was used before", "timeline", a.own.Position.Timeline, "after", after)
	}
	a.own.Upstream, a.own.Receiving = "", false
	a.checkpointed, a.maintenance.next, a.heartbeat.next = false, 0, 0
	a.loadedGeneration, a.reloadAt = 0, 0 // the configuration still names the old primary
	a.events.Normal("Promoted", fmt.Sprintf("%s is the primary now, on timeline %d", a.options.Pod, a.own.Position.Timeline))
}

// setUpstream has a standby follow somebody else, or nobody.
func (a *Agent) setUpstream(upstream string) {
	process := a.process
	if process == nil {
		return
	}
	render, before := a.renderer(rendering{standby: true, upstream: upstream, sync: a.own.Sync, looked: true}), a.own.Upstream
	if upstream != "" {
		a.own.Upstream = upstream // from now on nobody may count on it to receive nothing
	}
	a.reloadPending = true
	a.startTask("follow", func(ctx context.Context) func() {
		ctx, cancel := context.WithTimeout(ctx, commandTimeout)
		defer cancel()
		if upstream == "" { // while there is a receiver, it tells the timeline
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
			err = failure // what was received is known only from a sample that was taken after the receiver ended
		}
		return func() {
			if a.process != process || a.own.Process != election.Up {
				return
			}
			if err != nil {
				a.log.Warn("follow", "upstream", upstream, "error", err.Error())
				a.own.Upstream = before
				a.nextTaskAt = now() + retryPause/4
				return
			}
			a.newEpoch() // what was sampled before says nothing any more
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
	render, value := a.renderer(rendering{standby: standby, upstream: a.own.Upstream, sync: quorum, looked: standby}), synchronousNames(quorum)
	a.reloadPending = true
	a.startTask("set synchronous replication", func(ctx context.Context) func() {
		ctx, cancel := context.WithTimeout(ctx, commandTimeout)
		defer cancel()
		err := reload(process, render)
		if err == nil {
			err = a.adminConn.WaitSetting(ctx, "synchronous_standby_names", value)
		}
		var s sample
		if err == nil {
			// The processes that send to standbys, and count who has a commit, got the same signal in the same moment.
			sleep(ctx, reloadTime)
			sleep(ctx, walsenderReloadTime)
			s, err = a.status(ctx, a.adminConn)
		}
		return func() {
			if err != nil {
				a.log.Warn("set synchronous replication", "error", err.Error())
				a.nextTaskAt = now() + retryPause/4
				return
			}
			if a.process == process {
				a.own.Sync, a.own.SyncLSN = quorum, uint64(s.Written)
				a.log.Info("synchronous replication", "setting", value)
			}
		}
	})
}
