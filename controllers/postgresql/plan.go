package postgresql

import (
	"fmt"
	"slices"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// Code names a step. It is part of the logs of the operator (step=ClearSwitchover), and does not change with the wording of messages.
type Code string

// Steps. A reconcile executes at most one of them, and the next one sees its result.
const (
	// NoStep: nothing to execute; the reconcile may wait for something.
	NoStep Code = ""
	// ReplacePod: delete a pod, which the StatefulSet re-creates from the present template.
	ReplacePod Code = "ReplacePod"
	// RestartServer: have an agent restart PostgreSQL in place, for parameters that need a restart.
	RestartServer Code = "RestartServer"
	// RequestSwitchover: set the annotation fettle.dev/switchover, which the agents follow.
	RequestSwitchover Code = "RequestSwitchover"
	// ClearSwitchover: remove the annotation fettle.dev/switchover, because the switchover is done or impossible.
	ClearSwitchover Code = "ClearSwitchover"
	// ClearAcceptDataLoss: remove the annotation fettle.dev/accept-data-loss, so that it counts only once.
	ClearAcceptDataLoss Code = "ClearAcceptDataLoss"
	// ClearReclone: remove the annotation fettle.dev/reclone, because the instances that it names are ready.
	ClearReclone Code = "ClearReclone"
)

// Step is what to do next, and why nothing more is done at once.
type Step struct {
	Code Code
	// target is the pod that is replaced, restarted or to become primary.
	target *instance
	// reason and message say what is in progress; empty when nothing is.
	reason, message string
}

func wait(reason, format string, args ...any) Step {
	return Step{reason: reason, message: fmt.Sprintf(format, args...)}
}

func replace(i *instance, why string) Step {
	return Step{ReplacePod, i, databasev1alpha1.ReasonUpdating, fmt.Sprintf("%s is being replaced: %s", i.name, why)}
}

func restart(i *instance) Step {
	return Step{RestartServer, i, databasev1alpha1.ReasonUpdating, i.name + " is being restarted: parameters need it"}
}

func switchover(to *instance, why string) Step {
	return Step{RequestSwitchover, to, databasev1alpha1.ReasonSwitchover, fmt.Sprintf("switching over to %s: %s", to.name, why)}
}

// next decides how many instances the StatefulSet should have now, and the one step to take. It never promotes: who is
// primary is decided by the agents, among those that are ready when the present one has stopped.
func next(pg *databasev1alpha1.PostgreSQL, c *cluster) (count int, s Step) {
	count, s = nextUnfiltered(pg, c)
	if s.Code == ReplacePod && c.templateNotObserved {
		return count, wait(databasev1alpha1.ReasonUpdating, "the update continues when Kubernetes has observed the new template of the StatefulSet")
	}
	return count, s
}

func nextUnfiltered(pg *databasev1alpha1.PostgreSQL, c *cluster) (count int, s Step) {
	count, s = scale(pg, c)
	if pg.Spec.Hibernated || c.switching {
		return count, s
	}
	if s.Code != NoStep || s.reason != "" {
		return count, replaceBrokenOutdated(c, s)
	}
	if s = replaceRevokedToken(c); s.Code != NoStep {
		return count, s
	}
	if s = requestedSwitchover(pg, c); s.Code != NoStep || s.reason != "" {
		return count, replaceBrokenOutdated(c, s)
	}
	if s = moveOffDrainingNode(c); s.Code != NoStep {
		return count, s
	}
	if s = roll(c); s.Code != NoStep || s.reason != "" {
		return count, s
	}
	return count, clearSwitchover(pg, c)
}

// scale decides the number of pods, one less at a time.
func scale(pg *databasev1alpha1.PostgreSQL, c *cluster) (int, Step) {
	want, size := replicas(pg), c.size()
	switch {
	case pg.Spec.Hibernated:
		return hibernate(c)
	case c.switching:
		return stopForVolumes(pg, c)
	case c.set == nil, want == size:
		return want, Step{}
	case size == 0:
		return want, Step{} // after hibernation all start at once: who was primary is known to the agents
	case size < want && size == 1 && c.primary() == nil:
		return 1, wait(databasev1alpha1.ReasonScaling, "the other instances are started when %s is primary", c.instances[0].name)
	case size < want:
		return want, Step{}
	}
	return shrink(c, want)
}

// hibernate takes the pods away when no server runs in them any more: the agents stop the primary first, while the others
// follow it, so that all have all that it wrote.
func hibernate(c *cluster) (int, Step) {
	if c.size() == 0 && len(c.running()) == 0 {
		return 0, Step{}
	}
	for _, in := range c.running() {
		if c.size() > 0 && in.mayRun() {
			return c.size(), wait(databasev1alpha1.ReasonScaling, "%s is being stopped; the primary stops first, so that the standbys receive all of its WAL", in.name)
		}
	}
	return 0, wait(databasev1alpha1.ReasonScaling, "all instances are being stopped")
}

// shrink takes the highest number away, which must not be the primary.
func shrink(c *cluster, want int) (int, Step) {
	size, primary := c.size(), c.primary()
	for _, in := range c.running() {
		if in.ordinal >= size {
			return size, wait(databasev1alpha1.ReasonScaling, "%s is being stopped", in.name)
		}
	}
	stays := slices.IndexFunc(c.instances[:min(want, len(c.instances))], func(i instance) bool { return !i.ready() && !i.fenced })
	switch {
	case primary == nil:
		return size, wait(databasev1alpha1.ReasonScaling, "instances are taken away when one of those that stay is primary")
	case primary.ordinal < size-1 && stays >= 0 && c.instances[size-1].ready():
		return size, waitFor(databasev1alpha1.ReasonScaling, &c.instances[stays], fmt.Sprintf(
			"%s is removed when %s is ready: a StatefulSet removes the highest number first", c.instances[size-1].name, c.instances[stays].name))
	case primary.ordinal < size-1:
		return size - 1, wait(databasev1alpha1.ReasonScaling, "instances are being removed, one at a time")
	}
	to := c.successor(want)
	if to == nil {
		return size, wait(databasev1alpha1.ReasonScaling, "%s is primary and cannot be removed before another instance is ready", primary.name)
	}
	return size, switchover(to, primary.name+" is to be removed")
}

// requestedSwitchover carries the annotation for a switchover, which people or an earlier step have set, to its end.
func requestedSwitchover(pg *databasev1alpha1.PostgreSQL, c *cluster) Step {
	name := pg.Annotations[databasev1alpha1.AnnotationSwitchover]
	if name == "" {
		return Step{}
	}
	primary := c.primary()
	if name == "any" && len(c.instances) > 1 {
		if to := c.successor(maxInstances); to != nil && primary != nil {
			return switchover(to, "the annotation requests any other primary")
		}
		return wait(databasev1alpha1.ReasonSwitchover, "the annotation %s waits for an instance that is ready to take over", databasev1alpha1.AnnotationSwitchover)
	}
	to := c.named(name)
	switch {
	case to == nil, to == primary, len(c.instances) < 2:
		return Step{} // over; see settle
	case to.name != name:
		return switchover(to, "the annotation requests it")
	case to.fenced:
		return wait(databasev1alpha1.ReasonSwitchover, "%s cannot become primary as the annotation %s requests, because the annotation %s stops it: remove one of the two",
			to.name, databasev1alpha1.AnnotationSwitchover, databasev1alpha1.AnnotationFenced)
	case primary != nil && primary.status != nil && primary.status.Election.SwitchoverTimedOut == to.name:
		return wait(databasev1alpha1.ReasonSwitchoverDeferred,
			"the stop of %s for the switchover to %s took longer than spec.terminationGracePeriodSeconds allows and was cut off; %s is primary again: raise the field, then remove the annotation %s and set it again",
			primary.name, to.name, primary.name, databasev1alpha1.AnnotationSwitchover)
	}
	return wait(databasev1alpha1.ReasonSwitchover, "switching over to %s, as the annotation %s requests", to.name, databasev1alpha1.AnnotationSwitchover)
}

// clearSwitchover removes the annotation for a switchover when all else is done. Until then it keeps the primary that the agents
// would give up again for the one that spec.preferredPrimary names.
func clearSwitchover(pg *databasev1alpha1.PostgreSQL, c *cluster) Step {
	name := pg.Annotations[databasev1alpha1.AnnotationSwitchover]
	if name == "" || (c.primary() == nil && c.named(name) != nil) {
		if s := clearAcceptDataLoss(pg, c); s.Code != NoStep {
			return s
		}
		return clearReclone(pg, c)
	}
	return Step{Code: ClearSwitchover}
}

// clearAcceptDataLoss removes the word that a loss is accepted when it has been obeyed, or can't be: it must not count another time. Until the last data that
// hold more are put aside it stays.
func clearAcceptDataLoss(pg *databasev1alpha1.PostgreSQL, c *cluster) Step {
	name, primary := pg.Annotations[databasev1alpha1.AnnotationAcceptDataLoss], c.primary()
	unknown := !slices.ContainsFunc(c.instances, func(i instance) bool { return i.name == name })
	unready := slices.ContainsFunc(c.instances, func(i instance) bool { return !i.ready() && !i.fenced })
	switch {
	case name == "", !unknown && (primary == nil || primary.name == name && unready):
		return Step{}
	case unknown:
		return Step{Code: ClearAcceptDataLoss, message: fmt.Sprintf("it names %q, which is no instance", conditions.Clip(name, maxInstanceMessage))}
	case primary.name != name:
		return Step{Code: ClearAcceptDataLoss, message: primary.name + " is the primary"}
	}
	return Step{Code: ClearAcceptDataLoss, message: "all instances are ready"}
}

// clearReclone removes the permission to replace data when those that it names serve: it must not be used another time.
func clearReclone(pg *databasev1alpha1.PostgreSQL, c *cluster) Step {
	if pg.Annotations[databasev1alpha1.AnnotationReclone] == "" {
		return Step{}
	}
	named := namedPods(pg, databasev1alpha1.AnnotationReclone)
	for i := range c.instances {
		if in := &c.instances[i]; named(in.name) && !in.ready() {
			return Step{}
		}
	}
	return Step{Code: ClearReclone}
}

// roll brings instances up to date: replicas first, the highest number first, one at a time and only while all others
// serve; then the primary hands over, and is the last.
func roll(c *cluster) Step {
	if s := waitForUnready(c); s.Code != NoStep || s.reason != "" {
		return s
	}
	primary := c.primary()
	if s := rollReplicas(c, primary); s.Code != NoStep || s.reason != "" {
		return s
	}
	if primary == nil || (!primary.outdated && !primary.needsRestart()) {
		return Step{}
	}
	if s := waitForUnreachable(c, primary); s.reason != "" {
		return s
	}
	return rollPrimary(c, primary)
}

// rollPrimary brings the primary up to date, when all others are.
func rollPrimary(c *cluster, primary *instance) Step {
	if to := c.successor(maxInstances); to != nil && !to.outdated && !primary.primaryRestartsFirst() {
		return switchover(to, primary.name+" must be updated")
	}
	if primary.outdated {
		return replace(primary, "the template has changed, and no standby can take over")
	}
	return restart(primary)
}

// waitForUnreachable waits while the server of another instance may be down, which its silent agent does not tell: it may have been restarted
// just before, or its node is lost, of which the kubelet tells late. Two must not be away at once.
func waitForUnreachable(c *cluster, in *instance) Step {
	for i := range c.instances {
		if other := &c.instances[i]; other != in && other.unreachable && !other.fenced {
			return waitFor(databasev1alpha1.ReasonUpdating, other, fmt.Sprintf(
				"the update continues when the agent of %s answers the operator: check its node, and network policies for TCP port %d", other.name, agentapi.Port))
		}
	}
	return Step{}
}

// rollReplicas brings the next instance up to date that is not the primary.
func rollReplicas(c *cluster, primary *instance) Step {
	for i := len(c.instances) - 1; i >= 0; i-- {
		in := &c.instances[i]
		if in == primary || in.fenced || in.pod == nil || (!in.outdated && !in.needsRestart()) {
			continue
		}
		if s := waitForUnreachable(c, in); s.reason != "" {
			return s
		}
		if in.outdated {
			return replace(in, "the template has changed")
		}
		return restart(in)
	}
	return Step{}
}

// waitForUnready waits for instances that don't serve, unless they can be cured.
func waitForUnready(c *cluster) Step {
	waiting, pending := firstUnready(c)
	if waiting == nil || !pending {
		return Step{} // status tells of those that don't serve; nothing is to be done about them here
	}
	return replaceBrokenOutdated(c, waitFor(databasev1alpha1.ReasonUpdating, waiting, fmt.Sprintf("the update continues when %s is ready", waiting.name)))
}

// waitFor says what waits for an instance, and how to go on without that instance if it is broken for good. One that copies data
// would start again from zero if it were fenced.
func waitFor(reason string, in *instance, what string) Step {
	if in.copiesData() {
		return wait(reason, "%s; %s", what, in.name+" is copying its data")
	}
	return wait(reason, "%s. If %s can't recover, repair it (see status.instanceStatuses), or continue without it: add it to the annotation %s",
		what, in.name, databasev1alpha1.AnnotationFenced)
}

// replaceBrokenOutdated replaces an instance of an old template that is not ready: it may never start, and the present template may be the
// cure. Nothing may wait for it instead. It does s where there is none, and where s does something.
func replaceBrokenOutdated(c *cluster, s Step) Step {
	if s.Code != NoStep {
		return s
	}
	var broken *instance
	for i := range min(c.size(), len(c.instances)) {
		switch in := &c.instances[i]; {
		case in.fenced:
		case in.ready() && in.unreachable:
			return s // its server may be down
		case in.ready():
		case !in.outdated, in.pod == nil, in.terminating(), in.copiesData():
			return s // it is under way
		case broken == nil:
			broken = in
		}
	}
	if broken == nil {
		return s
	}
	return replace(broken, "it is not ready, and the template has changed")
}

// firstUnready is an instance that does not serve, one of the present template if there is such a one, nil when all do; and
// whether anything is to be brought up to date.
func firstUnready(c *cluster) (waiting *instance, pending bool) {
	for i := range c.instances {
		in := &c.instances[i]
		pending = pending || in.outdated || in.needsRestart()
		if !in.ready() && !in.fenced && (waiting == nil || waiting.outdated) {
			waiting = in
		}
	}
	return waiting, pending
}
