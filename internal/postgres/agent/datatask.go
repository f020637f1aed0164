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

// rewindTries is how often a rewind is begun before the data counts as unfit; its source may just be starting.
const rewindTries = 3

// checkpointWait is how long a new primary may take for its first checkpoint before it is looked at anew who to rewind to.
const checkpointWait = 10 * time.Second

// runDataTask runs a task on the data directory of a server that is down. One that fails again and again is begun more and more
// seldom: each may copy all of the data. done, where it is not empty, is told in an event.
func (a *Agent) runDataTask(kind election.DataTask, done string, do func(ctx context.Context) error) {
	a.own.DataTask = kind
	a.log.Info("begin", "work", string(kind))
	begun := now()
	a.startTask(string(kind), func(ctx context.Context) func() {
		err := do(ctx)
		left := a.inspectUntilDone(ctx)
		return func() {
			a.own.DataTask = election.NoDataTask
			a.recordDataDir(left)
			if err != nil {
				a.counts.failed(kind)
				a.lastError = oneLine(err.Error())
				a.log.Error(string(kind), "error", err.Error())
				a.nextTaskAt, a.failures = now()+backOff(a.failures), a.failures+1
				a.recordSourceError(err)
				return
			}
			a.failures, a.own.Failures, a.own.StalledSince = 0, 0, 0
			a.own.ClonedSinceFollowing = kind == election.Cloning
			if done != "" {
				a.events.Normal(eventReasons[kind], done)
			}
			a.log.Info("done", "work", string(kind), "after", (now() - begun).Round(time.Millisecond).String())
		}
	})
}

// clone copies the source. replace: there are data already, which are kept under that name if one is given.
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

// inspectAgain reads what a server left once more, as long as that takes: the look that follows its end has little time.
func (a *Agent) inspectAgain() {
	a.startTask("look at the data directory", func(ctx context.Context) func() {
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

// rewind marks the data as unfit for as long as it is being changed. What did not stop in good order is started for a moment,
// by a configuration that a new pod does not have yet.
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

// retryRewind tries a rewind a few times. untouched says that it changed nothing: no try got further than to the connection. The last one alone
// says nothing, as an earlier one may have lost its source in the middle.
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
	return errors.Join(ctx.Err(), fmt.Errorf("%s has taken no checkpoint yet that one could rewind to", source))
}

// connectFailed is what pg_rewind says when it can't connect to its source. It does so before it changes anything.
var connectFailed = regexp.MustCompile(`could not connect to server|connection to server (at|on) .* failed:`)
