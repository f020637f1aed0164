// Package agent runs one PostgreSQL instance of a cluster. It is the first process of the pod, starts and stops the server, and
// elects the primary together with its peers through the cluster's Lease.
//
// One goroutine, the loop, owns all state that decisions are made of. It never waits: everything that takes time runs beside it
// and enqueues its result into the loop's inbox, as a function that the loop calls. Package election decides, this package
// observes and acts. The fence runs beside the loop, so a primary is stopped in time even if the loop is stuck.
package agent

import (
	"context"
	"log/slog"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"

	"github.com/fettle-dev/fettle/internal/backup/walarchive"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/election"
	"github.com/fettle-dev/fettle/internal/postgres/server"
	"github.com/fettle-dev/fettle/internal/postgres/sqlclient"
	"github.com/fettle-dev/fettle/internal/postgres/watchdog"
)

const (
	// applyName is the session that applies databases and roles. Its commits wait for standbys like any other.
	applyName = "fettle-desired"
	// tickInterval is the longest time between two decisions.
	tickInterval = 250 * time.Millisecond
	// livenessTimeout is how long the loop may take for one tick before the liveness probe fails.
	livenessTimeout = 10 * time.Second
)

// Agent is one run of `fettle agent`.
type Agent struct {
	options Options
	log     *slog.Logger

	server    *server.Server
	major     int
	lease     *leaseClient
	object    *objectStore
	peers     *peers
	labels    *labeler
	events    *recorder
	tls       *tlsFiles
	fence     *fence
	validator *configValidator
	// archiver archives WAL. walSource has the WAL for a recovery, nil for none.
	archiver  *archiver
	walSource atomic.Pointer[walarchive.Fetcher]
	core      coreclient.CoreV1Interface
	backups   rest.Interface
	// watchdog is the process that does what the fence does when this process hangs.
	watchdog *watchdog.Watchdog

	// Connections to the server, one for each purpose that must not wait for another.
	statusConn, heartbeatConn, adminConn, maintenanceConn, applyConn, checkpointConn *sqlclient.Client

	// token starts each line of PostgreSQL's log. users may connect through the socket.
	token string
	users []string

	inbox chan func()
	// ctx ends when the agent exits; cancel ends it.
	ctx    context.Context
	cancel context.CancelFunc

	tickedAt        atomic.Int64 // when the loop last started a tick, in nanoseconds of now
	statusRequested atomic.Bool  // a client requested the status
	published       atomic.Pointer[agentapi.Status]
	// appliedObjects are the databases and roles that were last applied.
	appliedObjects atomic.Pointer[appliedObjects]
	// unreadyReason is why the instance should get no connections. renewedAt is when the lease was last renewed.
	unreadyReason  atomic.Pointer[string]
	renewedAt      atomic.Int64
	counts         counts
	heartbeatTimes prometheus.Histogram

	state // owned by the loop
}

// Run runs the instance until the context ends and the server has stopped, or until it cannot continue.
func Run(ctx context.Context, options Options) error {
	if err := options.check(); err != nil {
		return err
	}
	a, err := newAgent(ctx, options)
	if err != nil {
		return err
	}
	defer a.cancel()
	if err := a.listen(); err != nil {
		return err
	}
	go a.fence.Run(a.ctx)
	go a.watchdog.Run(a.ctx)
	go a.object.Run(a.ctx)
	go a.labels.Run(a.ctx)
	go a.events.Run(a.ctx)
	go a.watchLease()
	go a.archiver.countWaiting(a.ctx)
	go a.boot()
	a.loop(ctx)
	return nil
}

