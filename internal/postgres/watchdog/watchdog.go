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
	// killLead is how long before the deadline the watchdog kills, so that the processes are gone by the deadline.
	killLead = 100 * time.Millisecond
	// confirmTimeout is how long a watchdog may take to confirm an order before it is replaced.
	confirmTimeout = 2500 * time.Millisecond
	// restartDelay is the delay between attempts to start a watchdog.
	restartDelay = 200 * time.Millisecond
)

// Options of a Watchdog.
type Options struct {
	// Processes selects the processes to kill.
	Processes process.Selector
	Log       *slog.Logger
	// Start starts a process, and Wait waits for its exit.
	Start, Wait func(*exec.Cmd) error
	// Confirmed is called when a live watchdog has confirmed the deadline. Lost is called when there is no watchdog any
	// more.
	Confirmed func(deadline time.Duration)
	Lost      func()
}

// Watchdog is the agent's side: it keeps a watchdog process running and sends it the deadline.
type Watchdog struct {
	options Options
	wakeup  chan struct{}

	mutex sync.Mutex
	// needed is false while no other instance could take over. Then there is nothing to watch.
	needed   bool
	deadline time.Duration
	order    order
}

// New returns an idle Watchdog.
func New(o Options) *Watchdog { return &Watchdog{options: o, wakeup: make(chan struct{}, 1)} }

// SetDeadline sets the CLOCK_BOOTTIME instant by which PostgreSQL must have been killed. 0 means never. It does not block:
// Confirmed is called later.
func (w *Watchdog) SetDeadline(deadline time.Duration) {
	w.mutex.Lock()
	defer w.mutex.Unlock()
	if deadline == w.deadline {
		return
	}
	w.needed, w.deadline = true, deadline
	w.order.number++
	w.order.deadline = max(deadline-killLead, min(deadline, 1))
	w.wake()
}

// Prepare starts a watchdog process before the first deadline.
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

// Run keeps a watchdog process running until the context is done. Then the watchdog exits too, and kills PostgreSQL if
// there is a deadline.
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
		w.options.Log.Warn("watchdog exited, starting a new one", "error", err.Error())
		select {
		case <-ctx.Done():
		case <-time.After(restartDelay):
		}
	}
}

// runChild runs one watchdog process until it is dead.
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
				return fmt.Errorf("no deadline confirmed for %s", confirmTimeout)
			}
		}
	}
}

// sendOrder sends the newest order if it was not sent yet. The first unconfirmed order starts the timer.
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

// confirm reports that the newest deadline was confirmed.
func (w *Watchdog) confirm(number uint64) {
	if wanted, deadline := w.newestOrder(); wanted.number == number {
		w.options.Confirmed(deadline)
	}
}

// childProcess is a running watchdog process.
type childProcess struct {
	socket *os.File
	pid    int
	// sent and confirmed are the numbers of the last orders that were sent and confirmed.
	sent, confirmed uint64
	exited          chan struct{}
	// code is the exit code. It is valid once exited is closed.
	code int
}

func (w *Watchdog) start() (*childProcess, error) {
	// SOCK_SEQPACKET keeps message boundaries, and each side sees when the other one closes.
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("create the watchdog socket: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "watchdog"), os.NewFile(uintptr(pair[1]), "agent") //nolint:gosec // descriptors are positive
	defer theirs.Close()                                                                            //nolint:errcheck // the watchdog has its own descriptor
	cmd := &exec.Cmd{
		Path: "/proc/self/exe", Args: append([]string{childName, w.options.Processes.LockFile}, w.options.Processes.Dirs...),
		// GOGC=off: the process allocates almost nothing.
		Env: []string{"GOGC=off", "GOMAXPROCS=1"}, Dir: "/", ExtraFiles: []*os.File{theirs},
		// Signals from a terminal do not reach it.
		SysProcAttr: &syscall.SysProcAttr{Setsid: true},
	}
	if err := w.options.Start(cmd); err != nil {
		return nil, errors.Join(fmt.Errorf("start the watchdog: %w", err), ours.Close())
	}
	d := &childProcess{socket: ours, pid: cmd.Process.Pid, exited: make(chan struct{})}
	go func() {
		_ = w.options.Wait(cmd) // ProcessState has the exit code
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
		return fmt.Errorf("send the deadline to the watchdog: %w", err)
	}
	return nil
}

// read passes on confirmed orders until the watchdog exits.
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

// waitExit waits for a watchdog that has closed its connection, which may be killing PostgreSQL. It returns why it exited.
func (d *childProcess) waitExit() error {
	select {
	case <-d.exited:
		if d.code == exitKilled {
			return errKilled
		}
		return fmt.Errorf("exited with code %d", d.code)
	case <-time.After(confirmTimeout):
		return errors.New("watchdog is unresponsive")
	}
}

// errKilled means that the deadline has passed.
var errKilled = errors.New("killed PostgreSQL after its deadline")

// close ends a watchdog. A watchdog to be replaced is killed before its connection is closed, so that it does not mistake
// this for the agent's exit. When the agent exits, the watchdog decides itself.
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
