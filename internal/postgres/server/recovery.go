package server

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/process"
)

// recoveryProcess matches the process titles of crash recovery. The startup process flushes files, replays WAL and
// promotes. The checkpointer writes changed pages before the server accepts connections.
var recoveryProcess = regexp.MustCompile(`^postgres: (\S+: )?(startup|checkpointer)\b`)

// RecoveryCPUTime returns the CPU time of the recovery processes. It grows while recovery makes progress in any phase, even
// on a slow disk. It does not grow on a disk that hangs, and very slowly on a standby that waits for WAL. There is no other
// signal: the server accepts no connections yet, the WAL position in the process title changes once per segment, and most
// phases show none. The call may hang together with the process.
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