func newAgent(ctx context.Context, options Options) (*Agent, error) {
	files, err := agentapi.NewCertFiles(filepath.Join(options.TLS, folderServer))
	if err != nil {
		return nil, err
	}
	k, err := newKube(options.Kube)
	if err != nil {
		return nil, err
	}
	a := &Agent{
		options: options, log: options.Log,
		inbox:          make(chan func(), 64),
		lease:          &leaseClient{api: k.lease, watched: k.leaseWatch, namespace: options.Namespace, name: options.Cluster},
		tls:            &tlsFiles{from: options.TLS, to: options.Run},
		fence:          &fence{log: options.Log, now: now},
		heartbeatTimes: newHeartbeatTimes(),
		labels: &labeler{
			pods: k.core.Pods(options.Namespace), pod: options.Pod, uid: options.PodUID, log: options.Log, wake: make(chan struct{}, 1),
		},
		events: newRecorder(k.core.Events(options.Namespace), &options),
	}
	a.ctx, a.cancel = context.WithCancel(context.WithoutCancel(ctx))
	a.object = &objectStore{
		api: k.database, namespace: options.Namespace, name: options.Cluster, log: options.Log,
		file: filepath.Join(options.Volume, "fettle", "postgresql.json"), changed: a.wake,
	}
	a.peers = &peers{
		files: files, self: options.Pod, changed: a.wake, members: map[string]*member{}, host: options.name, address: options.peerAddress,
		pods: k.core.Pods(options.Namespace),
	}
	if _, err := a.tls.Copy(); err != nil {
		if !a.tls.has(folderServer) || !a.tls.has(folderReplication) {
			return nil, err
		}
		a.log.Error("failed to copy certificates", "error", err.Error()) // reported, and retried soon
	}
	if err := a.setUpServer(ctx); err != nil {
		return nil, err
	}
	a.watchdog = watchdog.New(watchdog.Options{
		Processes: a.server.Processes(), Log: options.Log, Start: server.StartChild, Wait: server.WaitChild,
		Confirmed: a.fence.Confirmed, Lost: a.fence.Lost,
	})
	a.fence.setWatchdog = a.watchdog.SetDeadline
	a.backups = k.backup
	a.core, a.archiver = k.core, newArchiver(a.ctx, options.Log, filepath.Join(a.server.DataDir(), "pg_wal"), a.openStore)
	a.validator = &configValidator{check: a.server.CheckConfig}
	a.object.valid = a.valid
	a.loadedGeneration = -1
	return a, a.object.Load()
}

// setUpServer finds the PostgreSQL programs and prepares the connections to the server.
func (a *Agent) setUpServer(ctx context.Context) error {
	binaries, err := server.FindBinaries(ctx)
	if err != nil {
		return err
	}
	a.major, a.version = binaries.Major, binaries.Version
	logs := server.NewLog(a.options.Output)
	a.token, a.users = logs.Token(), systemUsers()
	a.server, err = server.New(server.Options{Binaries: binaries, Volume: a.options.Volume, RunDir: a.options.Run, Output: logs})
	if err != nil {
		return err
	}
	connect := func(name string) *sqlclient.Client {
		return sqlclient.New(sqlclient.Options{
			SocketDir: a.server.SocketDir(), Port: a.options.PostgresPort, ApplicationName: name,
			LocalCommit: name != applyName,
		})
	}
	a.statusConn, a.heartbeatConn = connect("fettle-status"), connect("fettle-heartbeat")
	a.adminConn, a.maintenanceConn, a.applyConn = connect("fettle-agent"), connect("fettle-maintenance"), connect(applyName)
	a.checkpointConn = connect("fettle-checkpoint")
	return nil
}

// enqueue makes the loop call f. It waits only while the inbox is full.
func (a *Agent) enqueue(f func()) {
	select {
	case a.inbox <- f:
	case <-a.ctx.Done():
	}
}

// wake makes the loop decide again soon. It never waits.
func (a *Agent) wake() {
	select {
	case a.inbox <- func() {}:
	default:
	}
}

// loop decides until nothing is left to do after the context has ended.
func (a *Agent) loop(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	stop := ctx.Done()
	for !a.exiting {
		select {
		case f := <-a.inbox:
			f()
		case <-timer.C:
		case <-stop:
			a.stopping, stop = true, nil
			a.log.Info("stopping the agent")
		}
		for len(a.inbox) > 0 {
			(<-a.inbox)()
		}
		timer.Reset(a.tick())
	}
}

// tick observes, decides and acts once, and returns when to do so again.
func (a *Agent) tick() time.Duration {
	at := now()
	a.tickedAt.Store(int64(at))
	a.configure()
	a.observe(at)
	if !a.booted || !a.configured {
		a.publish(a.undecided(), election.Input{Now: at})
		return tickInterval
	}
	in := a.input(at)
	tracked := election.Track(a.config, in)
	a.own.WALGoneSince, a.own.StalledSince, a.own.AwaitingRecloneSince = tracked.WALGoneSince, tracked.StalledSince, tracked.AwaitingRecloneSince
	in.Server = a.own
	a.updateFence(in)
	decision := election.Decide(a.config, in)
	a.logDecision(decision, at)
	a.labels.Set(string(decision.Label))
	a.execute(decision, at)
	a.loadConfig(at)
	a.expediteSlots()
	in = a.input(at)
	a.updateFence(in)
	a.publish(decision, in)
	return min(tickInterval, max(decision.Until-at, time.Millisecond))
}

// updateFence gives the fence the deadline of what the agent knows now.
func (a *Agent) updateFence(in election.Input) {
	at, kill, limited := election.Deadline(a.config, in)
	if limited && in.Tenure.Confirmed.Sent == 0 {
		a.fence.Shorten(at, kill)
		return
	}
	a.fence.Set(at, kill, limited)
}

// now is the time since the machine started, sleep included. It never jumps. Only its rate is trusted.
func now() time.Duration { return watchdog.Now() }
