package watchdog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fettle-dev/fettle/internal/postgres/process"
)

const (
	// KillLead is how long before the deadline the watchdog kills, for the processes to be gone by then.
	KillLead = 100 * time.Millisecond
	// confirmTimeout is how long a watchdog may take to confirm an order before another takes its place.
	confirmTimeout = 2500 * time.Millisecond
	// restartDelay is the time between two tries to start one.
	restartDelay = 200 * time.Millisecond
)

// Options of a Watchdog.
type Options struct {
	// Processes is how the processes are known that are killed.
	Processes process.Selector
	Log       *slog.Logger
	// Start starts a process, and Wait waits for its end.
	Start, Wait func(*exec.Cmd) error
	// Confirmed is called when a watchdog that lives has taken the deadline, Lost when none has any more.
	Confirmed func(deadline time.Duration)
	Lost      func()
}

// Watchdog is the agent's side: it keeps a watchdog running, and tells it the deadline.
type Watchdog struct {
	options Options
	wakeup  chan struct{}

	mutex sync.Mutex
	// needed is false until somebody could take over: then there is nothing to watch.
	needed   bool
	deadline time.Duration
	order    order
}

// New returns a Watchdog that does nothing yet.
func New(o Options) *Watchdog { return &Watchdog{options: o, wakeup: make(chan struct{}, 1)} }

// SetDeadline says when what is left of PostgreSQL must have been killed, by CLOCK_BOOTTIME; 0 is never. It waits for nobody:
// Confirmed is called later.
func (w *Watchdog) SetDeadline(deadline time.Duration) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if deadline == w.deadline {
		return
	}
	w.needed, w.deadline = true, deadline
	w.order.number++
	w.order.deadline = max(deadline-KillLead, min(deadline, 1))
	w.wake()
}

// Prepare starts a watchdog, so that one is there when there is a deadline.
func (w *Watchdog) Prepare() {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	w.needed = true
	w.wake()
}

func (w *Watchdog) wake() {
	select {
	case w.wakeup <- struct{}{}:
	default:
	}
}

func (w *Watchdog) isNeeded() bool {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.needed
}

func (w *Watchdog) newestOrder() (order, time.Duration) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	return w.order, w.deadline
}

// Run keeps a watchdog running until the context ends: the watchdog then ends too, and kills if there is a deadline.
func (w *Watchdog) Run(ctx context.Context) {
	for !w.isNeeded() {
		select {
		case <-ctx.Done():
			return
		case <-w.wakeup:
		}
	}
	for ctx.Err() == nil {
		err := w.runChild(ctx)
		w.options.Lost()
		if ctx.Err() != nil {
			return
		}
		w.options.Log.Warn("the watchdog ended: starting another", "error", err.Error())
		select {
		case <-ctx.Done():
		case <-time.After(restartDelay):
		}
	}
}

// runChild is that of one watchdog, from its start until it is dead.
func (w *Watchdog) runChild(ctx context.Context) error {
	running, err := w.start()
	if err != nil {
		return err
	}
	defer running.close(ctx)
	confirmed := make(chan uint64, 16)
	go running.read(confirmed)
	late := time.NewTimer(confirmTimeout)
	defer late.Stop()
	for {
		if err := w.sendOrder(running, late); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-w.wakeup:
		case number, open := <-confirmed:
			if !open {
				return running.waitExit()
			}
			running.confirmed = number
			w.confirm(number)
		case <-late.C:
			if running.confirmed < running.sent {
				return fmt.Errorf("it confirmed no deadline for %s", confirmTimeout)
			}
		}
	}
}

// sendOrder sends the newest order, unless it was sent. The first one that is not confirmed starts the clock of patience.
func (w *Watchdog) sendOrder(d *childProcess, late *time.Timer) error {
	wanted, _ := w.newestOrder()
	if wanted.number <= d.sent {
		return nil
	}
	if d.sent == d.confirmed {
		late.Reset(confirmTimeout)
	}
	d.sent = wanted.number
	return d.send(wanted)
}

// confirm passes on that the newest deadline was taken.
func (w *Watchdog) confirm(number uint64) {
	if wanted, deadline := w.newestOrder(); wanted.number == number {
		w.options.Confirmed(deadline)
	}
}

// childProcess is a watchdog that runs.
type childProcess struct {
	socket *os.File
	pid    int
	// sent and heard are the last orders that were sent and confirmed.
	sent, confirmed uint64
	exited          chan struct{}
	// code is how it ended, once dead is closed.
	code int
}

func (w *Watchdog) start() (*childProcess, error) {
	// Each message is whole, and the end of either side is seen by the other.
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("connect to a watchdog: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "watchdog"), os.NewFile(uintptr(pair[1]), "agent") //nolint:gosec // a descriptor is above 0
	defer theirs.Close()                                                                            //nolint:errcheck // the watchdog has its own
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: append([]string{childName, w.options.Processes.LockFile}, w.options.Processes.Dirs...),
		// It keeps what it has: there is nothing to collect.
		Env: []string{"GOGC=off", "GOMAXPROCS=1"}, Dir: "/", ExtraFiles: []*os.File{theirs},
		// What is typed at a terminal does not reach it.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := w.options.Start(cmd); err != nil {
		return nil, errors.Join(fmt.Errorf("start a watchdog: %w", err), ours.Close())
	}
	d := &childProcess{socket: ours, pid: cmd.Process.Pid, exited: make(chan struct{})}
	go func() {
		_ = w.options.Wait(cmd) // the code tells how it ended
		d.code = cmd.ProcessState.ExitCode()
		close(d.exited)
	}()
	return d, nil
}

func (d *childProcess) send(o order) error {
	message := o.message()
	if err := d.socket.SetWriteDeadline(time.Now().Add(confirmTimeout)); err != nil {
		return err
	}
	if _, err := d.socket.Write(message[:]); err != nil {
		return fmt.Errorf("tell the watchdog its deadline: %w", err)
	}
	return nil
}

// read passes on what the watchdog confirms, until it ends.
func (d *childProcess) read(confirmed chan<- uint64) {
	defer close(confirmed)
	var message [orderSize]byte
	for {
		n, err := d.socket.Read(message[:])
		o, ok := parse(message[:n])
		if err != nil || !ok {
			return
		}
		select {
		case confirmed <- o.number:
		case <-d.exited:
			return
		}
	}
}

// waitExit waits for a watchdog that has closed its connection: it may be killing. It returns why it did.
func (d *childProcess) waitExit() error {
	select {
	case <-d.exited:
		if d.code == exitKilled {
			return errKilled
		}
		return fmt.Errorf("it ended with code %d", d.code)
	case <-time.After(confirmTimeout):
		return errors.New("it does not answer any more")
	}
}

// errKilled means that the deadline has passed.
var errKilled = errors.New("it has killed PostgreSQL, whose time was over")

// close ends a watchdog: one that is to be replaced is killed first, so that it does not take that for the agent's end. At
// the agent's end it is left to it what to do.
func (d *childProcess) close(ctx context.Context) {
	select {
	case <-d.exited:
	case <-ctx.Done():
	default:
		_ = syscall.Kill(d.pid, syscall.SIGKILL)
		<-d.exited
	}
	_ = d.socket.Close()
}
