package election

import (
	"slices"
	"time"
)

// otherRequested says that another instance than this one is requested as the primary.
func (v *decider) otherRequested() bool {
	return v.SwitchoverTarget != "" && v.SwitchoverTarget != v.Self.Name
}

// switchoverDue says that the lease can go to the requested instance now. (6)
func (v *decider) switchoverDue() bool { return v.otherRequested() && v.switchoverObstacle() == "" }

// switchoverObstacle returns why the lease cannot go to the requested instance now; "" if it can.
func (v *decider) switchoverObstacle() string {
	name := v.SwitchoverTarget
	p, ok := v.peer(name, v.freshSince())
	switch {
	case v.Paused:
		return "the cluster is paused"
	case !v.leaseWritable():
		return "the lease cannot be written"
	case v.switchoverTimedOut():
		return "the primary did not stop within " + v.StopTimeout.String() + "; request the switchover again to retry"
	case !slices.Contains(v.Instances, name):
		return name + " is not an instance"
	case !ok || !p.API:
		return name + " is unreachable, or cannot reach the API server"
	case !v.hasCopy(p) || p.Process != Up || p.Role != Standby:
		return name + " is not a running standby"
	}
	return v.targetObstacle(name)
}

// targetObstacle returns why a running standby cannot become the primary yet; "" if it can. A primary that is down does not wait for it
// to catch up.
func (v *decider) targetObstacle(name string) string {
	f := v.in.Standbys[name]
	switch {
	case v.targetOnProbation():
		return name + " was unresponsive as primary; it is eligible again after " + v.ProbationPeriod.String()
	case v.server.Process != Up:
		return ""
	case !f.Streaming || !f.CaughtUp:
		return name + " has not caught up"
	case v.in.Now < v.server.ProcessSince+2*v.RenewInterval:
		v.wake(v.server.ProcessSince + 2*v.RenewInterval)
		return v.Self.Name + " has just become the primary"
	}
	return ""
}

// targetOnProbation reports that the SwitchoverTarget was unresponsive as a primary, and was not requested since this instance
// took the lease. An old preference must not bring back, again and again, an instance that hangs now and then. (6)
func (v *decider) targetOnProbation() bool {
	p, ok := v.peer(v.SwitchoverTarget, 1)
	return ok && p.RecentlyUnresponsive && !v.SwitchoverRequested && v.PreferenceChangedAt <= v.in.Tenure.AcquiredAt
}

// AfterStopOrder returns s after an order to stop at now. It remembers a planned stop that had to be made harder, see
// switchoverTimedOut. (8)
func (s Server) AfterStopOrder(now time.Duration, order Stop) Server {
	if s.StopMode == Fast && s.Planned && order.Mode > Fast {
		s.EscalatedAt = now
	}
	s.Process, s.StopMode, s.ProcessSince, s.Planned = Stopping, order.Mode, now, order.Planned
	s.Checkpointing, s.CheckpointedAt = false, 0
	return s
}

// switchoverTimedOut reports that a stop was made harder since the SwitchoverTarget was set: the next stop would take as long.
func (v *decider) switchoverTimedOut() bool {
	return v.SwitchoverTarget != "" && v.server.EscalatedAt > 0 && v.server.EscalatedAt >= v.TargetChangedAt
}

// plannedStop stops a server that could go on. A primary first takes a checkpoint while clients are served, which makes the stop
// short. (6)
func (v *decider) plannedStop(why cause) *Decision {
	s := v.server
	switch {
	case !s.isPrimary():
		return do(Stop{Mode: Fast}, why.code, why.text)
	case s.Checkpointing:
		return wait(CodeCheckpointBeforeStop, "taking a checkpoint before the stop: "+why.text)
	case s.CheckpointedAt == 0 || v.in.Now-s.CheckpointedAt > v.RenewInterval:
		return do(Checkpoint{}, CodeCheckpointBeforeStop, "taking a checkpoint before the stop: "+why.text)
	}
	return do(Stop{Mode: Fast, Planned: true}, why.code, why.text)
}

// Successors are the standbys of which one must have all WAL before a primary shuts down cleanly: the target, or all that have
// caught up. If there are none, the primary waits for all its standbys. (6)
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
