package agent

import (
	"context"
	"errors"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/election"
)

// bootTime is how long an earlier life may take to end before it is told of.
const bootTime = 10 * time.Second

// boot waits for what an earlier life left behind to end, and looks at the data directory. Nothing is decided before.
func (a *Agent) boot() {
	for a.life.Err() == nil {
		err := a.recover()
		if err == nil {
			break
		}
		a.log.Error("an earlier life", "error", err.Error())
		a.post(func() { a.trouble = oneLine(err.Error()) })
		sleep(a.life, time.Second)
	}
	// A former primary needs no position to go on, and the log of a busy one takes long to read.
	found := a.lookPartly(a.life, lookTime)
	if errors.Is(found.err, errNoAnswer) && (found.role != election.Primary || found.systemID == "") {
		found = a.lookWell(a.life)
	}
	a.post(func() {
		a.take(found)
		a.own.Since, a.booted = now(), true
	})
}

// recover ends the processes of an earlier life, and undoes what it had begun with the data directory.
func (a *Agent) recover() error {
	ctx, cancel := context.WithTimeout(a.life, bootTime)
	defer cancel()
	if err := a.server.KillLeftovers(ctx); err != nil {
		return err
	}
	return a.server.RecoverReclone(ctx)
}
