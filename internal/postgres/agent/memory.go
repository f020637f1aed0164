package agent

import (
	"runtime/debug"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/proc"
)

const (
	// startUp is how long after its start the agent gives back what only the start needed, seldom the time between two
	// further times.
	startUp, seldom = 20 * time.Second, 10 * time.Minute
)

// giveBack keeps the agent's memory small, for as long as it lives.
func (a *Agent) giveBack() {
	for wait := startUp; a.life.Err() == nil; wait = seldom {
		sleep(a.life, wait)
		debug.FreeOSMemory()
		if err := proc.DropProgram(); err != nil {
			a.log.Warn("memory", "error", err.Error())
			return
		}
	}
}
