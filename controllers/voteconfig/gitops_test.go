package voteconfig

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	votingv1alpha1 "github.com/fettle-dev/fettle/api/voting/v1alpha1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/test/gitops"
)

func TestGitOps_health(t *testing.T) {
	reports := func(status metav1.ConditionStatus, reason string) func(*votingv1alpha1.VoteConfig) {
		return func(vc *votingv1alpha1.VoteConfig) { setStatus(vc, liveOf(vc, now), reportOf(status, reason), "") }
	}
	fails := func(err error) func(*votingv1alpha1.VoteConfig) {
		return func(vc *votingv1alpha1.VoteConfig) { setPublishFailed(vc, err) }
	}
	conflict := &apply.ConflictError{OwnerKind: "VoteConfig", GVK: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Name: "vote-config"}
	for name, tc := range map[string]struct {
		set          func(*votingv1alpha1.VoteConfig)
		want, paused gitops.Health
	}{
		"rolling out":    {reports("False", "RollingOut"), gitops.Creating, gitops.PausedNotReady},
		"ready":          {reports("True", "RolledOut"), gitops.Ready, gitops.Paused},
		"manual restart": {reports("False", "ManualRestart"), gitops.Health{Kstatus: "InProgress", Argo: "Suspended"}, gitops.PausedNotReady},
		"key missing":    {reports("False", "KeyMissing"), gitops.Degraded, gitops.PausedNotReady},
		"rollout failed": {reports("False", "RolloutFailed"), gitops.Blocked, gitops.PausedNotReady},
		"conflict":       {fails(conflict), gitops.Blocked, gitops.PausedNotReady},
		"invalid":        {fails(apierrors.NewBadRequest("no")), gitops.Blocked, gitops.PausedNotReady},
		"no answer":      {fails(errors.New("no answer")), gitops.Degraded, gitops.PausedNotReady},
	} {
		vc := vote()
		tc.set(vc)
		gitops.Check(t, name, vc, tc.want)
		reports("True", "RolledOut")(vc)
		gitops.Check(t, "ready after "+name, vc, gitops.Ready)
		tc.set(vc)
		setPaused(vc)
		gitops.Check(t, "paused after "+name, vc, tc.paused)
		vc.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		conditions.SetTerminating(vc)
		gitops.Check(t, "deleted", vc, gitops.Deleting)
	}
}
