package agent

import (
	"time"

	"golang.org/x/sys/unix"
)

// now is the time since the machine started, sleep included. It never steps, whatever happens to the wall clock; only its
// rate is trusted.
func now() time.Duration {
	var at unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &at); err != nil {
		panic("clock_gettime(CLOCK_BOOTTIME): " + err.Error()) // every Linux since 2.6.39 has it
	}
	return time.Duration(at.Nano())
}

// timeOf reads an instant that was kept as a number.
func timeOf(n int64) time.Duration { return time.Duration(n) }
