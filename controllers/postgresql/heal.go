package postgresql

import (
	"fmt"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

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
