package election

import (
	"slices"
	"time"
)

// switchover returns nil if the Lease shall go to the SwitchoverTarget now, else why not; "" if nobody asked. (6)
func (v *view) switchover() *string {
	name := v.SwitchoverTarget
	if name == "" || name == v.Self.Name {
		return new("")
	}
	p, ok := v.peer(name, v.recent())
	switch {
	case v.Paused:
		return new("paused")
	case !v.writable():
		return new("the Lease can't be written now")
	case v.cutOff():
		return new("the stop for it took longer than " + v.Stop.String() + " and was cut off; ask for it again to try again")
	case !slices.Contains(v.Instances, name):
		return new(name + " is no instance")
	case !ok || !p.API:
		return new(name + " does not answer, or does not reach the API server")
	case !v.copyOf(p) || p.Process != Up || p.Role != Standby:
		return new(name + " is no standby that runs")
	}
	return v.tooSoon(name)
}

// tooSoon returns why name does not lead yet; nil if it does. Only a primary that is down does not wait for one to catch up.
func (v *view) tooSoon(name string) *string {
	f := v.in.Followers[name]
	switch {
	case v.distrusted():
		return new(name + " stood still, and nobody asked for it since: waits until it has run for " + v.Trust.String())
	case v.server.Process != Up:
		return nil
	case !f.Streaming || !f.CaughtUp:
		return new(name + " has not caught up")
	case v.in.Now < v.server.Since+2*v.Renew:
		v.wake(v.server.Since + 2*v.Renew)
		return new("has only just become the primary")
	}
	return nil
}

// distrusted says that the SwitchoverTarget stood still as a primary, and that nobody has asked for it since this instance took the Lease:
// an old wish must not bring back, again and again, what hangs now and then. (6)
func (v *view) distrusted() bool {
	p, ok := v.peer(v.SwitchoverTarget, 1)
	return ok && p.Suspect && !v.SwitchoverAsked && v.WishedAt <= v.in.Holding.From
}

// Ordered returns s after an order to stop at now. A planned stop that has to be made harder is remembered, see cutOff. (8)
func (s Server) Ordered(now time.Duration, order Stop) Server {
	if s.Stop == Fast && s.Planned && order.Mode > Fast {
		s.Forced = now
	}
	s.Process, s.Stop, s.Since, s.Planned = Stopping, order.Mode, now, order.Planned
	s.Checkpointing, s.Checkpointed = false, 0
	return s
}

// cutOff says that a stop was made harder since the SwitchoverTarget was asked for: the next would take as long.
func (v *view) cutOff() bool {
	return v.SwitchoverTarget != "" && v.server.Forced > 0 && v.server.Forced >= v.TargetAt
}

// planned stops what could go on. A primary first writes out its memory while clients are served, so that the stop is short. (6)
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

// Successors are the standbys of which one must have everything before a primary that stops in order ends: the target, or all that have
// caught up. None: it waits for all that follow it. (6)
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
