package watchdog

import (
	"os"
	"runtime"
	"runtime/debug"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fettle-dev/fettle/internal/postgres/process"
)

const (
	// childName is argv[0] of a watchdog process. Its arguments are the lock file and the directories of a
	// process.Selector.
	childName = "fettle-watchdog"
	// socketFD is the descriptor of the connection to the agent.
	socketFD = 3
	// Exit codes of the watchdog process.
	exitKilled, exitFailed = 1, 2
	// killRetryMillis is the interval of kill attempts, in milliseconds.
	killRetryMillis = 5
)

// init runs the watchdog if the process was started as one. It does so in init to skip the agent's own setup.
func init() {
	if len(os.Args) > 2 && os.Args[0] == childName {
		os.Exit(child(process.Selector{LockFile: os.Args[1], Dirs: os.Args[2:]})) //nolint:forbidigo // it replaces main
	}
}

// child watches until it has killed the processes or has nothing to watch. It returns the exit code.
func child(use process.Selector) int {
	runtime.LockOSThread()
	timer, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil || unix.SetNonblock(socketFD, true) != nil {
		return exitFailed // no order was confirmed, which the agent takes into account
	}
	unix.CloseOnExec(socketFD)
	var w childState
	confirmed := w.order
	for {
		w = w.drain()
		switch w.next(Now()) {
		case actionKill:
			kill(use)
			return exitKilled
		case actionExit:
			return 0
		case actionWait:
		}
		if w.order != confirmed {
			if err := arm(timer, w.order.deadline); err != nil {
				kill(use) // PostgreSQL would run without a watchdog
				return exitFailed
			}
			confirmed = w.order
			message := confirmed.message()
			_, _ = unix.Write(socketFD, message[:]) // without it the agent uses the last confirmed deadline
		}
		poll := [...]unix.PollFd{{Fd: socketFD, Events: unix.POLLIN}, {Fd: int32(timer), Events: unix.POLLIN}} //nolint:gosec // descriptors are small numbers
		_, _ = unix.Poll(poll[:], -1)
	}
}

// drain reads all orders that have arrived.
func (w childState) drain() childState {
	var message [orderSize + 1]byte
	for !w.agentExited {
		n, err := unix.Read(socketFD, message[:])
		switch {
		case err == unix.EAGAIN:
			return w
		case err == unix.EINTR:
		case err != nil:
			w.agentExited = true
		default:
			w = w.apply(message[:n])
		}
	}
	return w
}

// arm sets the timer to a CLOCK_BOOTTIME instant. 0 disarms it.
func arm(timer int, at time.Duration) error {
	return unix.TimerfdSettime(timer, unix.TFD_TIMER_ABSTIME, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(at))}, nil)
}

// kill returns when no process is left that uses the data.
func kill(use process.Selector) {
	_ = unix.Close(socketFD) // tells the agent that there is no watchdog any more
	debug.SetGCPercent(100)
	for {
		left, err := use.Kill()
		if left == 0 && err == nil {
			return
		}
		_, _ = unix.Poll(nil, killRetryMillis)
	}
}

// Now returns the time of CLOCK_BOOTTIME.
func Now() time.Duration {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &at); err != nil {
		panic("clock_gettime(CLOCK_BOOTTIME): " + err.Error()) // every Linux since 2.6.39 has it
	}
	return time.Duration(at.Nano())
}
