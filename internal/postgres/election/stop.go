package election

import (
	"slices"
	"time"
)

// Ordered returns s after an order to stop at now. A planned stop that has to be made harder is remembered: the switchover for
// which it was ordered is not tried again before somebody asks again. (8)
func (s Server) Ordered(now time.Duration, order Stop) Server {
	if s.Stop == Fast && s.Planned && order.Mode > Fast {
		s.Forced = now
	}
	s.Process, s.Stop, s.Since, s.Planned = Stopping, order.Mode, now, order.Planned
	s.Checkpointing, s.Checkpointed = false, 0
	return s
}

// cutOff says that a stop had to be made harder since the SwitchoverTarget was asked for: the next one would take as long, and
// its clients would pay for it again.
func (v *view) cutOff() bool {
	return v.SwitchoverTarget != "" && v.server.Forced > 0 && v.server.Forced >= v.TargetAt
}

// planned stops what could go on. A primary writes out its memory first, while clients are served, however long that takes: what
// the stop itself has left to write is little. (6)
func (v *view) planned(reason string) *Decision {
	s := v.server
	switch {
	case !s.primary():
		return do(Stop{Mode: Fast}, reason)
	case s.Checkpointing:
		return wait("takes a checkpoint before the stop: " + reason)
	case s.Checkpointed == 0 || v.in.Now-s.Checkpointed > v.Renew:
		return do(Checkpoint{}, "takes a checkpoint before the stop: "+reason)
	}
	return do(Stop{Mode: Fast, Planned: true}, reason)
}

// Successors are the standbys of which one must have everything before a primary that stops in order ends: the one that shall
// lead next, or all that have caught up. It does not wait for others. None: it waits for all that follow it, as where no standby has
// caught up, or nobody shall lead next. (6)
func Successors(c Config, in Input) []string {
	if c.Hibernated || !in.Server.primary() {
		return nil
	}
	caughtUp := slices.DeleteFunc(without(c.Instances, c.Self.Name), func(name string) bool {
		f := in.Followers[name]
		return !f.Streaming || !f.CaughtUp
	})
	if slices.Contains(caughtUp, c.SwitchoverTarget) {
		return []string{c.SwitchoverTarget}
	}
	return caughtUp
}
