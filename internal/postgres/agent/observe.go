package agent

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/election"
	"github.com/fettle-dev/fettle/internal/postgres/sqlclient"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

const (
	// heartbeatPause is between two heartbeats, sampleCalm and sampleUrgent between two looks at the server.
	heartbeatPause           = time.Second
	sampleCalm, sampleUrgent = time.Second, 100 * time.Millisecond
	// sampleAsked is the time between two looks at the server when somebody asks for its status.
	sampleAsked = 25 * time.Millisecond
	// urgentTime is how long it stays urgent: what has not been settled by then waits for something else.
	urgentTime = time.Minute
	// sampleTime bounds a look at the server.
	sampleTime = 2 * time.Second
	// prepareTime bounds what a new primary is given once.
	prepareTime = 20 * time.Second
	// choresPause is the time between two looks at what a primary keeps for the others.
	choresPause = 30 * time.Second
	// reachAfter is how long a standby may receive nothing before the primary is asked for a connection, each reachPause.
	reachAfter, reachPause = 3 * time.Second, 5 * time.Second
)

type sample struct {
	sqlclient.Status

	history []election.Fork
	asked   time.Duration
}

// observe begins what is due, beside the loop.
func (a *Agent) observe(at time.Duration) {
	a.pollLease(at)
	a.peers.SetUrgent(a.urgent(at))
	if a.measuring.due(at) {
		go a.measure(a.epoch, a.segment)
	}
	a.watchRecovery(at)
	if a.own.Process != election.Up {
		return
	}
	if a.asked.Swap(false) {
		a.sampling.next = min(a.sampling.next, a.sample.asked+sampleAsked)
	}
	if a.sampling.due(at) {
		go a.watchServer(a.epoch)
	}
	if a.own.Role != election.Primary {
		a.followAddress()
		if a.chores.due(at) {
			go a.keepSlots(a.slotsOfOthers(), slotPositions(a.options.Cluster, &a.own, a.input(at).Peers))
		}
		if a.own.Stalled > 0 && at-a.own.Stalled > reachAfter && a.reaching.due(at) {
			go a.reach(a.own.Upstream)
		}
		return
	}
	if a.heartbeat.due(at) {
		go a.beat(a.epoch, a.prepared)
	}
	if a.chores.due(at) {
		if !a.claimed && a.fence.Check() == nil {
			go a.claim(a.epoch, slices.Clone(a.config.Instances))
		}
		go a.keep(a.epoch, a.slotsOfOthers(), a.checkpointed)
		if timeline := a.own.Position.Timeline; timeline != a.filled {
			go a.fill(timeline, slices.Clone(a.own.History))
		}
	}
}

// followAddress has the configuration made again when the upstream is reached at another address than before.
func (a *Agent) followAddress() {
	if ip := a.peers.IP(a.own.Upstream); ip != "" && ip != a.upstreamIP {
		a.upstreamIP, a.applied = ip, -1
	}
}

// urgent tells that there may be something to decide soon, so that all is looked at more often: there is no primary that
// serves, this instance is on its way to or from being one, or it has lost or does not have what it follows.
func (a *Agent) urgent(at time.Duration) bool {
	calm := a.own.Process == election.Up && a.own.Role == election.Primary && a.holding.Confirmed.Sent > 0 && a.allFollow() ||
		a.own.Process == election.Up && a.own.Role == election.Standby && a.observation.Lease.Holder != (election.Holder{}) &&
			at-a.streamed < sampleCalm+sampleCalm/2
	if calm && !a.stopping {
		a.urgentSince = 0
		return false
	}
	if a.urgentSince == 0 {
		a.urgentSince = at
	}
	return at-a.urgentSince < urgentTime
}

// allFollow tells that every other instance streams from this one.
func (a *Agent) allFollow() bool {
	streaming := 0
	for _, f := range a.followers {
		if f.Streaming && f.CaughtUp {
			streaming++
		}
	}
	return streaming >= len(a.config.Instances)-1
}

// status asks the server how it is, with the history of its timeline.
func (a *Agent) status(ctx context.Context, client *sqlclient.Client) (sample, error) {
	ctx, cancel := context.WithTimeout(ctx, sampleTime)
	defer cancel()
	out := sample{asked: now()}
	var err error
	if out.Status, err = client.Status(ctx); err != nil {
		return out, err
	}
	out.history, err = a.history(out.Timeline)
	return out, err
}

