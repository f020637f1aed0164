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
	// settleTime bounds what is asked of a server that runs: to take over a setting, to end its receiver.
	settleTime = 10 * time.Second
	// sendersTime is what walsenders get to load a setting after a session has: until then they acknowledge by the one before.
	sendersTime = 250 * time.Millisecond
	// reloadTime is how long after one process of the server all others have taken over a setting.
	reloadTime = 20 * time.Millisecond
	// slotsTime bounds the making of slots beside a promotion.
	slotsTime = 500 * time.Millisecond
	// pause is the time between two tries.
	pause = time.Second
)

func (a *Agent) startStandby(upstream string, at time.Duration) {
	a.own.Role, a.own.Upstream, a.own.Sync = election.Standby, upstream, election.Blocked(a.config, a.input(at))
	a.startServer("start as a standby", at, true, rendering{standby: true, upstream: upstream, sync: a.own.Sync, looked: true})
}

// startPrimary starts the server without standby.signal, under the eyes of the fence.
func (a *Agent) startPrimary(at time.Duration) {
	a.own.Role, a.own.Upstream, a.own.Sync = election.Primary, "", election.Blocked(a.config, a.input(at))
	a.startServer("start as the primary", at, false, rendering{sync: a.own.Sync})
}

func (a *Agent) startServer(name string, at time.Duration, standby bool, r rendering) {
	a.become(election.Starting, at)
	a.newEpoch()
	generation, render := a.generation(), a.renderer(r)
	a.guard(a.input(at))
	a.begin(name, func(ctx context.Context) func() {
		process, err := a.launch(ctx, standby, render)
		if err != nil {
			return func() { a.notStarted(err) }
		}
		a.post(func() {
			a.process = process
			a.newEpoch()
			go a.await(process)
		})
		if err := process.WaitReady(ctx); err != nil {
			return nil // it has ended, or is being stopped
		}
		return func() {
			if a.process == process && a.own.Process == election.Starting {
				a.become(election.Up, now())
				a.chores.next = 0
				a.applied, a.unread, a.checkpointed = generation, false, true // recovery ends with a checkpoint
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

func (a *Agent) notStarted(err error) {
	at := now()
	a.log.Error("start PostgreSQL", "error", err.Error())
	a.become(election.Down, at)
	a.rest = at + pause
	a.own.Upstream, a.own.Sync = "", nil
	if !errors.Is(err, errNoTime) && !errors.Is(err, errNoWatchdog) && !errors.Is(err, context.Canceled) {
		a.crashed(at, "did not start: "+oneLine(err.Error()))
	}
}

// promote ends recovery, if the Lease still allows it.
func (a *Agent) promote(after uint32, at time.Duration) {
	process, timeline, vet := a.process, a.own.Position.Timeline, a.vetImported()
	slots := a.slotsOfOthers()
	a.own.Role = election.Primary
	a.become(election.Promoting, at)
	a.newEpoch()
	a.guard(a.input(at))
	a.begin("promote", func(ctx context.Context) func() {
		a.fence.Guard(process)
		made := a.ensureSlots(ctx, slots)
		err := vet(ctx)
		if err == nil {
			err = reserve(a.server.DataDir(), timeline, after)
		}
		if err == nil {
			err = a.fence.Allow(ctx)
		}
		if err == nil {
			err = process.Promote()
		}
		if err != nil {
			return func() { a.notPromoted(err) }
		}
		if err := a.again(ctx, process.Done(), a.acting.WaitPrimary); err != nil {
			return nil // it has ended, or is being stopped
		}
		<-made
		status, err := a.status(ctx, a.acting)
		return func() { a.isPrimary(process, status, err, after) }
	})
}

// again repeats a query that waits for something, until it succeeds, the server ends or the task does: a failure says nothing.
func (a *Agent) again(ctx context.Context, ended <-chan struct{}, query func(context.Context) error) error {
	for {
		bounded, cancel := context.WithTimeout(ctx, settleTime)
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
		case <-time.After(pause / 4):
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
		ctx, cancel := context.WithTimeout(ctx, slotsTime)
		defer cancel()
		if _, err := a.keeping.EnsureSlots(ctx, slots); err != nil {
			a.log.Warn("slots", "error", err.Error())
		}
	}()
	return over
}

func (a *Agent) notPromoted(err error) {
	a.log.Error("promote", "error", err.Error())
	a.rest = now() + pause
	a.obstructed(err)
	if a.own.Process == election.Promoting {
		a.own.Role = election.Standby
		a.become(election.Up, now())
	}
}

func (a *Agent) isPrimary(process *server.Process, status sample, err error, after uint32) {
	if a.process != process || a.own.Process != election.Promoting {
		return
	}
	at := now()
	a.become(election.Up, at)
	a.newEpoch()
	a.counts.promotions.Add(1)
	a.origin = originNews{}
	if err == nil {
		a.sampled(status)
		a.log.Info("promoted", "timeline", a.own.Position.Timeline)
	}
	if a.own.Position.Timeline <= after {
		a.log.Error("the new timeline was used before", "timeline", a.own.Position.Timeline, "after", after)
	}
	a.own.Upstream, a.own.Receiving = "", false
	a.checkpointed, a.chores.next, a.heartbeat.next = false, 0, 0
	a.applied, a.retry = 0, 0 // the configuration still names the old primary
	a.events.Normal("Promoted", fmt.Sprintf("%s is the primary now, on timeline %d", a.options.Pod, a.own.Position.Timeline))
}

// followUpstream has a standby follow somebody else, or nobody.
func (a *Agent) followUpstream(upstream string) {
	process := a.process
	if process == nil {
		return
	}
	render, before := a.renderer(rendering{standby: true, upstream: upstream, sync: a.own.Sync, looked: true}), a.own.Upstream
	if upstream != "" {
		a.own.Upstream = upstream // from now on nobody may count on it to receive nothing
	}
	a.unread = true
	a.begin("follow", func(ctx context.Context) func() {
		ctx, cancel := context.WithTimeout(ctx, settleTime)
		defer cancel()
		if upstream == "" { // while there is a receiver, it tells the timeline
			if last, err := a.status(ctx, a.acting); err == nil {
				a.post(func() {
					if a.process == process && a.own.Process == election.Up {
						a.sampled(last)
					}
				})
			}
		}
		err := reload(process, render)
		if err == nil && upstream == "" {
			err = a.acting.TerminateWALReceiver(ctx)
		}
		status, failure := a.status(ctx, a.acting)
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
				a.rest = now() + pause/4
				return
			}
			a.newEpoch() // what was sampled before says nothing any more
			a.own.Upstream = upstream
			if failure == nil {
				a.sampled(status)
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
	a.unread = true
	a.begin("set synchronous replication", func(ctx context.Context) func() {
		ctx, cancel := context.WithTimeout(ctx, settleTime)
		defer cancel()
		err := reload(process, render)
		if err == nil {
			err = a.acting.WaitSetting(ctx, "synchronous_standby_names", value)
		}
		var s sample
		if err == nil {
			// The processes that send to standbys, and count who has a commit, got the same signal in the same moment.
			sleep(ctx, reloadTime)
			sleep(ctx, sendersTime)
			s, err = a.status(ctx, a.acting)
		}
		return func() {
			if err != nil {
				a.log.Warn("set synchronous replication", "error", err.Error())
				a.rest = now() + pause/4
				return
			}
			if a.process == process {
				a.own.Sync, a.own.SyncAt = quorum, uint64(s.Written)
				a.log.Info("synchronous replication", "setting", value)
			}
		}
	})
}
