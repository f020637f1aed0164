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
	// readyGap is how long a standby stays ready without a stream, as in a failover. readyLag is how many bytes it may lack.
	readyGap = 30 * time.Second
	readyLag = 256 << 20
	// maxErrorText bounds the error that is quoted behind a reason.
	maxErrorText = 300
	// tokenRejected is the message while the API server does not accept the pod's token.
	tokenRejected = "API server rejects the pod's token, probably because its ServiceAccount was deleted: delete the pod to get a new token"
	// replyTime bounds a request that the loop has to answer.
	replyTime = time.Second
)

// publish makes the state of the loop available to others.
func (a *Agent) publish(d election.Decision, in election.Input) {
	own, s := &a.own, &a.sample
	if a.archiver != nil {
		a.archiver.update(a.archiveView())
	}
	status := &agentapi.Status{
		Pod: a.options.Pod, PodUID: a.options.PodUID, ServerVersion: a.version,
		Phase: a.phase(), Timeline: wal.Timeline(own.Position.Timeline),
		Received:     wal.LSN(own.Position.LSN),
		APIReachable: a.observation.Reachable(), HoldsLease: a.observation.Lease.Holder == a.options.self() && a.tenure.Confirmed.Sent > 0,
		Generation: max(a.loadedGeneration, 0), ConfigError: cmp.Or(a.configError, a.validator.Rejected()),
		NeedsReclone: d.NeedsRecloneConsent, DiskFull: own.FullDisk,
		DiskFree: uint64(max(a.disk.Free, 0)), DiskTotal: uint64(max(a.disk.Size, 0)), //nolint:gosec // not below 0
	}
	status.Archive = a.archiver.Status()
	if a.record != nil {
		status.Volumes = a.record.Volumes
	}
	status.Reason, status.Message = a.problem(d)
	status.Progress = a.importStatus.progress
	if a.heartbeatState.message(a.options.Pod) != "" {
		status.Reason = databasev1alpha1.ReasonWritesRejected
	}
	if d.NeedsDataLossConsent {
		status.Reason = databasev1alpha1.ReasonDataLossNotAccepted
	}
	if status.Unauthorized = a.unauthorized; status.Unauthorized {
		status.Message = tokenRejected // nothing else can be fixed before this
	}
	if own.Process == election.Up {
		status.Role, status.Replayed, status.Receiver, status.PendingRestart = agentapi.Replica, s.Replayed, own.Receiving, s.PendingRestart
		if own.Role == election.Primary {
			status.Role, status.Replayed = agentapi.Primary, status.Received
			status.Sync, status.Checkpointed = syncOf(own.Sync), a.checkpointed
			if applied := a.appliedObjects.Load(); applied != nil && applied.timeline == status.Timeline {
				status.Applied = &applied.Applied
			}
		}
	}
	if a.booted && a.configured {
		status.Election = election.Report(a.config, in)
	}
	why := a.unready(in)
	status.Ready = why == ""
	a.published.Store(status)
	a.unreadyReason.Store(&why)
	a.renewedAt.Store(int64(a.tenure.Confirmed.Sent))
}

func syncOf(q *election.Quorum) *agentapi.Sync {
	if q == nil {
		return nil
	}
	return &agentapi.Sync{Number: q.Number, Members: q.Names}
}

func (a *Agent) phase() agentapi.Phase {
	switch a.own.DataTask {
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
		if a.own.Role == election.Primary && a.unresponsive() {
			return agentapi.Unresponsive
		}
		return agentapi.Running
	}
	if a.config.Fenced {
		return agentapi.Fenced
	}
	return agentapi.Stopped
}

func (a *Agent) unresponsive() bool {
	return now()-max(a.own.HeartbeatAt, a.own.ProcessSince) > a.config.HeartbeatTimeout && !a.own.FullDisk
}

