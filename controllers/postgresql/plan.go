package postgresql

import (
	"fmt"
	"slices"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

// verb is what a step does.
type verb string

// Steps. A pass takes at most one of them, and the next pass sees what came of it.
const (
	// stepNone has nothing to do but to wait.
	stepNone verb = ""
	// stepReplace deletes a pod, which the StatefulSet makes anew from the present template.
	stepReplace verb = "Replace"
	// stepRestart has an agent restart its server in place, for parameters that need it.
	stepRestart verb = "Restart"
	// stepSwitchover asks the agents, by annotation, for another primary.
	stepSwitchover verb = "Switchover"
	// stepSettled removes that annotation.
	stepSettled verb = "Settled"
	// stepAccepted removes the annotation that accepts a loss.
	stepAccepted verb = "Accepted"
	// stepRecloned removes the annotation that lets data be replaced.
	stepRecloned verb = "Recloned"
)

// step is what to do next, and why nothing more is done at once.
type step struct {
	verb verb
	// target is the pod that is replaced, restarted or to become primary.
	target *instance
	// reason and message say what is under way; empty when nothing is.
	reason, message string
}

func wait(reason, format string, args ...any) step {
	return step{reason: reason, message: fmt.Sprintf(format, args...)}
}

func replace(i *instance, why string) step {
	return step{stepReplace, i, databasev1alpha1.ReasonUpdating, fmt.Sprintf("%s is being replaced: %s", i.name, why)}
}

func restart(i *instance) step {
	return step{stepRestart, i, databasev1alpha1.ReasonUpdating, i.name + " is being restarted: parameters need it"}
}

func switchover(to *instance, why string) step {
	return step{stepSwitchover, to, databasev1alpha1.ReasonSwitchover, fmt.Sprintf("%s is to become primary: %s", to.name, why)}
}

// next decides how many instances the StatefulSet should have now, and the one step to take. It never promotes: who is
// primary is decided by the agents, among those that are ready when the present one has stopped.
func next(pg *databasev1alpha1.PostgreSQL, c *cluster) (count int, s step) {
	count, s = soonest(pg, c)
	if s.verb == stepReplace && c.unseen {
		return count, wait(databasev1alpha1.ReasonUpdating, "the update goes on when Kubernetes has seen the new template of the StatefulSet")
	}
	return count, s
}

func soonest(pg *databasev1alpha1.PostgreSQL, c *cluster) (count int, s step) {
	count, s = scale(pg, c)
	if pg.Spec.Hibernated {
		return count, s
	}
	if s.verb != stepNone || s.reason != "" {
		return count, orCure(c, s)
	}
	if s = renew(c); s.verb != stepNone {
		return count, s
	}
	if s = asked(pg, c); s.verb != stepNone || s.reason != "" {
		return count, orCure(c, s)
	}
	if s = leave(c); s.verb != stepNone {
		return count, s
	}
	if s = roll(c); s.verb != stepNone || s.reason != "" {
		return count, s
	}
	return count, settle(pg, c)
}

// scale decides the number of pods, one less at a time.
func scale(pg *databasev1alpha1.PostgreSQL, c *cluster) (int, step) {
	want, size := replicas(pg), c.size()
	switch {
	case pg.Spec.Hibernated:
		return hibernate(c)
	case c.set == nil, want == size:
		return want, step{}
	case size == 0:
		return want, step{} // after hibernation all start at once: who was primary is known to the agents
	case size < want && size == 1 && c.primary() == nil:
		return 1, wait(databasev1alpha1.ReasonScaling, "the other instances are started when %s takes writes", c.instances[0].name)
	case size < want:
		return want, step{}
	}
	return shrink(c, want)
}

// hibernate takes the pods away when no server runs in them any more: the agents stop the primary first, while the others
// follow it, so that all have all that it wrote.
func hibernate(c *cluster) (int, step) {
	if c.size() == 0 && len(c.running()) == 0 {
		return 0, step{}
	}
	for _, in := range c.running() {
		if c.size() > 0 && in.serves() {
			return c.size(), wait(databasev1alpha1.ReasonScaling, "%s is being stopped; the primary is the first, so that all instances have all that it wrote", in.name)
		}
	}
	return 0, wait(databasev1alpha1.ReasonScaling, "all instances are being stopped")
}

// shrink takes the highest number away, which must not be the primary.
func shrink(c *cluster, want int) (int, step) {
	size, primary := c.size(), c.primary()
	for _, in := range c.running() {
		if in.ordinal >= size {
			return size, wait(databasev1alpha1.ReasonScaling, "%s is being stopped", in.name)
		}
	}
	stays := slices.IndexFunc(c.instances[:min(want, len(c.instances))], func(i instance) bool { return !i.ready() && !i.fenced })
	switch {
	case primary == nil:
		return size, wait(databasev1alpha1.ReasonScaling, "instances are taken away when one of those that stay takes writes")
	case primary.ordinal < size-1 && stays >= 0 && c.instances[size-1].ready():
		return size, waitsFor(databasev1alpha1.ReasonScaling, &c.instances[stays], fmt.Sprintf(
			"%s is removed when %s is ready: a StatefulSet removes the highest number first", c.instances[size-1].name, c.instances[stays].name))
	case primary.ordinal < size-1:
		return size - 1, wait(databasev1alpha1.ReasonScaling, "instances are being taken away, one at a time")
	}
	to := c.successor(want)
	if to == nil {
		return size, wait(databasev1alpha1.ReasonScaling, "%s is the primary and can't be taken away before one of the others is ready", primary.name)
	}
	return size, switchover(to, primary.name+" is to be taken away")
}

// asked carries the annotation for a switchover, which people or an earlier step have set, to its end.
func asked(pg *databasev1alpha1.PostgreSQL, c *cluster) step {
	name := pg.Annotations[databasev1alpha1.AnnotationSwitchover]
	if name == "" {
		return step{}
	}
	primary := c.primary()
	if name == "any" && len(c.instances) > 1 {
		if to := c.successor(maxInstances); to != nil && primary != nil {
			return switchover(to, "the annotation asks for any other primary")
		}
		return wait(databasev1alpha1.ReasonSwitchover, "the annotation %s waits for an instance that is ready to take over", databasev1alpha1.AnnotationSwitchover)
	}
	to := c.named(name)
	switch {
	case to == nil, to == primary, len(c.instances) < 2:
		return step{} // over; see settle
	case to.name != name:
		return switchover(to, "the annotation asks for it")
	case to.fenced:
		return wait(databasev1alpha1.ReasonSwitchover, "%s can't become primary, as the annotation %s asks, while the annotation %s stops it: remove one of the two",
			to.name, databasev1alpha1.AnnotationSwitchover, databasev1alpha1.AnnotationFenced)
	case primary != nil && primary.status != nil && primary.status.Election.CutOff == to.name:
		return wait(databasev1alpha1.ReasonSwitchoverDeferred,
			"the stop of %s for the switchover to %s took longer than spec.terminationGracePeriodSeconds allows and was cut off; %s is primary again: raise the field, then remove the annotation %s and set it again",
			primary.name, to.name, primary.name, databasev1alpha1.AnnotationSwitchover)
	}
	return wait(databasev1alpha1.ReasonSwitchover, "%s is to become primary, as the annotation %s asks", to.name, databasev1alpha1.AnnotationSwitchover)
}

// settle removes the annotation for a switchover when all else is done. Until then it keeps the primary that the agents
// would give up again for the one that spec.preferredPrimary names.
func settle(pg *databasev1alpha1.PostgreSQL, c *cluster) step {
	name := pg.Annotations[databasev1alpha1.AnnotationSwitchover]
	if name == "" || (c.primary() == nil && c.named(name) != nil) {
		if s := accepted(pg, c); s.verb != stepNone {
			return s
		}
		return recloned(pg, c)
	}
	return step{verb: stepSettled}
}

// accepted removes the word that a loss is accepted when it has been obeyed, or can't be: it must not count another time. Until the last data that
// hold more are put aside it stays.
func accepted(pg *databasev1alpha1.PostgreSQL, c *cluster) step {
	name, primary := pg.Annotations[databasev1alpha1.AnnotationAcceptDataLoss], c.primary()
	unknown := !slices.ContainsFunc(c.instances, func(i instance) bool { return i.name == name })
	unready := slices.ContainsFunc(c.instances, func(i instance) bool { return !i.ready() && !i.fenced })
	switch {
	case name == "", !unknown && (primary == nil || primary.name == name && unready):
		return step{}
	case unknown:
		return step{verb: stepAccepted, message: fmt.Sprintf("it names %q, which is no instance", clip(name, maxInstanceMessage))}
	case primary.name != name:
		return step{verb: stepAccepted, message: primary.name + " is the primary"}
	}
	return step{verb: stepAccepted, message: "all instances are ready"}
}

// recloned removes the permission to replace data when those that it names serve: it must not be used another time.
func recloned(pg *databasev1alpha1.PostgreSQL, c *cluster) step {
	if pg.Annotations[databasev1alpha1.AnnotationReclone] == "" {
		return step{}
	}
	named := namedPods(pg, databasev1alpha1.AnnotationReclone)
	for i := range c.instances {
		if in := &c.instances[i]; named(in.name) && !in.ready() {
			return step{}
		}
	}
	return step{verb: stepRecloned}
}

// roll brings instances up to date: replicas first, the highest number first, one at a time and only while all others
// serve; then the primary hands over, and is the last.
func roll(c *cluster) step {
	if s := heal(c); s.verb != stepNone || s.reason != "" {
		return s
	}
	primary := c.primary()
	if s := rollReplicas(c, primary); s.verb != stepNone || s.reason != "" {
		return s
	}
	if primary == nil || (!primary.outdated && !primary.needsRestart()) {
		return step{}
	}
	if s := alone(c, primary); s.reason != "" {
		return s
	}
	return rollPrimary(c, primary)
}

// rollPrimary brings the primary up to date, when all others are.
func rollPrimary(c *cluster, primary *instance) step {
	if to := c.successor(maxInstances); to != nil && !to.outdated && !primary.leadsByExample() {
		return switchover(to, primary.name+" has to be brought up to date")
	}
	if primary.outdated {
		return replace(primary, "the template has changed, and there is nobody to hand over to")
	}
	return restart(primary)
}

// alone waits while the server of another instance may be down, which its silent agent does not tell: it may have been restarted
// just before, or its node is lost, of which the kubelet tells late. Two must not be away at once.
func alone(c *cluster, in *instance) step {
	for i := range c.instances {
		if other := &c.instances[i]; other != in && other.silent && !other.fenced {
			return waitsFor(databasev1alpha1.ReasonUpdating, other, fmt.Sprintf(
				"the update continues when the agent of %s answers the operator: check its node, and network policies for TCP port %d", other.name, agentapi.Port))
		}
	}
	return step{}
}

// rollReplicas brings the next instance up to date that is not the primary.
func rollReplicas(c *cluster, primary *instance) step {
	for i := len(c.instances) - 1; i >= 0; i-- {
		in := &c.instances[i]
		if in == primary || in.fenced || in.pod == nil || (!in.outdated && !in.needsRestart()) {
			continue
		}
		if s := alone(c, in); s.reason != "" {
			return s
		}
		if in.outdated {
			return replace(in, "the template has changed")
		}
		return restart(in)
	}
	return step{}
}
