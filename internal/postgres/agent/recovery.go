package agent

import (
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/election"
	"github.com/fettle-dev/fettle/internal/postgres/server"
)

const (
	// recoveryPause is the time between two looks at a recovery, the first of which comes after recoveryFirst.
	recoveryPause, recoveryFirst = 2 * time.Second, 5 * time.Second
	// recoveryStep is how much time on a CPU counts as progress: a process that only waits needs longer than [election.Timing] has
	// for a start to use that much.
	recoveryStep = 50 * time.Millisecond
)

// watchRecovery notes that a server which starts or is promoted advances: its recovery takes as long as there is to recover.
func (a *Agent) watchRecovery(at time.Duration) {
	recovering := a.own.Process == election.Starting || a.own.Process == election.Promoting
	if !recovering || a.process == nil || at < a.own.Since+recoveryFirst || !a.recovery.due(at) {
		return
	}
	go func(process *server.Process, epoch int) {
		used := process.RecoveryTime()
		a.post(func() {
			a.recovery.over(now() + recoveryPause)
			if epoch == a.epoch {
				a.recovered(used, at)
			}
		})
	}(a.process, a.epoch)
}

// recovered notes how much time a recovery has used at an instant.
func (a *Agent) recovered(used, at time.Duration) {
	switch {
	case used < a.recoveryUsed: // another process does it now
		a.recoveryUsed = used
	case used-a.recoveryUsed >= recoveryStep:
		a.recoveryUsed, a.own.Advanced = used, at
	}
}
