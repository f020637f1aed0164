package webapp

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/monitoring"
)

// statusDelay returns how long to delay the status write.
func (r *Reconciler) statusDelay(app, before *appsv1.WebApp) time.Duration {
	return r.statusThrottle.Delay(app, onlyProgress(app, before), onlyCounters(app, before))
}

// emitEvents emits one event for a change of Ready that a person should see.
func (r *Reconciler) emitEvents(app, before *appsv1.WebApp) {
	was := meta.FindStatusCondition(before.Status.Conditions, fettlev1.Ready)
	is := meta.FindStatusCondition(app.Status.Conditions, fettlev1.Ready)
	switch {
	case is == nil || (was != nil && was.Status == is.Status && was.Reason == is.Reason), is.Reason == fettlev1.ReasonPaused:
	case is.Status == metav1.ConditionTrue:
		r.emitReadyEvent(app, before)
	case is.Status == metav1.ConditionFalse && !inProgress(is.Reason) && is.Reason != fettlev1.ReasonTerminating:
		r.events.Eventf(app, nil, corev1.EventTypeWarning, is.Reason, "Reconcile", "%s", is.Message)
	}
}

func (r *Reconciler) emitReadyEvent(app, before *appsv1.WebApp) {
	if app.Status.Replicas == 0 {
		return // nothing runs, as the spec asks: no event
	}
	r.events.Eventf(app, nil, corev1.EventTypeNormal, fettlev1.Ready, "Reconcile",
		"%s runs with %d pods", app.Status.Image, app.Status.AvailableReplicas)
	if before.Status.LastGoodImage == "" && app.Status.LastGoodImage != "" {
		r.metrics.Created(monitoring.KindWebApp, client.ObjectKeyFromObject(app), r.clock.Since(app.CreationTimestamp.Time))
	}
}

// onlyProgress reports whether app's status reports only a rollout, a certificate or a route in progress.
func onlyProgress(app, before *appsv1.WebApp) bool {
	is := meta.FindStatusCondition(app.Status.Conditions, fettlev1.Ready)
	return is != nil && inProgress(is.Reason) && app.Status.FailedRevision == before.Status.FailedRevision
}

// onlyCounters reports whether only numbers of pods changed.
func onlyCounters(app, before *appsv1.WebApp) bool {
	a := app.Status.DeepCopy()
	a.Replicas, a.UpdatedReplicas, a.ReadyReplicas, a.AvailableReplicas = before.Status.Replicas,
		before.Status.UpdatedReplicas, before.Status.ReadyReplicas, before.Status.AvailableReplicas
	return equality.Semantic.DeepEqual(*a, before.Status)
}
