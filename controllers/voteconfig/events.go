package voteconfig

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	votingv1alpha1 "github.com/fettle-dev/fettle/api/voting/v1alpha1"
	"github.com/fettle-dev/fettle/internal/monitoring"
	"github.com/fettle-dev/fettle/internal/rollout"
)

// count counts the restarts of a reconcile, and emits an event for the first of them.
func (r *Reconciler) count(vc *votingv1alpha1.VoteConfig, report rollout.Report) {
	for range report.Restarted {
		r.Metrics.ConfigChanged(monitoring.KindVoteConfig, client.ObjectKeyFromObject(vc))
	}
	if report.Event != "" {
		r.Events.Eventf(vc, nil, corev1.EventTypeNormal, rollout.EventRestarted, "Restart", "%s", report.Event)
	}
}

// readyNote is the note of the event of a VoteConfig that became Ready.
func readyNote(vc *votingv1alpha1.VoteConfig) string {
	return fmt.Sprintf("ConfigMap %q holds the options %s", vc.Status.ConfigMapName, vc.Status.OptionsSummary)
}

func created(_, before *votingv1alpha1.VoteConfig) bool { return before.Status.Hash == "" }
