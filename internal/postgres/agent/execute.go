package agent

import (
	"context"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/election"
	"github.com/fettle-dev/fettle/internal/postgres/server"
)

// execute starts the decided action. Long actions continue beside the loop, and the state says so.
func (a *Agent) execute(d election.Decision, at time.Duration) {
	switch action := d.Action.(type) {
	case election.Acquire:
		a.writeLease(action.Lease, at)
	case election.Renew:
		a.writeLease(action.Lease, at)
	case election.Release:
		a.writeLease(action.Lease, at)
	case election.RequestPromises:
		a.requestPromises(action.Peers, at)
	case election.Checkpoint:
		a.checkpoint(nil)
	case election.Stop:
		a.stop(action, at)
	case election.Exit:
		a.exit()
	default:
		if !a.isDeferred(d.Action, at) {
			a.startChange(d.Action, at)
		}
	}
}

// isDeferred reports that an action does not start now: a task is running, or one has just failed.
func (a *Agent) isDeferred(action election.Action, at time.Duration) bool {
	switch action.(type) {
	case election.Wait, election.Acquire, election.Renew, election.Release, election.RequestPromises, election.Checkpoint, election.Stop, election.Exit:
		return false
	}
	return a.task != nil || at < a.nextTaskAt
}

func (a *Agent) startChange(action election.Action, at time.Duration) {
	switch action := action.(type) {
	case election.StartStandby:
		a.startStandby(action.Upstream, at)
	case election.StartPrimary:
		a.startPrimary(at)
	case election.Promote:
		a.promote(action.After, at)
	case election.Follow:
		a.setUpstream(action.Upstream)
	case election.SetSync:
		a.setSync(action.Quorum)
	case election.InitDB:
		a.runDataTask(election.Initializing, "", a.createData(a.spec, a.record))
	case election.Clone:
		a.runDataTask(election.Cloning, "", func(ctx context.Context) error { return a.clone(ctx, action.Source, false, "") })
	case election.Reclone:
		a.events.Warn("Reclone", a.options.Pod+" cannot follow the primary: recloning its data from "+action.Source)
		a.counts.reclones.Add(1)
		a.runDataTask(election.Cloning, "recloned "+a.options.Pod+" from "+action.Source, func(ctx context.Context) error { return a.clone(ctx, action.Source, true, "") })
	case election.RecloneKeepingData:
		kept := server.KeptDirName(time.Now())
		a.events.Warn("Reclone", "data loss is accepted: recloning "+a.options.Pod+" from "+action.Source+" and keeping its former data as "+kept+" on its volume")
		a.counts.reclones.Add(1)
		a.runDataTask(election.Cloning, "recloned "+a.options.Pod+" from "+action.Source+"; its former data is kept on its volume as "+kept+": remove that folder when you no longer need it",
			func(ctx context.Context) error { return a.clone(ctx, action.Source, true, kept) })
	case election.InspectWAL:
		a.inspectAgain()
	case election.Rewind:
		a.counts.rewinds.Add(1)
		render := a.renderer(rendering{standby: true})
		a.runDataTask(election.Rewinding, "rewound "+a.options.Pod+" to "+action.Source+": WAL that it had written since their timelines diverged is discarded", func(ctx context.Context) error { return a.rewind(ctx, action.Source, render) })
	}
}

// startTask runs do beside the loop. The loop calls the returned function at the end of the task; nil means none.
func (a *Agent) startTask(do func(ctx context.Context) func()) {
	ctx, cancel := context.WithCancel(a.ctx)
	t := &task{cancel: cancel}
	a.task = t
	go func() {
		after := do(ctx)
		cancel()
		a.enqueue(func() {
			if a.task == t {
				a.task = nil
			}
			if after != nil {
				after()
			}
		})
	}()
}

func (a *Agent) requestPromises(names []string, at time.Duration) {
	if a.requestingPromises {
		return
	}
	a.requestingPromises = true
	a.tenure.PromisesRequestedAt = at
	a.counts.promiseRequests.Add(1)
	request := agentapi.FailsafeRequest{
		Pod: a.options.Pod, PodUID: a.options.PodUID, CanReadLease: a.leaseReadableAt > 0 && at-a.leaseReadableAt <= 3*a.config.RenewInterval,
	}
	ctx, cancel := context.WithTimeout(a.ctx, min(a.config.RenewInterval, peerTimeout))
	go func() {
		defer cancel()
		a.peers.Failsafe(ctx, request, names, func(name string) {
			a.enqueue(func() { a.tenure = a.tenure.Granted(name, at) })
		})
		a.enqueue(func() { a.requestingPromises = false })
	}()
	a.probeLease(at)
}

// probeLease finds out whether the Lease can be read while writes fail. The content is ignored, because a write may be in
// progress.
func (a *Agent) probeLease(at time.Duration) {
	if !a.leaseProbe.due(at) {
		return
	}
	ctx, cancel := context.WithTimeout(a.ctx, a.requestTime())
	go func() {
		defer cancel()
		_, err := a.lease.Read(ctx)
		a.enqueue(func() {
			a.leaseProbe.over(0)
			if err == nil {
				a.leaseReadableAt = at
			}
		})
	}()
}

// exit ends the loop. The server is down.
func (a *Agent) exit() {
	if a.task != nil {
		a.task.cancel()
		return
	}
	a.exiting = true
}
