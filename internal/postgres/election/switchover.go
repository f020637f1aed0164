package election

import (
	"slices"
	"time"
)

// switchoverObstacle returns nil if the Lease shall go to the SwitchoverTarget now, else why not; "" if nobody asked. (6)
func (v *decider) switchoverObstacle() *string {
	name := v.SwitchoverTarget
	if name == "" || name == v.Self.Name {
		return new("")
	}
	p, ok := v.peer(name, v.freshSince())
	switch {
	case v.Paused:
		return new("paused")
	case !v.leaseWritable():
		return new("the Lease can't be written now")
	case v.switchoverTimedOut():
		return new("the stop for it took longer than " + v.StopTimeout.String() + " and was cut off; ask for it again to try again")
	case !slices.Contains(v.Instances, name):
		return new(name + " is no instance")
	case !ok || !p.API:
		return new(name + " does not answer, or does not reach the API server")
	case !v.hasCopy(p) || p.Process != Up || p.Role != Standby:
		return new(name + " is no standby that runs")
	}
	return v.targetObstacle(name)
}

// targetObstacle returns why name does not lead yet; nil if it does. Only a primary that is down does not wait for one to catch up.
func (v *decider) targetObstacle(name string) *string {
	f := v.in.Standbys[name]
	switch {
	case v.targetOnProbation():
		return new(name + " stood still, and nobody asked for it since: waits until it has run for " + v.ProbationPeriod.String())
	case v.server.Process != Up:
		return nil
	case !f.Streaming || !f.CaughtUp:
		return new(name + " has not caught up")
	case v.in.Now < v.server.ProcessSince+2*v.RenewInterval:
		v.wake(v.server.ProcessSince + 2*v.RenewInterval)
		return new("has only just become the primary")
	}
	return nil
}

// targetOnProbation says that the SwitchoverTarget stood still as a primary, and that nobody has asked for it since this instance took the Lease:
// an old wish must not bring back, again and again, what hangs now and then. (6)
func (v *decider) targetOnProbation() bool {
	p, ok := v.peer(v.SwitchoverTarget, 1)
	return ok && p.RecentlyUnresponsive && !v.SwitchoverRequested && v.PreferenceChangedAt <= v.in.Tenure.AcquiredAt
}

// AfterStopOrder returns s after an order to stop at now. A planned stop that has to be made harder is remembered, see switchoverTimedOut. (8)
func (s Server) AfterStopOrder(now time.Duration, order Stop) Server {
	if s.StopMode == Fast && s.Planned && order.Mode > Fast {
		s.EscalatedAt = now
	}
	s.Process, s.StopMode, s.ProcessSince, s.Planned = Stopping, order.Mode, now, order.Planned
	s.Checkpointing, s.CheckpointedAt = false, 0
	return s
}

// switchoverTimedOut says that a stop was made harder since the SwitchoverTarget was asked for: the next would take as long.
func (v *decider) switchoverTimedOut() bool {
	return v.SwitchoverTarget != "" && v.server.EscalatedAt > 0 && v.server.EscalatedAt >= v.TargetChangedAt
}

// plannedStop stops what could go on. A primary first writes out its memory while clients are served, so that the stop is short. (6)
func (v *decider) plannedStop(reason string) *Decision {
	s := v.server
	switch {
	case !s.isPrimary():
		return do(Stop{Mode: Fast}, reason)
	case s.Checkpointing:
		return wait("takes a checkpoint before the stop: " + reason)
	case s.CheckpointedAt == 0 || v.in.Now-s.CheckpointedAt > v.RenewInterval:
		return do(Checkpoint{}, "takes a checkpoint before the stop: "+reason)
	}
	return do(Stop{Mode: Fast, Planned: true}, reason)
}

// Successors are the standbys of which one must have everything before a primary that stops in order ends: the target, or all that have
// caught up. None: it waits for all that follow it. (6)
func Successors(c Config, in Input) []string {
	if c.Hibernated || !in.Server.isPrimary() {
		return nil
	}
	caughtUp := slices.DeleteFunc(without(c.Instances, c.Self.Name), func(name string) bool {
		f := in.Standbys[name]
		return !f.Streaming || !f.CaughtUp
	})
	if slices.Contains(caughtUp, c.SwitchoverTarget) {
		return []string{c.SwitchoverTarget}
	}
	return caughtUp
}
