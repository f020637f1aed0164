package appconfig

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/conditions"
)

// reasonLooksSecret is the reason of the event for keys that should perhaps come from a Secret.
const reasonLooksSecret = "LooksLikeSecret"

// statusDelay returns how long to delay the status write.
func (r *Reconciler) statusDelay(cfg, before *configv1.AppConfig) time.Duration {
	return r.Throttle.Delay(cfg, onlyProgress(cfg, before), onlyDependents(cfg, before))
}

func onlyProgress(cfg, before *configv1.AppConfig) bool {
	return slices.Contains(progress, conditions.ReadyOf(cfg).Reason) && cfg.Status.FailedHash == before.Status.FailedHash
}

// emitEvents emits one event for new warnings.
func (r *Reconciler) emitEvents(cfg, before *configv1.AppConfig) {
	if len(cfg.Status.Warnings) > 0 && len(before.Status.Warnings) == 0 {
		r.Events.Eventf(cfg, nil, corev1.EventTypeWarning, reasonLooksSecret, "Reconcile", "%s", conditions.Clip(describe(cfg.Status.Warnings), conditions.MaxMessage))
	}
}

// readyNote is the note of the event of an AppConfig that became Ready. A preview, which the user asked for, has none.
func readyNote(cfg *configv1.AppConfig) string {
	if conditions.ReadyOf(cfg).Reason != fettlev1.Ready {
		return ""
	}
	return fmt.Sprintf("revision %d is published as %s, and all dependents run it", cfg.Status.Revision, cfg.Status.ConfigMapName)
}

func created(cfg, before *configv1.AppConfig) bool {
	return before.Status.LastGoodRevision == 0 && conditions.ReadyOf(cfg).Reason == fettlev1.Ready
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
