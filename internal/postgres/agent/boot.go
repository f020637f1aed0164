package agent

import (
	"context"
	"errors"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/election"
)

// recoverTimeout is how long an earlier life may take to end before it is told of.
const recoverTimeout = 10 * time.Second

// boot waits for what an earlier life left behind to end, and looks at the data directory. Nothing is decided before.
func (a *Agent) boot() {
	for a.ctx.Err() == nil {
		err := a.recoverPreviousRun()
		if err == nil {
			break
		}
		a.log.Error("an earlier life", "error", err.Error())
		a.enqueue(func() { a.lastError = oneLine(err.Error()) })
		sleep(a.ctx, time.Second)
	}
	// A former primary needs no position to go on, and the log of a busy one takes long to read.
	found := a.inspectPartly(a.ctx, inspectTimeout)
	if errors.Is(found.err, errVolumeTimeout) && (found.role != election.Primary || found.systemID == "") {
		found = a.inspectUntilDone(a.ctx)
	}
	a.enqueue(func() {
		a.recordDataDir(found)
		a.own.ProcessSince, a.booted = now(), true
	})
}

// recoverPreviousRun ends the processes of an earlier life, and undoes what it had begun with the data directory.
func (a *Agent) recoverPreviousRun() error {
	ctx, cancel := context.WithTimeout(a.ctx, recoverTimeout)
	defer cancel()
	if err := a.server.KillLeftovers(ctx); err != nil {
		return err
	}
	return a.server.RecoverReclone(ctx)
}