// problem returns what to show people about the instance: a reason of the condition, if there is one for it, and a message.
func (a *Agent) problem(d election.Decision) (reason, message string) {
	switch {
	case d.ManualIntervention && a.own.Process != election.Up && a.lastError != "":
		return "", d.Reason + " (" + a.lastError[:min(len(a.lastError), maxErrorText)] + ")"
	case d.ManualIntervention, a.own.WALGoneSince > 0, a.own.AwaitingRecloneSince > 0:
		return "", d.Reason
	case a.importStatus.message != "":
		return a.importStatus.reason, a.importStatus.message
	case a.own.FullDisk:
		return "", "the volume of " + a.options.Pod + " is full: raise spec.storage, or free space on it"
	case a.heartbeatState.message(a.options.Pod) != "":
		return "", a.heartbeatState.message(a.options.Pod)
	case a.own.Process != election.Up && a.lastError != "":
		return "", a.lastError
	case a.own.Process != election.Up:
		return "", d.Reason
	}
	return "", a.tlsError
}

func (a *Agent) unready(in election.Input) string {
	switch {
	case a.own.Process != election.Up:
		return "PostgreSQL is not running"
	case a.own.Role != election.Primary:
		return a.unreadyStandby(in)
	case a.own.HeartbeatAt == 0 && !a.own.FullDisk: // a primary with a full disk can be read
		return "primary has not written yet"
	case a.unresponsive():
		return "PostgreSQL does not respond"
	}
	return ""
}

// unreadyStandby returns why a running standby should get no connections; "" when it should.
func (a *Agent) unreadyStandby(in election.Input) string {
	switch {
	case a.own.WALGoneSince > 0 && in.Now-a.own.WALGoneSince > a.config.CatchUpWait:
		return "required WAL has been removed from the primary"
	case a.own.StalledSince > 0 && in.Now-a.own.StalledSince > readyGap:
		return "standby receives no WAL from the primary"
	case a.streamedAt == 0 || in.Now-a.streamedAt > readyGap:
		return "standby does not follow a primary"
	}
	recent := in.Now - 3*a.config.RenewInterval // as in the election: a dead primary sends no newer answer
	for _, p := range in.Peers {
		if p.RequestedAt >= recent && p.State.Writable && p.State.Position.LSN > a.own.Position.LSN+readyLag {
			return "standby is far behind the primary"
		}
	}
	return ""
}

// Live fails when the loop is stuck. It does not depend on the API server and the peers.
func (a *Agent) Live() error {
	if late := now() - time.Duration(a.tickedAt.Load()); late > livenessTimeout {
		return fmt.Errorf("agent's loop has been stuck for %s", late.Round(time.Second))
	}
	return nil
}

// Started fails until the agent's loop runs. The first decision may take minutes, because the WAL is read first.
func (a *Agent) Started() error {
	if a.tickedAt.Load() == 0 {
		return errors.New("agent's loop has not started")
	}
	return nil
}

// Ready returns why the instance should get no connections.
func (a *Agent) Ready() error {
	if err := a.Live(); err != nil {
		return err
	}
	switch why := a.unreadyReason.Load(); {
	case why == nil:
		return errors.New("no decision yet")
	case *why != "":
		return errors.New(*why)
	}
	return nil
}

// CurrentStatus is the status as the loop knows it now; a loop that is late knows nothing. The server is sampled again, for the
// next request.
func (a *Agent) CurrentStatus() (agentapi.Status, error) {
	if late := now() - time.Duration(a.tickedAt.Load()); late > replyTime {
		return agentapi.Status{}, fmt.Errorf("%w: agent's loop has been stuck for %s", errNotNow, late.Round(time.Millisecond))
	}
	a.statusRequested.Store(true)
	a.wake()
	return a.Status(), nil
}

// Status is the status as of the last tick of the loop.
func (a *Agent) Status() agentapi.Status {
	shown := a.published.Load()
	if shown == nil {
		return agentapi.Status{Pod: a.options.Pod, PodUID: a.options.PodUID, Phase: agentapi.Starting}
	}
	return *shown
}

// Promise answers a holder of the lease that cannot renew it. A promise is recorded before it is sent.
func (a *Agent) Promise(from agentapi.FailsafeRequest) election.Reply {
	reply, _ := inLoop(a.ctx, a, func() election.Reply {
		reply := election.Promise(a.config, a.input(now()), election.Holder{Name: from.Pod, UID: from.PodUID}, from.CanReadLease)
		if reply.Granted {
			a.promisedUntil = max(a.promisedUntil, reply.Until)
			a.counts.promises.Add(1)
		}
		return reply
	})
	return reply // not granted if the loop is busy
}

// inLoop makes the loop call f, unless the caller has stopped waiting. ok is false if there was no answer in time.
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
