package postgresql

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/monitoring"
)

// statusDelay returns how long the status is to wait. During a creation, progress is written once, and then not before creationTime has passed,
// when what is not Ready is in trouble: instances that start one after another would be a write each.
func (r *Reconciler) statusDelay(pg, before *databasev1alpha1.PostgreSQL) time.Duration {
	progress := onlyProgress(pg, before)
	wait := r.throttle.Delay(pg, progress, onlyInstances(pg, before))
	if progress && neverReady(before) && before.Status.ObservedGeneration == pg.Generation {
		wait = max(wait, r.throttle.Remaining(pg, creationTime))
	}
	return wait
}

// emitEvents emits one event for a change of Ready that people should know of.
func (r *Reconciler) emitEvents(pg, before *databasev1alpha1.PostgreSQL) {
	was := meta.FindStatusCondition(before.Status.Conditions, fettlev1.Ready)
	is := meta.FindStatusCondition(pg.Status.Conditions, fettlev1.Ready)
	switch {
	case is == nil || (was != nil && was.Status == is.Status && was.Reason == is.Reason):
	case is.Status == metav1.ConditionTrue && pg.Status.Phase == databasev1alpha1.PhaseRunning:
		r.events.Eventf(pg, nil, corev1.EventTypeNormal, fettlev1.Ready, "Reconcile",
			"%s is primary, %d of %d instances are ready", pg.Status.Primary, pg.Status.ReadyInstances, replicas(pg))
		if neverReady(before) {
			r.metrics.Created(monitoring.KindPostgreSQL, client.ObjectKeyFromObject(pg), r.clock.Since(pg.CreationTimestamp.Time))
		}
	case !inProgress(is.Reason) && !slices.Contains(uneventful, is.Reason):
		r.events.Eventf(pg, nil, corev1.EventTypeWarning, is.Reason, "Reconcile", "%s", is.Message)
	}
}

// uneventful are the reasons of Ready that are no problem, or that a person has asked for.
var uneventful = []string{fettlev1.Ready, fettlev1.ReasonPaused, fettlev1.ReasonTerminating}

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
