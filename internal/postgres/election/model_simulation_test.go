package election

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// The model: N agents that run Decide, an API server with one Lease, a network, and PostgreSQL servers as lists of entries. Everything outside
// Decide is implemented here a second time, by an observer that sees everything. The package documentation lists the invariants and the faults.

const second = time.Second

// entry is one WAL record: op is the row that a client wrote, 0 a record that the server wrote on its own.
type entry struct {
	tl uint32
	op int
}

// database is one PostgreSQL with its data directory.
type database struct {
	Server
	wal       []entry
	control   Position // of the last checkpoint: what is known after a crash
	done      time.Duration
	claim     uint32 // the timeline to promote to
	source    int    // of a clone or rewind
	hung      bool
	lag       bool          // replication to here is slow: nothing arrives
	slowStop  bool          // no fast stop ends
	slowStart time.Duration // starts and promotions take so much longer
	rejects   bool          // writes, also heartbeats, are answered with an error
	damaged   bool          // the data of a standby cannot be started
	wedged    bool          // a standby cannot stream with its data
	read      bool          // the WAL that a crash has left was read to its end
	pending   []int
}

// instance is one pod with its node.
type instance struct {
	id     int
	name   string
	config Config
	rate   int64         // of the node's clock, in thousandths
	sees   time.Duration // when it sees what the object became
	pg     database

	running     bool          // the container runs
	back        time.Duration // when it is started again; 0 never
	replaced    bool          // by a new pod, when it comes back
	agentFrozen bool
	nodeFrozen  bool
	wakeAt      time.Duration // when what is frozen goes on
	exempt      bool          // was frozen as a whole, and its agent has not looked at the clock since
	next        time.Duration // when the agent looks next
	looked      time.Duration // own clock: when it looked last
	lookedAt    int           // where a standby's log ended then
	stop        bool
	lose        bool // the answer to the next write

	obs      Observation
	hold     Tenure
	promised time.Duration
	peers    map[string]Answer
	answer   *flight // of the write under way

	// Known only to the model.
	renewedAt   time.Duration   // true time when the last write that was applied was sent
	thawedAt    time.Duration   // true time when the whole machine went on
	listed      []string        // who may take the Lease from it, by its last write that was applied
	granted     []time.Duration // by peer: true time when the question was sent that it granted last
	seenVersion string          // by this process
	seenSince   time.Duration   // own clock
	seenFailed  bool
	readable    time.Duration // own clock: when it saw last that only writes fail
	fenced      int
	lostAt      time.Duration // true time when the volume was lost; 0 never
}

// flight is a write of the Lease between an agent and the API server.
type flight struct {
	by      int
	uid     string
	lease   Lease
	sent    time.Duration // true time
	clock   time.Duration // the sender's
	arrives time.Duration // at the API server; 0 never
	ends    time.Duration // when the agent gets the answer, or gives up
	answers bool
	applied bool
}

// simulation is the state of the whole model.
type simulation struct {
	now     time.Duration
	rng     *rand.Rand // nil: every choice is the first
	timing  Timing
	sync    int
	nodes   []*instance
	record  Lease
	version int
	flights []*flight
	apiDown bool
	// readOnly: the API server answers reads, and writes with errors or not at all.
	readOnly bool
	apiCut   []bool
	cut      [][]bool
	flaky    bool
	slow     bool // what PostgreSQL does may take long
	timers   []timer
	calm     time.Duration // when the last fault ended or began
	ops      int
	acked    map[int]int // op to the instance that acknowledged it
	// line are the rows that the last primary has acknowledged while it held the Lease, and that have not been lost since: when.
	line map[int]time.Duration
	// object is what people ask for; since is the generation that turned synchronous on, 0 while it is off; inForce that commits wait since.
	// protected are the rows that were acknowledged by standbys too.
	object    object
	since     int64
	inForce   bool
	scaled    bool // replicas were changed
	protected map[int]int
	faults    []fault // that may happen
	lostVol   bool    // a volume was lost that liveness may depend on
	used      map[uint32]int
	anew      bool          // the Lease was re-created by the operator, and no instance has held it since
	gone      time.Duration // since when there is no Lease; 0 if there is one
	broken    []string
	log       []string
	verbose   bool
	promos    int
	// consents are a person's, to a loss; lostRows are those that the last primary was known to have.
	consents, lostRows int
	// takeovers are those of another instance's Lease, ranked the pairs of such a taker and a candidate with another log.
	takeovers, ranked int
}

func newSimulation(rng *rand.Rand, n, sync int, timing Timing) *simulation {
	w := &simulation{
		rng: rng, timing: timing, sync: sync, now: second, faults: faults, acked: map[int]int{}, line: map[int]time.Duration{}, protected: map[int]int{}, used: map[uint32]int{},
		apiCut: make([]bool, n), cut: make([][]bool, n), version: 1, record: Lease{Version: "1"},
	}
	w.object = object{generation: 1, sync: sync, replicas: n}
	if sync > 0 {
		w.since = 1
	}
	var names []string
	for i := range n {
		names = append(names, "pg-"+strconv.Itoa(i))
		w.cut[i] = make([]bool, n)
	}
	for i := range n {
		w.nodes = append(w.nodes, &instance{
			id: i, name: names[i], rate: 1000, granted: make([]time.Duration, n),
			config: Config{
				Self: Holder{Name: names[i], UID: fmt.Sprintf("%d-0", i)}, Instances: names, MayInitialize: true,
				Synchronous: sync, Generation: 1, Failsafe: true, AutoReclone: true, RecloneRequested: n == 2, MaximumLag: maximumLag, Timing: timing,
			},
		})
		if rng != nil {
			w.nodes[i].rate = 970 + rng.Int64N(61)
		}
		w.boot(w.nodes[i])
	}
	return w
}

