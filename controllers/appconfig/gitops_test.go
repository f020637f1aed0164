package appconfig

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/test/gitops"
)

func TestGitOps_health(t *testing.T) {
	a, b := rev(1, "a"), rev(2, "b")
	done := reported(metav1.ConditionTrue, configv1.ReasonRolledOut)
	previewed := config(func(cfg *configv1.AppConfig) { cfg.Spec.Preview = true })
	wrong := func(reason string) rendered { return rendered{problem: new(conditions.False(reason, "wrong"))} }
	for name, tc := range map[string]struct {
		cfg          *configv1.AppConfig
		out          rendered
		seen         observed
		want, paused gitops.Health
	}{
		"rolling out":        {config(), outOf("b"), reported(metav1.ConditionFalse, configv1.ReasonRollingOut), gitops.Creating, gitops.PausedNotReady},
		"values missing":     {config(), wrong(configv1.ReasonValuesMissing), done, gitops.Creating, gitops.PausedNotReady},
		"ready":              {config(), outOf("b"), done, gitops.Ready, gitops.Paused},
		"preview":            {previewed, outOf("c"), done, gitops.Ready, gitops.Paused},
		"manual restart":     {config(), outOf("b"), reported(metav1.ConditionFalse, configv1.ReasonManualRestart), gitops.Health{Kstatus: "InProgress", Argo: "Suspended"}, gitops.PausedNotReady},
		"key missing":        {config(), outOf("b"), reported(metav1.ConditionFalse, configv1.ReasonKeyMissing), gitops.Degraded, gitops.PausedNotReady},
		"rollout failed":     {config(), outOf("b"), reported(metav1.ConditionFalse, configv1.ReasonRolloutFailed), gitops.Blocked, gitops.PausedNotReady},
		"template error":     {config(), wrong(configv1.ReasonTemplateError), done, gitops.Blocked, gitops.PausedNotReady},
		"too large":          {config(), wrong(fettlev1.ReasonTooLarge), done, gitops.Blocked, gitops.PausedNotReady},
		"object of the name": {config(), outOf("b"), observed{applyErr: &apply.ConflictError{}}, gitops.Blocked, gitops.PausedNotReady},
	} {
		cfg := decide(tc.cfg, tc.out, targeted(b, b, a), tc.seen)
		gitops.Check(t, name, cfg, tc.want)
		gitops.Check(t, "ready after "+name, decide(withSpec(cfg, config()), outOf("b"), targeted(b, b, a), done), gitops.Ready)
		setPaused(cfg)
		gitops.Check(t, "paused after "+name, cfg, tc.paused)
		cfg.DeletionTimestamp = &metav1.Time{Time: time.Now()}
		conditions.SetTerminating(cfg)
		gitops.Check(t, "deleted", cfg, gitops.Deleting)
	}
	conflicting := config()
	setConflict(conflicting, nameOccupied("ConfigMap", "settings"))
	gitops.Check(t, "another object has the name", conflicting, gitops.Blocked)
}

func withSpec(cfg, from *configv1.AppConfig) *configv1.AppConfig {
	cfg = cfg.DeepCopy()
	cfg.Spec = from.Spec
	return cfg
}
