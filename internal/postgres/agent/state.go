package agent

import (
	"context"
	"maps"
	"slices"
	"time"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/election"

	"github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/internal/postgres/sqlclient"
	"github.com/fettle-dev/fettle/internal/postgres/wal"
)

// state is what the loop knows. Nobody else touches it.
type state struct {
	// booted: the data directory was looked at. configured: config is valid. done: the loop ends.
	booted, configured, exiting bool
	stopping                    bool
	version                     string
	lastDecision                string
	// recentWaits are the last reasons to wait that were logged since something was done.
	recentWaits []string

	// spec is the object that config was made of, configError why the newest one is not in effect.
	spec        *databasev1alpha1.PostgreSQL
	config      election.Config
	configError string
	// preferenceChangedAt is when another spec.preferredPrimary came; 0 if none did.
	preferenceChangedAt time.Duration
	// targetChangedAt is when another primary was asked for last, by spec.preferredPrimary or by annotation; 0 if none was.
	targetChangedAt time.Duration
	// lastValid is the last valid object, nil before; applied the generation whose files PostgreSQL has loaded, -1 for none; unread that it may
	// not have loaded the files there are; retry when to try again.
	lastValid        *databasev1alpha1.PostgreSQL
	loadedGeneration int64
	reloadPending    bool
	// minimumsRaised says that the files have more of some parameters than the spec asks for.
	minimumsRaised bool
	// minimums are what the control file had when the server ended; nil when it could not be read.
	minimums *config.Minimums
	reloadAt time.Duration

	// What the election is told of this instance, the Lease and its own writes.
	own                election.Server
	observation        election.Observation
	tenure             election.Tenure
	record             *leaseRecord
	promisedUntil      time.Duration
	requestingPromises bool
	// leaseReadableAt is when the question was sent that showed last that the Lease can be read although it can't be written; 0 for never.
	leaseReadableAt time.Duration
	// unauthorized says that the API server refused the token when the Lease was read last.
	unauthorized bool

	// process is the postmaster, nil without one. epoch changes when answers that were asked for before mean nothing any more.
	process *server.Process
	epoch   int
	// sample is what the server last said, streamed when its receiver was last seen to stream.
	sample     sample
	streamedAt time.Duration
	// receiver is the process that streams, and since when; replayed is up to where.
	receiver struct {
		pid   int
		since time.Duration
	}
	replayed wal.LSN
	// upstreamIP is where what this instance follows was last reached.
	upstreamIP string
	// rolesPrepared is set when Fettle's roles are there, slots are those that were made sure of.
	rolesPrepared, checkpointed, staleLabelsRemoved bool
	slots                                           []string
	// gapsReservedTo is the timeline below which all that were left out are reserved.
	gapsReservedTo uint32
	standbys       map[string]election.StandbyStatus
	// heartbeatState is what the heartbeats have told in this epoch.
	heartbeatState heartbeatState
	disk           server.Disk
	// recoveryCPU is how much time on a CPU the recovery had used when it last advanced.
	recoveryCPU time.Duration
	// urgentSince is since when something may be decided soon; 0 when nothing is.
	urgentSince time.Duration
	lastError   string
	// importStatus is what becomes of the copy that the cluster's first data are; zero when there is nothing to say.
	importStatus importStatus
	// tlsError is what is wrong with the certificates.
	tlsError string
	// walSegmentSize is what PostgreSQL's log takes of the volume at once, in bytes; 0 when that is not known.
	walSegmentSize int64

	ops
}

// ops are what runs beside the loop.
type ops struct {
	// task changes the server or its data; there is one at a time.
	task *task
	// nextTaskAt is until when no task begins, after one that failed.
	nextTaskAt time.Duration
	// failures counts the tasks on the data directory that failed one after the other.
	failures int
	// lease is a read or write of the Lease.
	lease *leaseOp
	// The rest is asked at intervals.
	sampling, heartbeat, maintenance, volumeCheck, leaseProbe, reachCheck, recoveryCheck periodic
}

type task struct {
	name   string
	cancel context.CancelFunc
}

// periodic is something that is done again and again, one at a time.
type periodic struct {
	running bool
	next    time.Duration
}

// due tells whether it is time, and notes that it begins.
func (p *periodic) due(at time.Duration) bool {
	if p.running || at < p.next {
		return false
	}
	p.running = true
	return true
}

