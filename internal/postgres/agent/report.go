package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/election"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

const (
	// readyGap is how long a replica stays ready without a stream, as in a failover; readyLag how many bytes it may lack.
	readyGap = 30 * time.Second
	readyLag = 256 << 20
	// maxTrouble bounds what is quoted behind a reason.
	maxTrouble = 300
	// tokenRefused is what is wrong when the API server does not know the pod's token.
	tokenRefused = "the API server refuses the token of the pod, as after its ServiceAccount was deleted; a new pod has a new one: delete the pod"
	// replyTime bounds a question that the loop has to answer.
	replyTime = time.Second
)

// publish shows others what the loop knows.
func (a *Agent) publish(d election.Decision, in election.Input) {
	own, s := &a.own, &a.sample
	status := &agentapi.Status{
		Pod: a.options.Pod, PodUID: a.options.PodUID, AgentVersion: a.options.Version, ServerVersion: a.version,
		Phase: a.phase(), Data: own.Data != election.Empty, SystemID: own.SystemID,
		Timeline:     wal.Timeline(own.Position.Timeline),
		Received:     wal.LSN(own.Position.LSN),
		APIReachable: a.observation.Reachable(), HoldsLease: a.observation.Lease.Holder == a.options.self() && a.holding.Confirmed.Sent > 0,
		Generation: max(a.applied, 0), ConfigError: cmp.Or(a.configError, a.vet.Complaint()),
		NeedsReclone: d.NeedsReclone, DiskFull: own.FullDisk,
		DiskFree: uint64(max(a.disk.Free, 0)), DiskTotal: uint64(max(a.disk.Size, 0)), //nolint:gosec // not below 0
		Message: a.message(d),
	}
	if a.origin.message != "" && status.Message == a.origin.message {
		status.Reason = a.origin.reason
	}
	if a.pulse.message(a.options.Pod) != "" {
		status.Reason = databasev1alpha1.ReasonWritesRejected
	}
	if d.LosesData {
		status.Reason = databasev1alpha1.ReasonDataLossNotAccepted
	}
	if status.Unauthorized = a.unauthorized; status.Unauthorized {
		status.Message = tokenRefused // whatever else is wrong, it can't be mended before
	}
	if own.Process == election.Up {
		status.Role, status.Replayed, status.Receiver, status.PendingRestart = agentapi.Replica, s.Replayed, own.Receiving, s.PendingRestart
		if own.Role == election.Primary {
			status.Role, status.Replayed = agentapi.Primary, status.Received
			status.Sync, status.Checkpointed = syncOf(own.Sync), a.checkpointed
			if applied := a.appliedObjects.Load(); applied != nil && applied.timeline == status.Timeline {
				status.Applied = &applied.Applied
			}
		} else if !s.LastReplay.IsZero() && s.Replayed < s.Received {
			status.ReplayLag = time.Since(s.LastReplay)
		}
	}
	if a.booted && a.configured {
		status.Election = election.Report(a.config, in)
	}
	why := a.unready(in)
	status.Ready = why == ""
	a.shown.Store(status)
	a.unreadyWhy.Store(&why)
	a.renewed.Store(int64(a.holding.Confirmed.Sent))
}

func syncOf(q *election.Quorum) *agentapi.Sync {
	if q == nil {
		return nil
	}
	return &agentapi.Sync{Number: q.Number, Members: q.Names}
}

func (a *Agent) phase() agentapi.Phase {
	switch a.own.Work {
	case election.Initializing:
		return agentapi.Initializing
	case election.Cloning:
		return agentapi.Cloning
	case election.Rewinding:
		return agentapi.Rewinding
	}
	switch a.own.Process {
	case election.Starting, election.Promoting:
		return agentapi.Starting
	case election.Stopping:
		return agentapi.Stopping
	case election.Up:
		if a.own.Role == election.Primary && a.hung() {
			return agentapi.Hung
		}
		return agentapi.Running
	}
	if a.config.Fenced {
		return agentapi.Fenced
	}
	return agentapi.Stopped
}

func (a *Agent) hung() bool {
	return now()-max(a.own.Answered, a.own.Since) > a.config.Heartbeat && !a.own.FullDisk
}

func (a *Agent) message(d election.Decision) string {
	switch {
	case d.Blocked && a.own.Process != election.Up && a.trouble != "":
		return d.Reason + " (" + a.trouble[:min(len(a.trouble), maxTrouble)] + ")"
	case d.Blocked, a.own.Severed > 0, a.own.Awaits > 0:
		return d.Reason
	case a.origin.message != "":
		return a.origin.message
	case a.own.FullDisk:
		return "the volume of " + a.options.Pod + " is full: raise spec.storage, or make space on it"
	case a.pulse.message(a.options.Pod) != "":
		return a.pulse.message(a.options.Pod)
	case a.own.Process != election.Up && a.trouble != "":
		return a.trouble
	case a.own.Process != election.Up:
		return d.Reason
	case a.useless != "":
		return a.useless
	}
	return ""
}

