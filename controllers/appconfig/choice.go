package appconfig

import (
	"fmt"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/conditions"
)

// choice is the revision to publish, and the reason.
type choice struct {
	// revision is nil if nothing is published and nothing can be.
	revision *revision
	// fresh is true if the revision is what the spec renders to.
	fresh bool
	// published is the condition, unless publishing fails.
	published conditions.State
	// rolledBack is true if the last good revision replaces one whose rollout failed.
	rolledBack bool
}

// choose decides what to publish: the rendered contents, the revision of a rollback, or what is already published.
func choose(cfg *configv1.AppConfig, out rendered, found existing) choice {
	live := found.live(cfg.Spec.Target.Mode)
	switch {
	case cfg.Spec.Preview:
		return previewed(out, live)
	case cfg.Spec.Rollback != nil:
		return requestedRollback(cfg, out, found, live)
	case out.problem != nil:
		return choice{revision: liveOrCopy(found, live), published: conditions.Unknown(out.problem.Reason, stillPublished(live))}
	}
	if good := rollbackTarget(cfg, out, found); good != nil {
		return choice{revision: good, rolledBack: true, published: conditions.True(configv1.ReasonRolledBack, fmt.Sprintf(
			"revision %d is published again until the rendered contents change", good.number))}
	}
	next := found.next(out)
	next.number = nextNumber(cfg, next)
	next.name = copyName(cfg, next.hash)
	return choice{revision: &next, fresh: true, published: conditions.True(configv1.ReasonPublished, fmt.Sprintf("revision %d", next.number))}
}

// nextNumber is the number of the next revision. status records the used numbers, in case the published objects were deleted or are
// not in the cache yet.
func nextNumber(cfg *configv1.AppConfig, next revision) int64 {
	taken := cfg.Status.Revision
	switch {
	case next.number > taken:
		return next.number
	case cfg.Status.Hash == next.hash:
		return taken
	default:
		return taken + 1
	}
}

func stillPublished(live *revision) string {
	if live == nil {
		return "nothing is published yet"
	}
	return fmt.Sprintf("revision %d stays published", live.number)
}

// liveOrCopy is the published revision: its copy if there is one, so that drift is repaired.
func liveOrCopy(found existing, live *revision) *revision {
	if live == nil {
		return nil
	}
	if kept := found.copyOf(live); kept != nil {
		return kept
	}
	return live
}

func previewed(out rendered, live *revision) choice {
	switch {
	case out.problem != nil:
		return choice{revision: live, published: conditions.Unknown(out.problem.Reason, stillPublished(live))}
	case live != nil && live.hash == out.hash:
		return choice{revision: live, published: conditions.True(configv1.ReasonPublished, "publishing would change nothing")}
	}
	return choice{revision: live, published: conditions.True(configv1.ReasonPreview, "spec.preview is true: "+stillPublished(live)+"; status.preview lists the changes")}
}

// requestedRollback is the choice of spec.rollback.
func requestedRollback(cfg *configv1.AppConfig, out rendered, found existing, live *revision) choice {
	var to *revision
	number := cfg.Spec.Rollback.ToRevision
	if number != 0 {
		to = found.find(number)
	} else {
		to = found.lastGood(cfg.Status.LastGoodRevision, out.hash)
	}
	switch {
	case to != nil:
		return choice{revision: to, published: conditions.True(configv1.ReasonRolledBack, fmt.Sprintf(
			"revision %d is published, as spec.rollback asks; remove it to publish what is rendered", to.number))}
	case number != 0:
		return choice{revision: liveOrCopy(found, live), published: conditions.False(configv1.ReasonRevisionMissing, fmt.Sprintf(
			"spec.rollback.toRevision: revision %d is not kept: %s; choose one of %v, or remove spec.rollback", number, stillPublished(live), numbers(found)))}
	default:
		return choice{revision: liveOrCopy(found, live), published: conditions.False(configv1.ReasonRevisionMissing,
			"spec.rollback: there is no earlier revision: "+stillPublished(live)+"; remove spec.rollback")}
	}
}

func numbers(found existing) []int64 {
	out := make([]int64, 0, len(found.kept))
	for _, r := range found.kept {
		out = append(out, r.number)
	}
	return out
}

// rollbackTarget returns the last good revision if it is to replace out, whose rollout failed before. status remembers that until
// the rendered contents change.
func rollbackTarget(cfg *configv1.AppConfig, out rendered, found existing) *revision {
	if !cfg.Spec.Rollout.AutoRollback || cfg.Status.FailedHash == "" || cfg.Status.FailedHash != out.hash {
		return nil
	}
	return found.lastGood(cfg.Status.LastGoodRevision, out.hash)
}

// waitingForValues is a rendering that waits for s to exist.
func waitingForValues(cfg *configv1.AppConfig, s source) rendered {
	return rendered{problem: new(conditions.False(configv1.ReasonValuesMissing, fmt.Sprintf(
		"spec.valuesFrom: %s %q does not exist in namespace %q: create it, or mark the reference optional", s.kind, s.name, cfg.Namespace)))}
}

// nameTaken reports that another AppConfig publishes under the same name.
func nameTaken(name string, holder *configv1.AppConfig) conditions.State {
	return conditions.False(fettlev1.ReasonNameConflict, fmt.Sprintf(
		"AppConfig %q publishes %q already: set another spec.target.name, or remove one of the two", holder.Name, name))
}

// nameOccupied reports that an object without an AppConfig has the name of the target.
func nameOccupied(kind, name string) conditions.State {
	return conditions.False(fettlev1.ReasonNameConflict, fmt.Sprintf(
		"%s %q exists and is not controlled by this AppConfig: set another spec.target.name, or remove the %s", kind, name, kind))
}
