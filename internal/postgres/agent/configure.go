package agent

import (
	"context"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/election"
	"github.com/fettle-dev/fettle/internal/postgres/server"
)

// apply loads a configuration that changed into a server that runs, when nothing else is being done.
func (a *Agent) apply(at time.Duration) {
	generation := a.generation()
	// What was raised for the primary's sake is looked at now and then: it may have come down there.
	again := a.raised && a.own.Role == election.Standby
	if a.task != nil || a.own.Process != election.Up || at < a.retry || a.applied == generation && !again {
		return
	}
	if a.applied == generation {
		a.retry = at + measurePause
	}
	process, unread := a.process, a.unread
	render := a.renderer(rendering{standby: a.own.Role == election.Standby, upstream: a.own.Upstream, sync: a.own.Sync})
	a.begin("configure", func(ctx context.Context) func() {
		changed, s, err := a.load(ctx, process, unread, render)
		return func() {
			switch {
			case a.process != process || a.own.Process != election.Up:
				return
			case err != nil:
				a.log.Warn("configure", "error", err.Error())
				a.retry, a.unread = now()+pause, unread || changed
				return
			}
			// Together: which parameters wait for a restart must be known by the time that the generation counts as applied.
			a.applied, a.unread = generation, false
			a.sampled(s)
			if changed {
				a.log.Info("configuration loaded", "generation", generation)
			}
		}
	})
}

// load writes the files, and has the server read them if they changed, or may not have been read. It returns what the
// server says after that.
func (a *Agent) load(ctx context.Context, process *server.Process, unread bool, render func() (bool, error)) (changed bool, s sample, err error) {
	ctx, cancel := context.WithTimeout(ctx, sampleTime)
	defer cancel()
	changed, err = render()
	if err == nil && (changed || unread) {
		err = a.acting.Reload(ctx, process.Reload)
		sleep(ctx, reloadTime)
	}
	if err == nil {
		s, err = a.status(ctx, a.acting)
	}
	return changed, s, err
}

// reload has the server take over what is rendered.
func reload(process *server.Process, render func() (bool, error)) error {
	if _, err := render(); err != nil {
		return err
	}
	return process.Reload()
}
