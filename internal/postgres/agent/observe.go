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
	// heartbeatPause is the time between two heartbeats. sampleInterval and sampleIntervalUrgent are the times between two
	// samples of the server.
	heartbeatPause                       = time.Second
	sampleInterval, sampleIntervalUrgent = time.Second, 100 * time.Millisecond
	// sampleIntervalRequested is the time between two samples while a client requests the status.
	sampleIntervalRequested = 25 * time.Millisecond
	// urgentTime is how long a state stays urgent. What has not settled by then waits for something else.
	urgentTime = time.Minute
	// sampleTime bounds a sample of the server.
	sampleTime = 2 * time.Second
	// prepareTime bounds the preparation of a new primary.
	prepareTime = 20 * time.Second
	// maintenanceInterval is the time between two checks of what a primary keeps for its standbys.
	maintenanceInterval = 30 * time.Second
	// reachAfter is how long a standby may receive nothing before it opens a test connection to the primary, every reachPause.
	reachAfter, reachPause = 3 * time.Second, 5 * time.Second
)

type sample struct {
	sqlclient.Status

	history []election.TimelineSwitch
	asked   time.Duration
}

// observe starts observations that are due, beside the loop.
func (a *Agent) observe(at time.Duration) {
	a.pollLease(at)
	a.peers.SetUrgent(a.urgent(at))
	if a.volumeCheck.due(at) {
		go a.checkVolume(a.epoch, a.walSegmentSize)
	}
	a.watchRecovery(at)
	if a.own.Process != election.Up {
		return
	}
	if a.statusRequested.Swap(false) {
		a.sampling.next = min(a.sampling.next, a.sample.asked+sampleIntervalRequested)
	}
	if a.sampling.due(at) {
		go a.sampleServer(a.epoch)
	}
	if a.own.Role != election.Primary {
		a.trackUpstreamAddress()
		if a.maintenance.due(at) {
			go a.maintainStandbySlots(a.slotsOfOthers(), slotPositions(a.options.Cluster, &a.own, a.input(at).Peers))
		}
		if a.own.StalledSince > 0 && at-a.own.StalledSince > reachAfter && a.reachCheck.due(at) {
			go a.checkReachable(a.own.Upstream)
		}
		return
	}
	if a.heartbeat.due(at) {
		go a.sendHeartbeat(a.epoch, a.rolesPrepared)
	}
	if a.maintenance.due(at) {
		if !a.staleLabelsRemoved && a.fence.Check() == nil {
			go a.removeStaleLabels(a.epoch, slices.Clone(a.config.Instances))
		}
		go a.maintainSlots(a.epoch, a.slotsOfOthers(), a.checkpointed)
		if timeline := a.own.Position.Timeline; timeline != a.gapsReservedTo {
			go a.reserveGaps(timeline, slices.Clone(a.own.History), a.walSegmentSize)
		}
	}
}

// trackUpstreamAddress renders the configuration again when the address of the upstream has changed.
func (a *Agent) trackUpstreamAddress() {
	if ip := a.peers.IP(a.own.Upstream); ip != "" && ip != a.upstreamIP {
		a.upstreamIP, a.loadedGeneration = ip, -1
	}
}

// urgent reports that a decision may be due soon, so everything is sampled more often: there is no ready primary, this instance
// is about to become one or to stop being one, or it has lost or does not have its upstream.
func (a *Agent) urgent(at time.Duration) bool {
	calm := a.own.Process == election.Up && a.own.Role == election.Primary && a.tenure.Confirmed.Sent > 0 && a.allStandbysStreaming() ||
		a.own.Process == election.Up && a.own.Role == election.Standby && a.observation.Lease.Holder != (election.Holder{}) &&
			at-a.streamedAt < sampleInterval+sampleInterval/2
	if calm && !a.stopping {
		a.urgentSince = 0
		return false
	}
	if a.urgentSince == 0 {
		a.urgentSince = at
	}
	return at-a.urgentSince < urgentTime
}

// allStandbysStreaming reports that every other instance streams from this one.
func (a *Agent) allStandbysStreaming() bool {
	streaming := 0
	for _, f := range a.standbys {
		if f.Streaming && f.CaughtUp {
			streaming++
		}
	}
	return streaming >= len(a.config.Instances)-1
}

// status queries the server's status, with the history of its timeline.
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

