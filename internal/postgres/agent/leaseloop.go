package agent

import (
	"cmp"
	"context"
	"errors"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/election"
)

// leaseUrgent is the time between two reads of the Lease when it has no holder or its holder is late.
const leaseUrgent = 500 * time.Millisecond

// leaseOp is a request in progress. A write replaces a read, and nothing replaces a write.
type leaseOp struct {
	write  bool
	cancel context.CancelFunc
}

// watchLease triggers a read of the Lease as soon as it changes.
func (a *Agent) watchLease() {
	for a.ctx.Err() == nil {
		err := a.lease.Watch(a.ctx, func(deleted bool) {
			a.enqueue(func() {
				if deleted || a.observation.Lease.Holder != a.options.self() {
					a.readLease(now())
				}
			})
		})
		if err != nil && a.ctx.Err() == nil {
			a.log.Debug("failed to watch lease", "error", err.Error())
			sleep(a.ctx, time.Second)
		}
	}
}

// pollLease reads the Lease when the last read is old enough.
func (a *Agent) pollLease(at time.Duration) {
	pause := a.config.RenewInterval
	late := at-a.observation.UnchangedSince > pause+pause/2
	if a.observation.Lease.Holder == (election.Holder{}) || late || !a.configured {
		pause = leaseUrgent
	}
	if a.observation.Lease.Holder == a.options.self() && a.tenure.Confirmed.Sent > 0 {
		pause = a.config.RenewInterval + a.config.RenewInterval/2 // each renewal is a read
	}
	if at-max(a.observation.ReadAt, a.observation.FailedAt) >= pause {
		a.readLease(at)
	}
}

func (a *Agent) requestTime() time.Duration {
	return cmp.Or(a.config.RenewInterval, election.DefaultTiming().RenewInterval)
}

func (a *Agent) readLease(at time.Duration) {
	if a.ops.lease != nil {
		return
	}
	ctx, cancel := context.WithTimeout(a.ctx, a.requestTime())
	op := &leaseOp{cancel: cancel}
	a.ops.lease = op
	go func() {
		record, err := a.lease.Read(ctx)
		cancel()
		a.enqueue(func() {
			if a.ops.lease != op {
				return // a write took its place
			}
			a.ops.lease = nil
			a.recordLease(record, err, now())
			if err != nil {
				a.log.Debug("failed to read lease", "error", err.Error(), "duration", (now() - at).String())
			}
		})
	}()
}

func (a *Agent) recordLease(record *leaseRecord, err error, at time.Duration) {
	a.unauthorized, a.leaseGone = apierrors.IsUnauthorized(err), isPermanent(err)
	if err != nil {
		a.observation = a.observation.Failed(at)
		return
	}
	a.record = record
	a.observation = a.observation.Read(at, 3*a.requestTime(), record.Lease)
	a.tenure = a.tenure.Read(a.options.self(), record.Lease)
	a.own.HighestTimeline = max(a.own.HighestTimeline, record.AfterTimeline)
	a.applyLease(&a.config)
}

// applyLease adds what the Lease says to the configuration of the election.
func (a *Agent) applyLease(c *election.Config) {
	if a.record == nil || a.spec == nil {
		return
	}
	c.MayInitialize, c.TimelinesKnown = a.record.Fresh, a.record.AfterTimeline > 0
	_, kept := a.object.Get()
	c.Hibernated = a.spec.Spec.Hibernated || !kept && leavesVolumes(a.spec, a.record.Volumes)
}

// leavesVolumes reports whether the object asks for other volumes than the present ones: then all instances stop in order, as for hibernation,
// and the operator starts them with the other volumes. A paused operator does not.
func leavesVolumes(object *databasev1alpha1.PostgreSQL, present int) bool {
	wanted, ok := object.RequestedVolumes()
	return ok && wanted != present && !object.Spec.Paused
}

func (a *Agent) writeLease(lease election.Lease, at time.Duration) {
	if a.ops.lease != nil && a.ops.lease.write {
		return
	}
	if a.record == nil { // the last write was rejected, and the Lease was not read since
		a.tenure = a.tenure.Begin(at, lease).Rejected() // or the decision would stay the same, and PostgreSQL would not be stopped
		a.exitWithoutLease(lease, a.leaseGone)
		return
	}
	if a.record.Version != lease.Version {
		return
	}
	if a.ops.lease != nil {
		a.ops.lease.cancel()
	}
	ctx, cancel := context.WithTimeout(a.ctx, a.requestTime())
	op, record, valid := &leaseOp{write: true, cancel: cancel}, a.record, a.config.LeaseDuration
	a.ops.lease = op
	a.tenure = a.tenure.Begin(at, lease)
	go func() {
		written, err := a.lease.Write(ctx, record, lease, valid)
		cancel()
		a.enqueue(func() {
			a.ops.lease = nil
			a.recordWrite(written, err, now())
			a.exitWithoutLease(lease, isPermanent(err))
		})
	}()
}

// exitWithoutLease exits a stopping agent that cannot release the lease.
func (a *Agent) exitWithoutLease(lease election.Lease, gone bool) {
	if a.stopping && lease.Released && gone {
		a.log.Info("exiting without releasing the lease: lease or permission is gone")
		a.exit()
	}
}

// isPermanent reports that no request for the Lease will succeed: the PostgreSQL is being deleted, and its dependents were deleted
// first.
func isPermanent(err error) bool {
	return apierrors.IsForbidden(err) || apierrors.IsUnauthorized(err) || apierrors.IsNotFound(err)
}

// recordWrite records the outcome of a write. A read follows a rejected write.
func (a *Agent) recordWrite(written *leaseRecord, err error, at time.Duration) {
	switch {
	case err == nil:
		a.tenure = a.tenure.Applied()
		a.recordLease(written, nil, at)
	case errors.Is(err, errRejected):
		a.log.Info("lease update was rejected: reading the lease again", "error", err.Error())
		a.tenure = a.tenure.Rejected()
		a.record = nil // no other write before a read: the next write would be rejected too, and would cancel the read
		a.readLease(at)
	default:
		a.log.Warn("failed to update lease", "error", err.Error())
		a.counts.leaseErrors.Add(1)
		a.tenure = a.tenure.Unknown()
		a.observation = a.observation.Failed(at)
	}
}