// choose returns one of n, the first one being the usual one.
func (w *simulation) choose(n int) int {
	if w.rng == nil {
		return 0
	}
	return w.rng.IntN(n)
}

// sometimes is true once in n.
func (w *simulation) sometimes(n int) bool { return w.rng != nil && w.rng.IntN(n) == 0 }

func (w *simulation) logf(format string, args ...any) {
	if w.verbose {
		w.log = append(w.log, fmt.Sprintf("%8s ", w.now.Round(time.Millisecond))+fmt.Sprintf(format, args...))
	}
}

func (w *simulation) violated(format string, args ...any) {
	w.broken = append(w.broken, fmt.Sprintf(format, args...))
	w.logf("VIOLATED "+format, args...)
}

func (n *instance) clock(now time.Duration) time.Duration {
	return second + time.Duration(int64(now)*n.rate/1000)
}

// trueTime is when n's clock will show c.
func (n *instance) trueTime(c time.Duration) time.Duration {
	return time.Duration(int64(c-second) * 1000 / n.rate)
}

func (n *instance) frozen() bool { return n.agentFrozen || n.nodeFrozen }

// boot starts the container: only the state on disk is left.
func (w *simulation) boot(n *instance) {
	c := n.clock(w.now)
	n.running, n.back, n.stop, n.exempt = true, 0, false, false
	n.obs, n.hold, n.promised, n.answer, n.readable = Observation{}, Tenure{}, 0, nil, 0
	n.peers = map[string]Answer{}
	n.config.Generation, n.sees = 0, max(n.sees, w.now+time.Duration(w.choose(2)*w.choose(3000))*time.Millisecond) // the object as it was kept
	n.seenVersion, n.seenFailed = "", false
	if n.replaced {
		n.replaced = false
		n.config.Self.UID += "'"
	}
	n.pg.ProcessSince, n.pg.CrashedAt, n.pg.PreviousCrashAt, n.pg.HeartbeatAt, n.pg.UnresponsiveAt, n.pg.EscalatedAt = c, 0, 0, 0, 0, 0
	n.pg.WALGoneSince, n.pg.StalledSince, n.pg.AwaitingRecloneSince, n.pg.PrimaryReachedAt, n.pg.SampledAt, n.lookedAt = 0, 0, 0, 0, 0, 0
	n.pg.Failures, n.pg.ClonedSinceFollowing = 0, false
	n.next = w.now + time.Duration(w.choose(500))*time.Millisecond
	w.logf("%s starts as %s", n.name, n.config.Self.UID)
}

// killInstance ends the container with everything in it.
func (w *simulation) killInstance(n *instance, back time.Duration, replaced bool) {
	n.running, n.agentFrozen, n.nodeFrozen, n.exempt = false, false, false, false
	n.back, n.replaced = w.now+back, replaced || n.replaced
	w.pgEnds(n, false)
	if n.pg.DataTask != NoDataTask {
		n.pg.DataTask, n.pg.Data = NoDataTask, Incomplete
	}
	w.logf("%s ends, back in %s, replaced %v", n.name, back, replaced)
}

func (w *simulation) reaches(n *instance) bool { return !w.apiDown && !w.apiCut[n.id] && !n.nodeFrozen }

func (w *simulation) linked(a, b int) bool {
	return !w.cut[a][b] && !w.nodes[a].nodeFrozen && !w.nodes[b].nodeFrozen
}

// kubelet starts containers that have exited, and kills those that hang.
func (w *simulation) kubelet(n *instance) {
	switch {
	case !n.running && n.back > 0 && w.now >= n.back:
		w.boot(n)
	case !n.frozen() || w.now < n.wakeAt:
	case n.agentFrozen:
		w.logf("%s: the kubelet ends the container of the hung agent", n.name)
		w.killInstance(n, second, false)
	default:
		n.nodeFrozen, n.thawedAt = false, w.now
		w.logf("%s goes on", n.name)
	}
}

// step advances to t and processes everything that is due.
func (w *simulation) step(t time.Duration) {
	w.now = t
	for _, n := range w.nodes {
		w.kubelet(n)
	}
	w.operator()
	w.resize()
	w.watchdogs()
	w.deliver()
	for _, n := range w.nodes {
		if n.runs() {
			w.pgProgress(n)
		}
	}
	w.replicate()
	w.acknowledge()
	for _, n := range w.nodes {
		if n.running && !n.frozen() && t >= n.next {
			w.agent(n)
		}
	}
	w.check()
}
