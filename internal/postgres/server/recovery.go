package server

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/process"
)

// recoveryProcess are the processes that start a server which was not shut down in order, by their titles: the startup process makes the
// files durable, replays the write-ahead log and promotes; the checkpointer writes what has changed before connections are taken.
var recoveryProcess = regexp.MustCompile(`^postgres: (\S+: )?(startup|checkpointer)\b`)

// RecoveryCPUTime is the CPU time that the processes have used which recover the data. It grows while recovery advances, whatever it
// does, also when it waits for a slow disk most of the time. A disk that hangs lets nothing be done, and a standby that waits for
// write-ahead log uses next to nothing. Nothing else tells so: there are no connections yet, the position in the title changes once
// in a segment, and most of the phases have none. It may hang with the process that it asks for.
func (p *Process) RecoveryCPUTime() time.Duration {
	var sum time.Duration
	for _, child := range process.List() {
		if child.Parent != p.pid {
			continue
		}
		title, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(child.PID), "cmdline"))
		if err == nil && recoveryProcess.Match(title) {
			sum += child.CPU
		}
	}
	return sum
}