func (a *Agent) unready(in election.Input) string {
	switch {
	case a.own.Process != election.Up:
		return "PostgreSQL does not run"
	case a.own.Role != election.Primary:
		return a.unreadyReplica(in)
	case a.own.Answered == 0 && !a.own.FullDisk: // of a full one there is something to read
		return "the primary has not written yet"
	case a.hung():
		return "PostgreSQL does not answer"
	}
	return ""
}

// unreadyReplica returns why a standby that runs should get no connections; "" when it should.
func (a *Agent) unreadyReplica(in election.Input) string {
	switch {
	case a.own.Severed > 0 && in.Now-a.own.Severed > a.config.Patience:
		return "the primary has removed the log that the replica needs next"
	case a.own.Stalled > 0 && in.Now-a.own.Stalled > readyGap:
		return "the replica receives nothing from the primary"
	case a.streamed == 0 || in.Now-a.streamed > readyGap:
		return "the replica follows no primary"
	}
	recent := in.Now - 3*a.config.Renew // as the election has it: a primary that is dead says nothing newer
	for _, p := range in.Peers {
		if p.Sent >= recent && p.State.Writable && p.State.Position.LSN > a.own.Position.LSN+readyLag {
			return "the replica is far behind the primary"
		}
	}
	return ""
}

// Live fails when the loop is stuck. The API server and the peers play no part in it.
func (a *Agent) Live() error {
	if late := now() - time.Duration(a.turned.Load()); late > stuck {
		return fmt.Errorf("the agent's loop has been stuck for %s", late.Round(time.Second))
	}
	return nil
}

// Started fails until the agent's loop turns. It may take minutes until there is a decision: the write-ahead log is read first.
func (a *Agent) Started() error {
	if a.turned.Load() == 0 {
		return errors.New("the agent's loop has not turned yet")
	}
	return nil
}

// Ready says why the instance should get no connections.
func (a *Agent) Ready() error {
	if err := a.Live(); err != nil {
		return err
	}
	switch why := a.unreadyWhy.Load(); {
	case why == nil:
		return errors.New("no decision yet")
	case *why != "":
		return errors.New(*why)
	}
	return nil
}

// Current is what the loop knows now; a loop that is late knows nothing. The server is looked at anew, for the next question.
func (a *Agent) Current() (agentapi.Status, error) {
	if late := now() - time.Duration(a.turned.Load()); late > replyTime {
		return agentapi.Status{}, fmt.Errorf("%w: the agent's loop has not turned for %s", errNotNow, late.Round(time.Millisecond))
	}
	a.asked.Store(true)
	a.poke()
	return a.Status(), nil
}

// Status is what the loop knew at its last turn.
func (a *Agent) Status() agentapi.Status {
	shown := a.shown.Load()
	if shown == nil {
		return agentapi.Status{Pod: a.options.Pod, PodUID: a.options.PodUID, AgentVersion: a.options.Version, Phase: agentapi.Starting}
	}
	return *shown
}

// Promise answers a holder of the Lease that can't renew it. What is promised is noted before it is said.
func (a *Agent) Promise(from agentapi.FailsafeRequest) election.Reply {
	reply, ok := inLoop(a.life, a, func() election.Reply {
		reply := election.Promise(a.config, a.input(now()), election.Holder{Name: from.Pod, UID: from.PodUID}, from.Reads)
		if reply.Granted {
			a.promised = max(a.promised, reply.Until)
			a.counts.promises.Add(1)
		}
		return reply
	})
	if !ok {
		return election.Reply{Reason: "the agent is busy"}
	}
	return reply
}

// inLoop has the loop call f unless nobody waits for that any more. ok is false if there was no answer in time.
func inLoop[T any](ctx context.Context, a *Agent, f func() T) (answer T, ok bool) {
	ctx, cancel := context.WithTimeout(ctx, replyTime)
	defer cancel()
	answers := make(chan T, 1)
	ask := func() {
		if ctx.Err() == nil {
			answers <- f()
		}
	}
	select {
	case a.inbox <- ask:
	case <-ctx.Done():
		return answer, false
	}
	select {
	case answer = <-answers:
		return answer, true
	case <-ctx.Done():
		return answer, false
	}
}
