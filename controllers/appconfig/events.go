package appconfig

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/monitoring"
)

// reasonLooksSecret is the reason of the event for keys that should perhaps come from a Secret.
const reasonLooksSecret = "LooksLikeSecret"

// statusDelay returns how long to delay the status write.
func (r *Reconciler) statusDelay(cfg, before *configv1.AppConfig) time.Duration {
	return r.statusThrottle.Delay(cfg, onlyProgress(cfg, before), onlyDependents(cfg, before))
}

// emitEvents emits one event for a change of Ready that a person should see, and one for new warnings.
func (r *Reconciler) emitEvents(cfg, before *configv1.AppConfig) {
	if len(cfg.Status.Warnings) > 0 && len(before.Status.Warnings) == 0 {
		r.events.Eventf(cfg, nil, corev1.EventTypeWarning, reasonLooksSecret, "Reconcile", "%s", clip(describe(cfg.Status.Warnings), maxMessage))
	}
	was := meta.FindStatusCondition(before.Status.Conditions, fettlev1.Ready)
	is := meta.FindStatusCondition(cfg.Status.Conditions, fettlev1.Ready)
	switch {
	case is == nil || (was != nil && was.Status == is.Status && was.Reason == is.Reason), silentReason(is.Reason):
	case is.Status == metav1.ConditionTrue:
		r.emitReadyEvent(cfg, before)
	case is.Status == metav1.ConditionFalse && !slices.Contains(progress, is.Reason):
		r.events.Eventf(cfg, nil, corev1.EventTypeWarning, is.Reason, "Reconcile", "%s", is.Message)
	}
}

func (r *Reconciler) emitReadyEvent(cfg, before *configv1.AppConfig) {
	r.events.Eventf(cfg, nil, corev1.EventTypeNormal, fettlev1.Ready, "Reconcile",
		"revision %d is published as %s, and all dependents run it", cfg.Status.Revision, cfg.Status.ConfigMapName)
	if before.Status.LastGoodRevision == 0 {
		r.metrics.Created(monitoring.KindAppConfig, client.ObjectKeyFromObject(cfg), r.clock.Since(cfg.CreationTimestamp.Time))
	}
}

// silentReason reports whether the user asked for this state, so that it needs no event.
func silentReason(reason string) bool {
	return slices.Contains([]string{fettlev1.ReasonPaused, fettlev1.ReasonTerminating, configv1.ReasonPreview}, reason)
}

// onlyProgress reports whether cfg's status reports only a rollout in progress.
func onlyProgress(cfg, before *configv1.AppConfig) bool {
	is := meta.FindStatusCondition(cfg.Status.Conditions, fettlev1.Ready)
	return is != nil && slices.Contains(progress, is.Reason) && cfg.Status.FailedHash == before.Status.FailedHash
}

// onlyDependents reports whether only the states of dependents changed.
func onlyDependents(cfg, before *configv1.AppConfig) bool {
	a := cfg.Status.DeepCopy()
	a.Dependents, a.LastRolloutTime = before.Status.Dependents, before.Status.LastRolloutTime
	if c := meta.FindStatusCondition(before.Status.Conditions, configv1.AppConfigRolledOut); c != nil {
		for i := range a.Conditions {
			if s := &a.Conditions[i]; s.Type == fettlev1.Stalled || (s.Type == configv1.AppConfigRolledOut || s.Type == fettlev1.Ready) && s.Status == metav1.ConditionFalse {
				s.Message = messageOf(before.Status.Conditions, s.Type)
			}
		}
	}
	return equality.Semantic.DeepEqual(*a, before.Status)
}

func messageOf(conds []metav1.Condition, conditionType string) string {
	if c := meta.FindStatusCondition(conds, conditionType); c != nil {
		return c.Message
	}
	return ""
}
