// Package agent runs one PostgreSQL of a cluster: it is the first process of the pod, starts and stops the server, and
// elects the primary together with its peers through the cluster's Lease.
//
// One goroutine, the loop, owns all that decisions are made of. It never waits: whatever takes time runs beside it and
// posts its result into the loop's inbox, as a function that the loop calls. Package election decides; this package
// observes and acts. The fence runs beside the loop, so that a primary is stopped in time even if the loop is stuck.
package agent

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/election"
	"github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/internal/postgres/sqlclient"
	"github.com/fettle-dev/fettle/internal/postgres/watchdog"
)

const (
	// wishName is the session that makes what people asked for, which waits for standbys like any other.
	wishName = "fettle-desired"
	// tick is the longest time between two decisions.
	tick = 250 * time.Millisecond
	// stuck is how long the loop may take for one turn before the liveness probe fails.
	stuck = 10 * time.Second
)

// Agent is one run of `fettle agent`.
type Agent struct {
	options Options
	log     *slog.Logger

	server *server.Server
	major  int
	lease  *leaseClient
	object *objectStore
	peers  *peers
	labels *labeler
	events *recorder
	tls    *tlsFiles
	fence  *fence
	vet    *vet
	// watchdog is the process that does what the fence does when this one stands still.
	watchdog *watchdog.Watchdog

	// Connections to the server, one for each purpose that must not wait for another.
	watching, beating, acting, keeping, wishing, planning *sqlclient.Client

	// token begins each line of PostgreSQL's log; users are who may connect through the socket.
	token string
	users []string

	inbox chan func()
	// life ends when the agent does; end ends it.
	life context.Context
	end  context.CancelFunc

	turned atomic.Int64 // when the loop last began a turn, in nanoseconds of now
	asked  atomic.Bool  // somebody asked for the status
	shown  atomic.Pointer[agentapi.Status]
	// appliedObjects is what the operator had applied last.
	appliedObjects atomic.Pointer[appliedObjects]
	// unreadyWhy is why the instance should get no connections; renewed when the Lease was last renewed.
	unreadyWhy atomic.Pointer[string]
	renewed    atomic.Int64
	counts     counts
	beats      prometheus.Histogram

	state // owned by the loop
}

// Run looks after the instance until the context ends and the server has stopped, or until it can't go on.
func Run(ctx context.Context, options Options) error {
	if err := options.check(); err != nil {
		return err
	}
	a, err := newAgent(ctx, options)
	if err != nil {
		return err
	}
	defer a.end()
	if err := a.listen(); err != nil {
		return err
	}
	go a.fence.Run(a.life)
	go a.watchdog.Run(a.life)
	go a.object.Run(a.life)
	go a.labels.Run(a.life)
	go a.events.Run(a.life)
	go a.watchLease()
	go a.boot()
	a.loop(ctx)
	return nil
}

func newAgent(ctx context.Context, options Options) (*Agent, error) {
	files, err := agentapi.NewFiles(filepath.Join(options.TLS, folderServer))
	if err != nil {
		return nil, err
	}
	k, err := newKube(options.Kube)
	if err != nil {
		return nil, err
	}
	a := &Agent{
		options: options, log: options.Log,
		inbox: make(chan func(), 64),
		lease: &leaseClient{api: k.lease, watched: k.leaseWatch, namespace: options.Namespace, name: options.Cluster},
		tls:   &tlsFiles{from: options.TLS, to: options.Run},
		fence: &fence{log: options.Log, now: now},
		beats: beatTimes(),
		labels: &labeler{
			pods: k.core.Pods(options.Namespace), pod: options.Pod, uid: options.PodUID, log: options.Log, poke: make(chan struct{}, 1),
		},
		events: newRecorder(k.core.Events(options.Namespace), &options),
	}
	a.life, a.end = context.WithCancel(context.WithoutCancel(ctx))
	a.object = &objectStore{
		api: k.database, namespace: options.Namespace, name: options.Cluster, log: options.Log,
		file: filepath.Join(options.Volume, "fettle", "postgresql.json"), changed: a.poke,
	}
	a.peers = &peers{
		files: files, self: options.Pod, changed: a.poke, members: map[string]*member{}, host: options.name, address: options.peerAddress,
		pods: k.core.Pods(options.Namespace),
	}
	if _, err := a.tls.Copy(); err != nil {
		if !a.tls.has(folderServer) || !a.tls.has(folderReplication) {
			return nil, err
		}
		a.log.Error("certificates", "error", err.Error()) // told, and looked at again soon
	}
	if err := a.findServer(ctx); err != nil {
		return nil, err
	}
	a.watchdog = watchdog.New(watchdog.Options{
		Use: a.server.Use(), Log: options.Log, Start: server.Start, Wait: server.Wait,
		Confirmed: a.fence.Confirmed, Lost: a.fence.Lost,
	})
	a.fence.tell = a.watchdog.Set
	a.vet = &vet{check: a.server.CheckConfig}
	a.object.valid = a.valid
	a.applied = -1
	return a, a.object.Load()
}

