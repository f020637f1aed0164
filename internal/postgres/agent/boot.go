package agent

import (
	"context"
	"errors"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/election"
)

// recoverTimeout is how long the cleanup after a previous run may take before its error is reported.
const recoverTimeout = 10 * time.Second

// boot cleans up after the previous agent process, and inspects the data directory. Nothing is decided before.
func (a *Agent) boot() {
	for a.ctx.Err() == nil {
		err := a.recoverPreviousRun()
		if err == nil {
			break
		}
		a.log.Error("failed to clean up after previous run", "error", err.Error())
		a.enqueue(func() { a.lastError = oneLine(err.Error()) })
		sleep(a.ctx, time.Second)
	}
	// A former primary needs no position to continue, and reading the WAL of a busy primary takes long.
	found := a.inspectPartly(a.ctx, inspectTimeout)
	if errors.Is(found.err, errVolumeTimeout) && (found.role != election.Primary || found.systemID == "") {
		found = a.inspectUntilDone(a.ctx)
	}
	a.enqueue(func() {
		a.recordDataDir(found)
		a.own.ProcessSince, a.booted = now(), true
	})
}

// recoverPreviousRun kills the processes of a previous run, and undoes its unfinished work on the data directory.
func (a *Agent) recoverPreviousRun() error {
	ctx, cancel := context.WithTimeout(a.ctx, recoverTimeout)
	defer cancel()
	if err := a.server.KillLeftovers(ctx); err != nil {
		return err
	}
	return a.server.RecoverReclone(ctx)
}