// over notes that it ended, and when it is due again.
func (p *periodic) over(next time.Duration) { p.running, p.next = false, next }

// input is what the election decides by. An agent that has not looked at its data yet tells nothing of them: it is as one that does
// not answer, or its silence about them would pass for an empty volume, and another could make an empty database beside it.
func (a *Agent) input(at time.Duration) election.Input {
	answers := map[string]election.Answer{}
	for pod, answer := range a.peers.Answers() {
		if answer.At > 0 && answer.Election.Name != "" {
			answers[pod] = election.Answer{RequestedAt: answer.At, State: answer.Election}
		}
	}
	return election.Input{
		Now: at, ShuttingDown: a.stopping, Lease: a.observation, Tenure: a.tenure, RequestingPromises: a.requestingPromises, PromisedUntil: a.promisedUntil,
		Server: a.own, Peers: answers, Standbys: a.standbys,
	}
}

// configure takes over a new version of the object. One that is not valid leaves the last good one in effect.
func (a *Agent) configure() {
	object, kept := a.object.Get()
	if object == nil || object == a.spec {
		return
	}
	c := configOf(&a.options, object, kept)
	if a.record != nil {
		c.MayInitialize = a.record.Fresh
	}
	c.PreferenceChangedAt = a.trackPreference(object)
	if c.RecloneRequested && !a.config.RecloneRequested {
		a.own.ClonedSinceFollowing = false // a person may ask for another copy than the last
	}
	if a.configured && (c.SwitchoverTarget != a.config.SwitchoverTarget || c.SwitchoverRequested != a.config.SwitchoverRequested) {
		a.targetChangedAt = now()
	}
	c.TargetChangedAt = a.targetChangedAt
	a.spec, a.configError, a.reloadAt = object, "", 0
	a.events.uid = object.UID
	if err := c.Validate(); err != nil {
		a.rejectObject(err)
		return
	}
	if err := a.valid(object); err != nil {
		a.rejectObject(err)
	} else {
		a.lastValid = object
	}
	a.config, a.configured = c, true
	a.peers.SetInstances(a.ctx, c.Instances)
	if len(c.Instances) > 1 {
		a.watchdog.Prepare()
	}
}

// trackPreference returns when spec.preferredPrimary became what it is, whatever annotations asked for since; 0 for before the agent started.
func (a *Agent) trackPreference(object *databasev1alpha1.PostgreSQL) time.Duration {
	if a.spec != nil && a.spec.Spec.PreferredPrimary != object.Spec.PreferredPrimary {
		a.preferenceChangedAt = now()
	}
	return a.preferenceChangedAt
}

func (a *Agent) rejectObject(err error) {
	a.configError = oneLine(err.Error())
	a.log.Error("the PostgreSQL object can't be followed; the last good one stays in effect", "error", a.configError)
}

// generation is that of the configuration that should be in effect; 0 without an object.
func (a *Agent) generation() int64 {
	if a.lastValid == nil {
		return 0
	}
	return a.lastValid.Generation
}

func (a *Agent) setProcess(process election.Process, at time.Duration) {
	if a.own.Process != process {
		a.own.Process, a.own.ProcessSince = process, at
	}
}

// newEpoch begins an epoch: what was asked of the server before is not listened to any more.
func (a *Agent) newEpoch() {
	a.epoch++
	a.staleLabelsRemoved, a.heartbeatState, a.recoveryCPU = false, heartbeatState{}, 0
	a.sampling.next, a.heartbeat.next = 0, 0
}

func (a *Agent) recordStandbys(s sqlclient.Status, at time.Duration) {
	followers := maps.Clone(a.standbys)
	if followers == nil {
		followers = map[string]election.StandbyStatus{}
	}
	for name, f := range followers {
		f.Streaming, f.CaughtUp = false, false
		followers[name] = f
	}
	for _, sender := range s.Senders {
		if !slices.Contains(a.config.Instances, sender.Name) || sender.State != "streaming" {
			continue
		}
		followers[sender.Name] = election.StandbyStatus{
			Streaming: true, CaughtUp: s.Written < sender.Flushed+caughtUp, FlushLSN: uint64(sender.Flushed), StreamingAt: at,
		}
	}
	a.standbys = followers
}

// caughtUp is how many bytes a standby may lack for commits to wait for it: one segment.
const caughtUp = 16 << 20