func (a *Agent) watchServer(epoch int) {
	s, err := a.status(a.life, a.watching)
	a.post(func() {
		wait := sampleCalm
		if a.urgent(now()) || err != nil {
			wait = sampleUrgent
		}
		a.sampling.over(now() + wait)
		if epoch != a.epoch {
			return
		}
		if err != nil {
			a.log.Debug("status", "error", err.Error())
			return
		}
		a.sampled(s)
	})
}

// sampled notes what the server said in this epoch, unless it has said something newer.
func (a *Agent) sampled(s sample) {
	if s.asked < a.sample.asked {
		return
	}
	a.sample, a.own.SystemID, a.own.Looked = s, s.SystemID, s.asked
	// A standby without a receiver may name an older timeline than the one that it has received from; it never goes back.
	at := position(max(s.Timeline, wal.Timeline(a.own.Position.Timeline)), max(s.Received, s.Replayed))
	if !s.InRecovery {
		at = position(s.Timeline, s.Written)
		a.own.Exact = true
		a.follow(s.Status, s.asked)
	}
	if a.own.Role == election.Standby {
		a.own.Receiving = s.Receiver != nil
		if s.Receiver != nil && s.Receiver.State == "streaming" {
			a.receives(s.Receiver.PID, s.asked)
		} else {
			a.receiver.pid = 0
		}
		if s.Replayed > a.replayed {
			a.replayed, a.own.Stalled = s.Replayed, 0
		}
	}
	// What was on the disk before the start is received too, though the server may not have replayed it yet.
	if at.Compare(a.own.Position) > 0 {
		if at.Timeline > a.own.Position.Timeline {
			a.own.History = s.history
		}
		a.own.Position, a.own.Severed, a.own.Stalled = at, 0, 0
	}
	a.own.Clean = false
}

// receives notes that a WAL receiver says that it streams: it does so before the primary tells it that the WAL is gone.
func (a *Agent) receives(pid int, at time.Duration) {
	if a.own.Severed == 0 {
		a.own.Exact, a.streamed = true, at
	}
	if a.receiver.pid != pid {
		a.receiver.pid, a.receiver.since = pid, at
	}
	if at-a.receiver.since >= sampleCalm/2 { // it does follow: what went wrong before does not count any more
		a.own.Stalled, a.own.Failed, a.own.Copied = 0, 0, false
	}
}

// reach asks the primary for a replication connection: if a standby that receives nothing gets one, its data are the cause.
func (a *Agent) reach(upstream string) {
	sent := now()
	ctx, cancel := context.WithTimeout(a.life, reachPause)
	defer cancel()
	err := a.server.CheckSource(ctx, a.source(upstream))
	a.post(func() {
		a.reaching.over(now() + reachPause)
		if err != nil {
			a.log.Debug("the primary takes no connection for replication", "error", oneLine(err.Error()))
		} else if a.own.Upstream == upstream {
			a.own.Reached = sent
		}
	})
}

// keep does what a primary owes the others: a slot for each, and after a promotion a checkpoint, which pg_rewind needs.
func (a *Agent) keep(epoch int, slots []string, checkpointed bool) {
	ctx, cancel := context.WithTimeout(a.life, time.Minute)
	defer cancel()
	var err error
	if !checkpointed {
		err = a.keeping.Checkpoint(ctx)
		checkpointed = err == nil
	}
	changed, failure := a.keeping.EnsureSlots(ctx, slots)
	if len(changed) > 0 {
		a.log.Info("slots", "changed", changed)
	}
	a.syncLogins(ctx)
	err = errors.Join(err, failure)
	a.post(func() {
		wait := choresPause
		if err != nil {
			a.log.Warn("look after the standbys", "error", err.Error())
			wait = pause
		}
		a.chores.over(now() + wait)
		if epoch == a.epoch {
			a.slots, a.checkpointed = slots, checkpointed
		}
	})
}

// slotsMissing has the slots looked at soon when instances were added or removed.
func (a *Agent) slotsMissing() {
	if a.own.Process == election.Up && a.own.Role == election.Primary && !slices.Equal(a.slots, a.slotsOfOthers()) && a.chores.next > now()+pause {
		a.chores.next = 0
	}
}
