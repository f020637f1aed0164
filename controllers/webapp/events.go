package webapp

import (
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/conditions"
)

// progress are the reasons of Ready that only mean that something is in progress.
var progress = []string{appsv1.ReasonRollingOut, appsv1.ReasonCertificatePending, appsv1.ReasonRoutePending}

func inProgress(reason string) bool { return slices.Contains(progress, reason) }

// statusDelay returns how long to delay the status write.
func (r *Reconciler) statusDelay(app, before *appsv1.WebApp) time.Duration {
	return r.Throttle.Delay(app, onlyProgress(app, before), onlyCounters(app, before))
}

func onlyProgress(app, before *appsv1.WebApp) bool {
	return inProgress(conditions.ReadyOf(app).Reason) && app.Status.FailedRevision == before.Status.FailedRevision
}

// readyNote is the note of the event of a WebApp that became Ready. There is none if nothing runs, as the spec asks.
func readyNote(app *appsv1.WebApp) string {
	if app.Status.Replicas == 0 {
		return ""
	}
	return fmt.Sprintf("%s runs with %d pods", app.Status.Image, app.Status.AvailableReplicas)
}

func created(app, before *appsv1.WebApp) bool {
	return before.Status.LastGoodImage == "" && app.Status.LastGoodImage != ""
}

// onlyCounters reports whether only numbers of pods changed.
func onlyCounters(app, before *appsv1.WebApp) bool {
	a := app.Status.DeepCopy()
	a.Replicas, a.UpdatedReplicas, a.ReadyReplicas, a.AvailableReplicas = before.Status.Replicas,
		before.Status.UpdatedReplicas, before.Status.ReadyReplicas, before.Status.AvailableReplicas
	return equality.Semantic.DeepEqual(*a, before.Status)
}
