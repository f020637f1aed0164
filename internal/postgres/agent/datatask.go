package agent

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/election"

	"github.com/fettle-dev/fettle/internal/postgres/server"
)

// rewindTries is how often a rewind is tried before the data counts as unusable. Its source may be starting.
const rewindTries = 3

// checkpointWait is how long a new primary may take for its first checkpoint before the next decision on the source of a rewind.
const checkpointWait = 10 * time.Second

// runDataTask runs a task on the data directory of a server that is down. A task that fails repeatedly is retried less and less
// often, because each try may copy all of the data. done, if it is not empty, is the text of an event.
func (a *Agent) runDataTask(kind election.DataTask, done string, do func(ctx context.Context) error) {
	a.own.DataTask = kind
	a.log.Debug("data task started", "task", string(kind))
	begun := now()
	a.startTask(func(ctx context.Context) func() {
		err := do(ctx)
		left := a.inspectUntilDone(ctx)
		return func() {
			a.own.DataTask = election.NoDataTask
			a.recordDataDir(left)
			if err != nil {
				a.counts.failed(kind)
				a.lastError = oneLine(err.Error())
				a.log.Error("data task failed", "task", string(kind), "error", err.Error())
				a.nextTaskAt, a.failures = now()+backOff(a.failures), a.failures+1
				a.recordSourceError(err)
				return
			}
			a.failures, a.own.Failures, a.own.StalledSince = 0, 0, 0
			a.own.ClonedSinceFollowing = kind == election.Cloning
			if done != "" {
				a.events.Normal(eventReasons[kind], done)
			}
			a.log.Info("data task finished", "task", string(kind), "duration", (now() - begun).Round(time.Millisecond).String())
		}
	})
}

// clone copies the source. replace means that there is data already, which is kept under the name keep if that is not empty.
func (a *Agent) clone(ctx context.Context, source string, replace bool, keep string) error {
	copied := a.server.Clone
	if replace {
		copied = func(ctx context.Context, source server.Source) error { return a.server.Reclone(ctx, source, keep) }
	}
	if err := copied(ctx, a.source(source)); err != nil {
		return err
	}
	return a.clearNeedsReclone()
}

// inspectAgain inspects the data directory once more, for as long as that takes. The inspection after the exit of a server has
// little time.
func (a *Agent) inspectAgain() {
	a.startTask(func(ctx context.Context) func() {
		left := a.inspect(ctx, inspectTimeoutLong)
		return func() {
			a.recordDataDir(left)
			if !a.own.Exact {
				a.nextTaskAt = now() + retryPause
			}
		}
	})
}

var eventReasons = map[election.DataTask]string{election.Cloning: "Recloned", election.Rewinding: "Rewound"}

func backOff(failures int) time.Duration { return min(retryPause<<min(failures, 6), time.Minute) }

// rewind marks the data as unusable for as long as it changes. A server that did not shut down cleanly is started for a moment,
// with a configuration that a new pod does not have yet.
func (a *Agent) rewind(ctx context.Context, source string, render func() (bool, error)) error {
	if err := a.waitForCheckpoint(ctx, source); err != nil {
		return err
	}
	if _, err := render(); err != nil {
		return err
	}
	if err := a.markNeedsReclone(); err != nil {
		return err
	}
	untouched, err := retryRewind(ctx, func() error { return a.server.Rewind(ctx, a.source(source)) })
	if err == nil || untouched {
		return errors.Join(err, a.clearNeedsReclone())
	}
	return err
}

// retryRewind tries a rewind a few times. untouched means that it changed nothing: no try connected to the source. The last try
// alone proves nothing, because an earlier one may have lost its source in the middle.
func retryRewind(ctx context.Context, rewind func() error) (untouched bool, err error) {
	untouched = true
	for try := range rewindTries {
		if try > 0 {
			sleep(ctx, retryPause)
		}
		if err = rewind(); err == nil {
			return false, nil
		}
		untouched = untouched && connectFailed.MatchString(err.Error())
	}
	return untouched, err
}

// waitForCheckpoint waits until the source has taken a checkpoint on its timeline.
func (a *Agent) waitForCheckpoint(ctx context.Context, source string) error {

	for end := now() + checkpointWait; now() < end && ctx.Err() == nil; sleep(ctx, retryPause/4) {
		answer, ok := a.peers.Answers()[source]
		if ok && answer.Err == nil && answer.Checkpointed {
			return nil
		}
	}
	return errors.Join(ctx.Err(), fmt.Errorf("%s has not taken a checkpoint since its promotion", source))
}

// connectFailed matches the errors of pg_rewind when it cannot connect to its source. They occur before it changes anything.
var connectFailed = regexp.MustCompile(`could not connect to server|connection to server (at|on) .* failed:`)
