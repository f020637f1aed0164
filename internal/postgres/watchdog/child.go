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
	// childName is the name under which the program is a watchdog. Its arguments are the lock and the folders of process.Use.
	childName = "fettle-watchdog"
	// socket is the descriptor of the connection to the agent.
	socket = 3
	// killed and failed are exit codes.
	killed, failed = 1, 2
	// again is the time between two looks at what is being killed, in milliseconds.
	again = 5
)

// init makes a watchdog of a process that was started as one: here, so that what the agent needs is not set up for it.
func init() {
	if len(os.Args) > 2 && os.Args[0] == childName {
		os.Exit(child(process.Use{Lock: os.Args[1], Dirs: os.Args[2:]})) //nolint:forbidigo // it stands for main
	}
}

// child watches until it has killed, or until there is nothing to watch. It returns the exit code.
func child(use process.Use) int {
	runtime.LockOSThread()
	timer, err := unix.TimerfdCreate(unix.CLOCK_BOOTTIME, unix.TFD_NONBLOCK|unix.TFD_CLOEXEC)
	if err != nil || unix.SetNonblock(socket, true) != nil {
		return failed // nothing was confirmed: the agent goes by that
	}
	unix.CloseOnExec(socket)
	var w watch
	confirmed := w.order
	for {
		w = w.drain()
		switch w.judge(Now()) {
		case kills:
			kill(use)
			return killed
		case ends:
			return 0
		case waits:
		}
		if w.order != confirmed {
			if err := arm(timer, w.order.at); err != nil {
				kill(use) // whatever is running is not watched any more
				return failed
			}
			confirmed = w.order
			message := confirmed.message()
			_, _ = unix.Write(socket, message[:]) // an agent that does not read it goes by what was confirmed before
		}
		poll := [...]unix.PollFd{{Fd: socket, Events: unix.POLLIN}, {Fd: int32(timer), Events: unix.POLLIN}} //nolint:gosec // a descriptor is no large number
		_, _ = unix.Poll(poll[:], -1)
	}
}

// drain takes all orders that have arrived.
func (w watch) drain() watch {
	var message [orderSize + 1]byte
	for !w.gone {
		n, err := unix.Read(socket, message[:])
		switch {
		case err == unix.EAGAIN:
			return w
		case err == unix.EINTR:
		case err != nil:
			w.gone = true
		default:
			w = w.take(message[:n])
		}
	}
	return w
}

// arm has the timer go off at an instant of CLOCK_BOOTTIME, never for 0.
func arm(timer int, at time.Duration) error {
	return unix.TimerfdSettime(timer, unix.TFD_TIMER_ABSTIME, &unix.ItimerSpec{Value: unix.NsecToTimespec(int64(at))}, nil)
}

// kill returns when nothing is left that uses the data.
func kill(use process.Use) {
	_ = unix.Close(socket) // the agent knows that nobody watches
	debug.SetGCPercent(100)
	for {
		left, err := use.Kill()
		if left == 0 && err == nil {
			return
		}
		_, _ = unix.Poll(nil, again)
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
