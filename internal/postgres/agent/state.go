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

// state is what the loop knows. No other goroutine accesses it.
type state struct {
	// booted: the data directory was inspected. configured: config is valid. exiting: the loop ends.
	booted, configured, exiting bool
	stopping                    bool
	version                     string
	lastDecision                string
	// recentWaits are the last reasons to wait that were logged since the last action.
	recentWaits []string

	// spec is the object of config. configError is why the newest object is not in effect.
	spec        *databasev1alpha1.PostgreSQL
	config      election.Config
	configError string
	// preferenceChangedAt is when the preferred preferredPrimary of the spec changed; 0 if it never did.
	preferenceChangedAt time.Duration
	// targetChangedAt is when the requested preferredPrimary last changed, by the spec or by annotation; 0 if it never did.
	targetChangedAt time.Duration
	// lastValid is the last valid object, nil before. loadedGeneration is the generation whose files PostgreSQL has loaded, -1
	// for none. reloadPending means that PostgreSQL may not have loaded the current files. reloadAt is when to retry.
	lastValid        *databasev1alpha1.PostgreSQL
	loadedGeneration int64
	reloadPending    bool
	// minimumsRaised means that the files have higher values of some parameters than the spec.
	minimumsRaised bool
	// minimums are the values in the control file when the server exited; nil if it could not be read.
	minimums *config.Minimums
	reloadAt time.Duration

	// The input of the election: this instance, the Lease and its own writes to it.
	own                election.Server
	observation        election.Observation
	tenure             election.Tenure
	record             *leaseRecord
	promisedUntil      time.Duration
	requestingPromises bool
	// leaseReadableAt is when the last request was sent which showed that the Lease can be read although it cannot be written; 0
	// for never.
	leaseReadableAt time.Duration
	// unauthorized means that the API server rejected the token at the last read of the Lease.
	unauthorized bool
	// leaseGone means that the last read of the Lease failed, as each later request will.
	leaseGone bool

	// process is the postmaster, nil without one. epoch changes when the answers to earlier requests no longer mean anything.
	process *server.Process
	epoch   int
	// sample is the last status of the server. streamedAt is when its WAL receiver was last seen streaming.
	sample     sample
	streamedAt time.Duration
	// receiver is the process that streams, and since when. replayed is the replayed position.
	receiver struct {
		pid   int
		since time.Duration
	}
	replayed wal.LSN
	// upstreamIP is the address at which the upstream was last reached.
	upstreamIP string
	// rolesPrepared means that Fettle's roles exist. slots are those that were ensured.
	rolesPrepared, checkpointed, staleLabelsRemoved bool
	slots                                           []string
	// gapsReservedTo is the timeline below which all skipped timelines are reserved.
	gapsReservedTo uint32
	standbys       map[string]election.StandbyStatus
	// heartbeatState is the outcome of the heartbeats of this epoch.
	heartbeatState heartbeatState
	disk           server.Disk
	// recoveryCPU is how much CPU time the recovery had used when it last made progress.
	recoveryCPU time.Duration
	// urgentSince is since when a decision may be due soon; 0 if none is.
	urgentSince time.Duration
	lastError   string
	// importStatus is the state of the import of the cluster's first data; zero if there is nothing to report.
	importStatus importStatus
	// tlsError is what is wrong with the certificates.
	tlsError string
	// walSegmentSize is the size of a WAL segment in bytes; 0 while it is unknown.
	walSegmentSize int64

	ops
}

// ops are the operations that run beside the loop.
type ops struct {
	// task changes the server or its data. There is one at a time.
	task *task
	// nextTaskAt is until when no task starts, after a task that failed.
	nextTaskAt time.Duration
	// failures counts the consecutive failures of tasks on the data directory.
	failures int
	// lease is a read or a write of the Lease.
	lease *leaseOp
	// The rest runs periodically.
	sampling, heartbeat, maintenance, volumeCheck, leaseProbe, reachCheck, recoveryCheck periodic
}

type task struct {
	cancel context.CancelFunc
}

// periodic is an operation that is repeated, one run at a time.
type periodic struct {
	running bool
	next    time.Duration
}

// due reports whether it is time, and records the start.
func (p *periodic) due(at time.Duration) bool {
	if p.running || at < p.next {
		return false
	}
	p.running = true
	return true
}

// over records the end, and when it is due again.
func (p *periodic) over(next time.Duration) { p.running, p.next = false, next }

// input is the input of the election. An agent that has not inspected its data yet says nothing about it, and counts as one that
// does not answer. Otherwise its silence would pass for an empty volume, and another instance could initialize an empty database
// beside it.
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

// configure applies a new version of the object. An invalid version leaves the last valid one in effect.
func (a *Agent) configure() {
	object, kept := a.object.Get()
	if object == nil || object == a.spec {
		return
	}
	c := configOf(&a.options, object, kept)
	c.PreferenceChangedAt = a.trackPreference(object)
	if c.RecloneRequested && !a.config.RecloneRequested {
		a.own.ClonedSinceFollowing = false // a person may request another copy
	}
	if a.configured && (c.SwitchoverTarget != a.config.SwitchoverTarget || c.SwitchoverRequested != a.config.SwitchoverRequested) {
		a.targetChangedAt = now()
	}
	c.TargetChangedAt = a.targetChangedAt
	a.spec, a.configError, a.reloadAt = object, "", 0
	a.applyLease(&c)
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

// trackPreference returns when the preferred preferredPrimary of the spec last changed, whatever annotations requested since; 0 for before
// the agent started.
func (a *Agent) trackPreference(object *databasev1alpha1.PostgreSQL) time.Duration {
	if a.spec != nil && a.spec.Spec.PreferredPrimary != object.Spec.PreferredPrimary {
		a.preferenceChangedAt = now()
	}
	return a.preferenceChangedAt
}

func (a *Agent) rejectObject(err error) {
	a.configError = oneLine(err.Error())
	a.log.Error("PostgreSQL object is invalid: the last valid one stays in effect", "error", a.configError)
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

// newEpoch starts an epoch: answers to earlier queries of the server are ignored.
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