// findServer looks for the programs, and prepares the connections to the server.
func (a *Agent) findServer(ctx context.Context) error {
	binaries, err := server.FindBinaries(ctx)
	if err != nil {
		return err
	}
	a.major, a.version = binaries.Major, binaries.Version
	logs := server.NewLog(a.options.Output)
	a.token, a.users = logs.Token(), systemUsers()
	a.server, err = server.New(server.Options{Binaries: binaries, Volume: a.options.Volume, Run: a.options.Run, Output: logs})
	if err != nil {
		return err
	}
	connect := func(name string) *sqlclient.Client {
		return sqlclient.New(sqlclient.Options{
			SocketDir: a.server.SocketDir(), Port: a.options.PostgresPort, ApplicationName: name,
			LocalCommit: name != wishName,
		})
	}
	a.watching, a.beating = connect("fettle-status"), connect("fettle-heartbeat")
	a.acting, a.keeping, a.wishing = connect("fettle-agent"), connect("fettle-chores"), connect(wishName)
	a.planning = connect("fettle-checkpoint")
	return nil
}

// post has the loop call f. It waits only while the inbox is full.
func (a *Agent) post(f func()) {
	select {
	case a.inbox <- f:
	case <-a.life.Done():
	}
}

// poke has the loop decide again soon; it never waits.
func (a *Agent) poke() {
	select {
	case a.inbox <- func() {}:
	default:
	}
}

// loop decides until there is nothing left to do after the context has ended.
func (a *Agent) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	stop := ctx.Done()
	for !a.done {
		select {
		case f := <-a.inbox:
			f()
		case <-timer.C:
		case <-stop:
			a.stopping, stop = true, nil
			a.log.Info("stopping")
		}
		for len(a.inbox) > 0 {
			(<-a.inbox)()
		}
		timer.Reset(a.turn())
	}
}

// turn observes, decides and acts once, and returns when to do so again.
func (a *Agent) turn() time.Duration {
	at := now()
	a.turned.Store(int64(at))
	a.configure()
	a.observe(at)
	if !a.booted || !a.configured {
		a.publish(election.Decision{Reason: a.waiting()}, election.Input{Now: at})
		return tick
	}
	in := a.input(at)
	tracked := election.Track(a.config, in)
	a.own.Severed, a.own.Stalled, a.own.Awaits = tracked.Severed, tracked.Stalled, tracked.Awaits
	in.Server = a.own
	a.guard(in)
	decision := election.Decide(a.config, in)
	a.note(decision, at)
	a.labels.Set(string(decision.Label))
	a.execute(decision, at)
	a.apply(at)
	a.slotsMissing()
	in = a.input(at)
	a.guard(in)
	a.publish(decision, in)
	return min(tick, max(decision.Until-at, time.Millisecond))
}

// guard tells the fence the deadline of what the agent knows now.
func (a *Agent) guard(in election.Input) {
	at, kill, limited := election.Deadline(a.config, in)
	if limited && in.Holding.Confirmed.Sent == 0 {
		a.fence.Over(at, kill)
		return
	}
	a.fence.Set(at, kill, limited)
}

// waiting says why nothing can be decided yet.
func (a *Agent) waiting() string {
	switch {
	case !a.booted && a.trouble != "":
		return "waits for an earlier life to end: " + a.trouble
	case !a.booted:
		return "looking at the data directory"
	}
	return fmt.Sprintf("waiting for PostgreSQL %s from the API server", a.options.Cluster)
}

// note logs a decision that differs from the last, once it is acted upon.
func (a *Agent) note(d election.Decision, at time.Duration) {
	text := fmt.Sprintf("%T %s", d.Action, d.Reason)
	if text == a.noted || a.putsOff(d.Action, at) {
		return
	}
	a.noted = text
	switch d.Action.(type) {
	case election.Wait:
		a.log.Log(a.life, a.worth(d.Reason), "decision", "action", fmt.Sprintf("%T", d.Action), "reason", d.Reason)
	case election.Renew:
		a.log.Debug("decision", "action", fmt.Sprintf("%T", d.Action), "reason", d.Reason)
	default:
		a.waits = nil
		a.log.Info("decision", "action", fmt.Sprintf("%T%+v", d.Action, d.Action), "reason", d.Reason)
	}
}

// worth is how much a reason to wait is worth telling: a primary has the same two or three of them at each renewal.
func (a *Agent) worth(reason string) slog.Level {
	if slices.Contains(a.waits, reason) {
		return slog.LevelDebug
	}
	a.waits = append(a.waits[max(0, len(a.waits)-3):], reason)
	return slog.LevelInfo
}

// now is the time since the machine started, sleep included. It never steps; only its rate is trusted.
func now() time.Duration { return watchdog.Now() }