func (a *Agent) sampleServer(epoch int) {
	s, err := a.status(a.ctx, a.statusConn)
	a.enqueue(func() {
		wait := sampleInterval
		if a.urgent(now()) || err != nil {
			wait = sampleIntervalUrgent
		}
		a.sampling.over(now() + wait)
		if epoch != a.epoch {
			return
		}
		if err != nil {
			a.log.Debug("failed to query PostgreSQL status", "error", err.Error())
			return
		}
		a.recordSample(s)
	})
}

// recordSample records a status of this epoch, unless a newer one was recorded.
func (a *Agent) recordSample(s sample) {
	if s.asked < a.sample.asked {
		return
	}
	a.sample, a.own.SystemID, a.own.SampledAt = s, s.SystemID, s.asked
	// A standby without a WAL receiver may report an older timeline than the one that it has received from. It never goes back.
	at := position(max(s.Timeline, wal.Timeline(a.own.Position.Timeline)), max(s.Received, s.Replayed))
	if !s.InRecovery {
		at = position(s.Timeline, s.Written)
		a.own.Exact = true
		a.recordStandbys(s.Status, s.asked)
	}
	if a.own.Role == election.Standby {
		a.own.Receiving = s.Receiver != nil
		if s.Receiver != nil && s.Receiver.State == "streaming" {
			a.recordStreaming(s.Receiver.PID, s.asked)
		} else {
			a.receiver.pid = 0
		}
		if s.Replayed > a.replayed {
			a.replayed, a.own.StalledSince = s.Replayed, 0
		}
	}
	// WAL that was on the disk before the start counts as received, although the server may not have replayed it yet.
	if at.Compare(a.own.Position) > 0 {
		if at.Timeline > a.own.Position.Timeline {
			a.own.History = s.history
		}
		a.own.Position, a.own.WALGoneSince, a.own.StalledSince = at, 0, 0
	}
	a.own.CleanShutdown = false
}

// recordStreaming records that a WAL receiver reports streaming. It does so before the primary reports that the WAL is gone.
func (a *Agent) recordStreaming(pid int, at time.Duration) {
	if a.own.WALGoneSince == 0 {
		a.own.Exact, a.streamedAt = true, at
	}
	if a.receiver.pid != pid {
		a.receiver.pid, a.receiver.since = pid, at
	}
	if at-a.receiver.since >= sampleInterval/2 { // it follows: earlier failures no longer count
		a.own.StalledSince, a.own.Failures, a.own.ClonedSinceFollowing = 0, 0, false
	}
}

// checkReachable opens a replication connection to the primary. If a standby that receives nothing gets one, its data is the
// cause.
func (a *Agent) checkReachable(upstream string) {
	sent := now()
	ctx, cancel := context.WithTimeout(a.ctx, reachPause)
	defer cancel()
	err := a.server.CheckSource(ctx, a.source(upstream))
	a.enqueue(func() {
		a.reachCheck.over(now() + reachPause)
		if err != nil {
			a.log.Debug("failed to open a replication connection to the primary", "error", oneLine(err.Error()))
		} else if a.own.Upstream == upstream {
			a.own.PrimaryReachedAt = sent
		}
	})
}

// maintainSlots does what a primary owes its standbys: a slot for each, and after a promotion a checkpoint, which pg_rewind
// needs.
func (a *Agent) maintainSlots(epoch int, slots []string, checkpointed bool) {
	ctx, cancel := context.WithTimeout(a.ctx, time.Minute)
	defer cancel()
	var err error
	if !checkpointed {
		err = a.maintenanceConn.Checkpoint(ctx)
		checkpointed = err == nil
	}
	changed, failure := a.maintenanceConn.EnsureSlots(ctx, slots)
	if len(changed) > 0 {
		a.log.Info("updated replication slots", "changed", changed)
	}
	a.syncLogins(ctx)
	err = errors.Join(err, failure)
	a.enqueue(func() {
		wait := maintenanceInterval
		if err != nil {
			a.log.Warn("failed to maintain replication slots", "error", err.Error())
			wait = retryPause
		}
		a.maintenance.over(now() + wait)
		if epoch == a.epoch {
			a.slots, a.checkpointed = slots, checkpointed
		}
	})
}

// expediteSlots schedules the maintenance of slots soon after instances were added or removed.
func (a *Agent) expediteSlots() {
	if a.own.Process == election.Up && a.own.Role == election.Primary && !slices.Equal(a.slots, a.slotsOfOthers()) && a.maintenance.next > now()+retryPause {
		a.maintenance.next = 0
	}
}
