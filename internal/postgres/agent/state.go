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
	booted, configured, done bool
	stopping                 bool
	version                  string
	noted                    string
	// waits are the last reasons to wait that were logged since something was done.
	waits []string

	// spec is the object that config was made of, configError why the newest one is not in effect.
	spec        *databasev1alpha1.PostgreSQL
	config      election.Config
	configError string
	// wishedAt is when another spec.preferredPrimary came; 0 if none did.
	wishedAt time.Duration
	// targetAt is when another primary was asked for last, by spec.preferredPrimary or by annotation; 0 if none was.
	targetAt time.Duration
	// good is the last valid object, nil before; applied the generation whose files PostgreSQL has loaded, -1 for none; unread that it may
	// not have loaded the files there are; retry when to try again.
	good    *databasev1alpha1.PostgreSQL
	applied int64
	unread  bool
	// raised says that the files have more of some parameters than the spec asks for.
	raised bool
	// minimums are what the control file had when the server ended; nil when it could not be read.
	minimums *config.Minimums
	retry    time.Duration

	// What the election is told of this instance, the Lease and its own writes.
	own         election.Server
	observation election.Observation
	holding     election.Holding
	record      *leaseRecord
	promised    time.Duration
	asking      bool
	// readable is when the question was sent that showed last that the Lease can be read although it can't be written; 0 for never.
	readable time.Duration
	// unauthorized says that the API server refused the token when the Lease was read last.
	unauthorized bool

	// process is the postmaster, nil without one. epoch changes when answers that were asked for before mean nothing any more.
	process *server.Process
	epoch   int
	// sample is what the server last said, streamed when its receiver was last seen to stream.
	sample   sample
	streamed time.Duration
	// receiver is the process that streams, and since when; replayed is up to where.
	receiver struct {
		pid   int
		since time.Duration
	}
	replayed wal.LSN
	// upstreamIP is where what this instance follows was last reached.
	upstreamIP string
	// prepared is set when Fettle's roles are there, slots are those that were made sure of.
	prepared, checkpointed, claimed bool
	slots                           []string
	// filled is the timeline below which all that were left out are reserved.
	filled    uint32
	followers map[string]election.Follower
	// pulse is what the heartbeats have told in this epoch.
	pulse pulse
	disk  server.Disk
	// recoveryUsed is how much time on a CPU the recovery had used when it last advanced.
	recoveryUsed time.Duration
	// urgentSince is since when something may be decided soon; 0 when nothing is.
	urgentSince time.Duration
	trouble     string
	// origin is what becomes of the copy that the cluster's first data are; zero when there is nothing to say.
	origin originNews
	// useless is what is wrong with the certificates.
	useless string
	// segment is what PostgreSQL's log takes of the volume at once, in bytes; 0 when that is not known.
	segment int64

	ops
}

// ops are what runs beside the loop.
type ops struct {
	// task changes the server or its data; there is one at a time.
	task *task
	// rest is until when no task begins, after one that failed.
	rest time.Duration
	// failures counts the tasks on the data directory that failed one after the other.
	failures int
	// lease is a read or write of the Lease.
	lease *leaseOp
	// The rest is asked at intervals.
	sampling, heartbeat, chores, measuring, probing, reaching, recovery periodic
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
			answers[pod] = election.Answer{Sent: answer.At, State: answer.Election}
		}
	}
	return election.Input{
		Now: at, Stop: a.stopping, Lease: a.observation, Holding: a.holding, Asking: a.asking, Promised: a.promised,
		Server: a.own, Peers: answers, Followers: a.followers,
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
	c.WishedAt = a.wish(object)
	if c.RecloneAsked && !a.config.RecloneAsked {
		a.own.Copied = false // a person may ask for another copy than the last
	}
	if a.configured && (c.SwitchoverTarget != a.config.SwitchoverTarget || c.SwitchoverAsked != a.config.SwitchoverAsked) {
		a.targetAt = now()
	}
	c.TargetAt = a.targetAt
	a.spec, a.configError, a.retry = object, "", 0
	a.events.uid = object.UID
	if err := c.Validate(); err != nil {
		a.refuse(err)
		return
	}
	if err := a.valid(object); err != nil {
		a.refuse(err)
	} else {
		a.good = object
	}
	a.config, a.configured = c, true
	a.peers.SetInstances(a.life, c.Instances)
	if len(c.Instances) > 1 {
		a.watchdog.Prepare()
	}
}

// wish returns when spec.preferredPrimary became what it is, whatever annotations asked for since; 0 for before the agent started.
func (a *Agent) wish(object *databasev1alpha1.PostgreSQL) time.Duration {
	if a.spec != nil && a.spec.Spec.PreferredPrimary != object.Spec.PreferredPrimary {
		a.wishedAt = now()
	}
	return a.wishedAt
}

func (a *Agent) refuse(err error) {
	a.configError = oneLine(err.Error())
	a.log.Error("the PostgreSQL object can't be followed; the last good one stays in effect", "error", a.configError)
}

// generation is that of the configuration that should be in effect; 0 without an object.
func (a *Agent) generation() int64 {
	if a.good == nil {
		return 0
	}
	return a.good.Generation
}

func (a *Agent) become(process election.Process, at time.Duration) {
	if a.own.Process != process {
		a.own.Process, a.own.Since = process, at
	}
}

// newEpoch begins an epoch: what was asked of the server before is not listened to any more.
func (a *Agent) newEpoch() {
	a.epoch++
	a.claimed, a.pulse, a.recoveryUsed = false, pulse{}, 0
	a.sampling.next, a.heartbeat.next = 0, 0
}

func (a *Agent) follow(s sqlclient.Status, at time.Duration) {
	followers := maps.Clone(a.followers)
	if followers == nil {
		followers = map[string]election.Follower{}
	}
	for name, f := range followers {
		f.Streaming, f.CaughtUp = false, false
		followers[name] = f
	}
	for _, sender := range s.Senders {
		if !slices.Contains(a.config.Instances, sender.Name) || sender.State != "streaming" {
			continue
		}
		followers[sender.Name] = election.Follower{
			Streaming: true, CaughtUp: s.Written < sender.Flushed+caughtUp, Flushed: uint64(sender.Flushed), Seen: at,
		}
	}
	a.followers = followers
}

// caughtUp is how many bytes a standby may lack for commits to wait for it: one segment.
const caughtUp = 16 << 20
