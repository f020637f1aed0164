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
	// childName is the name under which the program is a watchdog. Its arguments are the lock and the folders of process.Selector.
	childName = "fettle-watchdog"
	// socketFD is the descriptor of the connection to the agent.
	socketFD = 3
	// exitKilled and failed are exit codes.
	exitKilled, exitFailed = 1, 2
	// killRetryMillis is the time between two looks at what is being killed, in milliseconds.
	killRetryMillis = 5
)

// init makes a watchdog of a process that was started as one: here, so that what the agent needs is not set up for it.
func init() {
	if len(os.Args) > 2 && os.Args[0] == childName {
		os.Exit(child(process.Selector{LockFile: os.Args[1], Dirs: os.Args[2:]})) //nolint:forbidigo // it stands for main
	}
}

// child watches until it has killed, or until there is nothing to watch. It returns the exit code.
func child(use process.Selector) int {
	runtime.LockOSThread()
	timer, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil || unix.SetNonblock(socketFD, true) != nil {
		return exitFailed // nothing was confirmed: the agent goes by that
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
				kill(use) // whatever is running is not watched any more
				return exitFailed
			}
			confirmed = w.order
			message := confirmed.message()
			_, _ = unix.Write(socketFD, message[:]) // an agent that does not read it goes by what was confirmed before
		}
		poll := [...]unix.PollFd{{Fd: socketFD, Events: unix.POLLIN}, {Fd: int32(timer), Events: unix.POLLIN}} //nolint:gosec // a descriptor is no large number
		_, _ = unix.Poll(poll[:], -1)
	}
}

// drain takes all orders that have arrived.
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

// arm has the timer go off at an instant of CLOCK_BOOTTIME, never for 0.
func arm(timer int, at time.Duration) error {
	return unix.TimerfdSettime(timer, unix.TFD_TIMER_ABSTIME, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(at))}, nil)
}

// kill returns when nothing is left that uses the data.
func kill(use process.Selector) {
	_ = unix.Close(socketFD) // the agent knows that nobody watches
	debug.SetGCPercent(100)
	for {
		left, err := use.Kill()
		if left == 0 && err == nil {
			return
		}
		_, _ = unix.Poll(nil, killRetryMillis)
	}
}

// Now is the time by CLOCK_BOOTTIME.
func Now() time.Duration {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &at); err != nil {
		panic("clock_gettime(CLOCK_BOOTTIME): " + err.Error()) // every Linux since 2.6.39 has it
	}
	return time.Duration(at.Nano())
}
