package postgresql

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

// statusDelay returns how long the status is to wait. During a creation, progress is written once, and then not before creationTime has passed,
// when what is not Ready is in trouble: instances that start one after another would be a write each.
func (r *Reconciler) statusDelay(pg, before *databasev1alpha1.PostgreSQL) time.Duration {
	progress := onlyProgress(pg, before)
	wait := r.Throttle.Delay(pg, progress, onlyInstances(pg, before))
	if progress && neverReady(before) && before.Status.ObservedGeneration == pg.Generation {
		wait = max(wait, r.Throttle.Remaining(pg, creationTime))
	}
	return wait
}

// readyNote is the note of the event of a PostgreSQL that became Ready, without a problem. There is none if all instances are stopped.
func readyNote(pg *databasev1alpha1.PostgreSQL) string {
	if pg.Status.Phase != databasev1alpha1.PhaseRunning {
		return ""
	}
	return fmt.Sprintf("%s is primary, %d of %d instances are ready", pg.Status.Primary, pg.Status.ReadyInstances, replicas(pg))
}

func created(pg, before *databasev1alpha1.PostgreSQL) bool {
	return pg.Status.Phase == databasev1alpha1.PhaseRunning && neverReady(before)
}

// inProgress reports whether a reason tells of nothing but work that goes on.
func inProgress(reason string) bool {
	return slices.Contains(progress, reason) || reason == fettlev1.ReasonReconciling
}

// progress are the reasons that tell of nothing but work under way.
var progress = append([]string{databasev1alpha1.ReasonCreating, databasev1alpha1.ReasonCopying}, updating...)

// onlyProgress reports whether pg's status says no more than that something is under way: nothing that is wrong, and was not said
// before. Another primary is written at once. In
// a creation both come soon before Ready.
func onlyProgress(pg, before *databasev1alpha1.PostgreSQL) bool {
	is := meta.FindStatusCondition(pg.Status.Conditions, fettlev1.Ready)
	was := meta.FindStatusCondition(before.Status.Conditions, fettlev1.Ready)
	becameReady := pg.Status.Ready && (was == nil || was.Status != metav1.ConditionTrue)
	return is != nil && (is.Status == metav1.ConditionUnknown || inProgress(is.Reason)) && !becameReady && !newProblem(pg, before) &&
		(pg.Status.Primary == before.Status.Primary || neverReady(before) && before.Status.Primary == "")
}

// newProblem reports whether a condition tells of something wrong that it did not tell of before. Ready may be about another one.
func newProblem(pg, before *databasev1alpha1.PostgreSQL) bool {
	return slices.ContainsFunc(pg.Status.Conditions, func(is metav1.Condition) bool {
		was := meta.FindStatusCondition(before.Status.Conditions, is.Type)
		return is.Status == metav1.ConditionFalse && !slices.Contains(progress, is.Reason) &&
			(was == nil || was.Status != is.Status || was.Reason != is.Reason || was.Message != is.Message)
	})
}

// onlyInstances reports whether nothing but what is said of single instances has changed.
func onlyInstances(pg, before *databasev1alpha1.PostgreSQL) bool {
	was := before.Status
	was.InstanceStatuses, was.ReadyInstances = pg.Status.InstanceStatuses, pg.Status.ReadyInstances
	return equality.Semantic.DeepEqual(pg.Status, was)
}
