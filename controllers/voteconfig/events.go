package voteconfig

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	votingv1alpha1 "github.com/fettle-dev/fettle/api/voting/v1alpha1"
	"github.com/fettle-dev/fettle/internal/monitoring"
	"github.com/fettle-dev/fettle/internal/rollout"
)

// statusDelay returns how long to delay the status write.
func (r *Reconciler) statusDelay(vc, _ *votingv1alpha1.VoteConfig) time.Duration {
	ready := meta.FindStatusCondition(vc.Status.Conditions, fettlev1.Ready)
	return r.statusThrottle.Delay(vc, ready != nil && inProgress(ready), false)
}

// count counts the restarts of a reconcile, and emits an event for the first of them.
func (r *Reconciler) count(vc *votingv1alpha1.VoteConfig, report rollout.Report) {
	for range report.Restarted {
		r.metrics.ConfigChanged(monitoring.KindVoteConfig, client.ObjectKeyFromObject(vc))
	}
	if report.Event != "" {
		r.events.Eventf(vc, nil, corev1.EventTypeNormal, rollout.EventRestarted, "Restart", "%s", report.Event)
	}
}

// emitEvents emits one event for a change of Ready that a person should see, and counts a creation.
func (r *Reconciler) emitEvents(vc, before *votingv1alpha1.VoteConfig) {
	was := meta.FindStatusCondition(before.Status.Conditions, fettlev1.Ready)
	is := meta.FindStatusCondition(vc.Status.Conditions, fettlev1.Ready)
	if is == nil || (was != nil && was.Status == is.Status && was.Reason == is.Reason) {
		return
	}
	if eventType, note := eventOf(vc, is); note != "" {
		r.events.Eventf(vc, nil, eventType, is.Reason, "Reconcile", "%s", note)
	}
	if before.Status.Hash == "" && is.Status == metav1.ConditionTrue {
		r.metrics.Created(monitoring.KindVoteConfig, client.ObjectKeyFromObject(vc), r.clock.Since(vc.CreationTimestamp.Time))
	}
}

// eventOf returns the type and text of an event about Ready; no text for no event.
func eventOf(vc *votingv1alpha1.VoteConfig, ready *metav1.Condition) (eventType, note string) {
	switch {
	case ready.Reason == fettlev1.ReasonPaused, ready.Reason == fettlev1.ReasonTerminating:
		return "", "" // as the user asked
	case ready.Reason == votingv1alpha1.ReasonOptionsNotShown:
		return corev1.EventTypeWarning, ready.Message
	case ready.Status == metav1.ConditionTrue:
		return corev1.EventTypeNormal, fmt.Sprintf("ConfigMap %q holds the options %s", vc.Status.ConfigMapName, vc.Status.OptionsSummary)
	case ready.Status == metav1.ConditionFalse && !inProgress(ready):
		return corev1.EventTypeWarning, ready.Message
	default:
		return "", ""
	}
}
