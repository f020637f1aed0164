package agent

import (
	"context"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/election"
	"github.com/fettle-dev/fettle/internal/postgres/server"
)

// execute begins what was decided. What takes time goes on beside the loop, and the state says that it does.
func (a *Agent) execute(d election.Decision, at time.Duration) {
	switch action := d.Action.(type) {
	case election.Acquire:
		a.writeLease(action.Lease, at)
	case election.Renew:
		a.writeLease(action.Lease, at)
	case election.Release:
		a.writeLease(action.Lease, at)
	case election.AskPeers:
		a.ask(action.Peers, at)
	case election.Checkpoint:
		a.checkpoint(nil)
	case election.Stop:
		a.stop(action, at)
	case election.Exit:
		a.exit()
	default:
		if !a.putsOff(d.Action, at) {
			a.change(d.Action, at)
		}
	}
}

// putsOff says that an action is not begun now: a task is under way, or one has failed just before.
func (a *Agent) putsOff(action election.Action, at time.Duration) bool {
	switch action.(type) {
	case election.Wait, election.Acquire, election.Renew, election.Release, election.AskPeers, election.Checkpoint, election.Stop, election.Exit:
		return false
	}
	return a.task != nil || at < a.rest
}

func (a *Agent) change(action election.Action, at time.Duration) {
	switch action := action.(type) {
	case election.StartStandby:
		a.startStandby(action.Upstream, at)
	case election.StartPrimary:
		a.startPrimary(at)
	case election.Promote:
		a.promote(action.After, at)
	case election.Follow:
		a.followUpstream(action.Upstream)
	case election.SetSync:
		a.setSync(action.Quorum)
	case election.InitDB:
		a.work(election.Initializing, "", a.firstData(a.spec))
	case election.Clone:
		a.work(election.Cloning, "", func(ctx context.Context) error { return a.clone(ctx, action.Source, false, "") })
	case election.Reclone:
		a.events.Warn("Reclone", "the data of "+a.options.Pod+" can't follow the primary and is replaced by a copy of "+action.Source)
		a.counts.reclones.Add(1)
		a.work(election.Cloning, "the data of "+a.options.Pod+" is a copy of "+action.Source+" now", func(ctx context.Context) error { return a.clone(ctx, action.Source, true, "") })
	case election.PutAside:
		kept := server.KeptDirName(time.Now())
		a.events.Warn("Reclone", "the data of "+a.options.Pod+" hold what "+action.Source+" lacks, which was accepted: they are kept as "+kept+" on its volume, and replaced by a copy")
		a.counts.reclones.Add(1)
		a.work(election.Cloning, "the data of "+a.options.Pod+" is a copy of "+action.Source+" now; what it had is kept on its volume as "+kept+": remove that folder when it is not needed any more",
			func(ctx context.Context) error { return a.clone(ctx, action.Source, true, kept) })
	case election.Look:
		a.lookAgain()
	case election.Rewind:
		a.counts.rewinds.Add(1)
		render := a.renderer(rendering{standby: true})
		a.work(election.Rewinding, a.options.Pod+" had left the history of "+action.Source+" and was rewound to it: what it had written since is gone", func(ctx context.Context) error { return a.rewind(ctx, action.Source, render) })
	}
}

// begin runs do beside the loop; the loop calls what it returns when the task is over, nil for nothing.
func (a *Agent) begin(name string, do func(ctx context.Context) func()) {
	ctx, cancel := context.WithCancel(a.life)
	t := &task{name: name, cancel: cancel}
	a.task = t
	go func() {
		after := do(ctx)
		cancel()
		a.post(func() {
			if a.task == t {
				a.task = nil
			}
			if after != nil {
				after()
			}
		})
	}()
}

func (a *Agent) ask(names []string, at time.Duration) {
	if a.asking {
		return
	}
	a.asking = true
	a.holding.AskedAt = at
	a.counts.asked.Add(1)
	request := agentapi.FailsafeRequest{
		Pod: a.options.Pod, PodUID: a.options.PodUID, CanReadLease: a.readable > 0 && at-a.readable <= 3*a.config.Renew,
	}
	ctx, cancel := context.WithTimeout(a.life, min(a.config.Renew, peerCall))
	go func() {
		defer cancel()
		a.peers.Failsafe(ctx, request, names, func(name string) {
			a.post(func() { a.holding = a.holding.Granted(name, at) })
		})
		a.post(func() { a.asking = false })
	}()
	a.probe(at)
}

// probe finds out whether the Lease can be read while writes fail. What was read is not looked at: a write may be under way.
func (a *Agent) probe(at time.Duration) {
	if !a.probing.due(at) {
		return
	}
	ctx, cancel := context.WithTimeout(a.life, a.requestTime())
	go func() {
		defer cancel()
		_, err := a.lease.Read(ctx)
		a.post(func() {
			a.probing.over(0)
			if err == nil {
				a.readable = at
			}
		})
	}()
}

// exit ends the loop: the server is down.
func (a *Agent) exit() {
	if a.task != nil {
		a.task.cancel()
		return
	}
	a.done = true
}
