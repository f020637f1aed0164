package appconfig

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/rollout"
)

func reported(status metav1.ConditionStatus, reason string) observed {
	return observed{report: rollout.Report{Condition: metav1.Condition{Status: status, Reason: reason, Message: "of the engine"}}}
}

// decide runs all pure parts for one pass and returns the AppConfig with its new status.
func decide(cfg *configv1.AppConfig, out rendered, found existing, seen observed) *configv1.AppConfig {
	cfg = cfg.DeepCopy()
	cfg.Generation = 1
	p := desired(cfg, choose(cfg, out, found), found, now)
	setStatus(cfg, out, p, found, seen)
	return cfg
}

func TestSetStatus(t *testing.T) {
	auto := func(cfg *configv1.AppConfig) { cfg.Spec.Rollout.AutoRollback = true }
	a, b := rev(1, "a"), rev(2, "b")
	history := targeted(b, b, a)
	done, rolling, failed := reported(metav1.ConditionTrue, configv1.ReasonRolledOut), reported(metav1.ConditionFalse, configv1.ReasonRollingOut), reported(metav1.ConditionFalse, configv1.ReasonRolloutFailed)
	gr := schema.GroupResource{Resource: "configmaps"}
	for _, tc := range []struct {
		name  string
		cfg   *configv1.AppConfig
		out   rendered
		found existing
		seen  observed
		ready string
		phase configv1.AppConfigPhase
		good  int64
		hash  string // failedHash
	}{
		{"published", config(), outOf("a"), existing{}, done, "True Ready", configv1.PhaseRunning, 1, ""},
		{"rolling", config(), outOf("b"), history, rolling, "False RollingOut", configv1.PhaseRollingOut, 0, ""},
		{"failed", config(), outOf("b"), history, failed, "False RolloutFailed", configv1.PhaseFailed, 0, ""},
		{"failed, to be rolled back", config(auto), outOf("b"), history, failed, "False RolloutFailed", configv1.PhaseFailed, 0, hashOf("b")},
		{"failed, with nothing to go back to", config(auto), outOf("a"), targeted(a, a), failed, "False RolloutFailed", configv1.PhaseFailed, 0, ""},
		{"nothing rendered", config(), waitingForValues(config(), source{kind: kindSecret, name: "s"}), existing{}, done, "False ValuesMissing", configv1.PhasePending, 0, ""},
		{"foreign object", config(), outOf("a"), existing{}, observed{applyErr: &apply.ConflictError{}}, "False NameConflict", configv1.PhaseDegraded, 0, ""},
		{"rejected", config(), outOf("a"), existing{}, observed{applyErr: apierrors.NewInvalid(schema.GroupKind{}, "a", nil)}, "False Invalid", configv1.PhaseDegraded, 0, ""},
		{"forbidden", config(), outOf("a"), existing{}, observed{applyErr: apierrors.NewForbidden(gr, "a", nil)}, "False Forbidden", configv1.PhaseDegraded, 0, ""},
		{"too large", config(), outOf("a"), existing{}, observed{applyErr: apierrors.NewRequestEntityTooLargeError("1")}, "False TooLarge", configv1.PhaseDegraded, 0, ""},
		{"unwritten", config(), outOf("a"), existing{}, observed{applyErr: errors.New("lost")}, "False WriteFailed", configv1.PhaseDegraded, 0, ""},
		{"no such window", config(), outOf("a"), existing{}, observed{policyErr: errors.New("spec.rollout.window: bad"), report: done.report}, "False InvalidWindow", configv1.PhaseDegraded, 1, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			cfg := decide(tc.cfg, tc.out, tc.found, tc.seen)
			ready := meta.FindStatusCondition(cfg.Status.Conditions, fettlev1.Ready)
			if got := string(ready.Status) + " " + ready.Reason; got != tc.ready || cfg.Status.Phase != tc.phase {
				t.Errorf("Ready %s, phase %s", got, cfg.Status.Phase)
			}
			if cfg.Status.LastGoodRevision != tc.good || cfg.Status.FailedHash != tc.hash {
				t.Errorf("last good %d, failed %q", cfg.Status.LastGoodRevision, cfg.Status.FailedHash)
			}
		})
	}
}

// A failed revision is noted, rolled back, stays so, and is forgotten when something else is rendered.
func TestAutomaticRollback(t *testing.T) {
	a, b := rev(1, "a"), rev(2, "b")
	cfg := config(func(cfg *configv1.AppConfig) {
		cfg.Spec.Rollout.AutoRollback, cfg.Status.LastGoodRevision = true, 1
	})
	cfg = decide(cfg, outOf("b"), targeted(b, b, a), reported(metav1.ConditionFalse, configv1.ReasonRolloutFailed))
	if cfg.Status.FailedHash != hashOf("b") || cfg.Status.FailureMessage != "of the engine" || cfg.Status.Revision != 2 {
		t.Fatalf("failed %q because %q at revision %d", cfg.Status.FailedHash, cfg.Status.FailureMessage, cfg.Status.Revision)
	}
	for _, found := range []existing{targeted(b, b, a), targeted(a, b, a)} {
		cfg = decide(cfg, outOf("b"), found, reported(metav1.ConditionTrue, configv1.ReasonRolledOut))
		c := meta.FindStatusCondition(cfg.Status.Conditions, configv1.AppConfigRolledOut)
		if cfg.Status.Revision != 1 || cfg.Status.FailedHash != hashOf("b") || c.Reason != configv1.ReasonRolledBack || !strings.Contains(c.Message, "of the engine") {
			t.Errorf("revision %d, failed %q, RolledOut %+v", cfg.Status.Revision, cfg.Status.FailedHash, c)
		}
	}
}

func TestAutomaticRollback_endsWithOtherContents(t *testing.T) {
	a, b := rev(1, "a"), rev(2, "b")
	cfg := config(func(cfg *configv1.AppConfig) {
		cfg.Spec.Rollout.AutoRollback, cfg.Status.LastGoodRevision, cfg.Status.FailedHash = true, 1, hashOf("b")
	})
	missing := decide(cfg, rendered{problem: new(conditions.False(configv1.ReasonTemplateError, "wrong"))}, targeted(a, b, a), reported(metav1.ConditionTrue, configv1.ReasonRolledOut))
	if missing.Status.FailedHash != hashOf("b") {
		t.Error("a rendering that fails for a while forgets what failed to roll out")
	}
	cfg = decide(cfg, outOf("c"), targeted(a, b, a), reported(metav1.ConditionFalse, configv1.ReasonRollingOut))
	if cfg.Status.FailedHash != "" || cfg.Status.Revision != 3 {
		t.Errorf("failed %q, revision %d after a change", cfg.Status.FailedHash, cfg.Status.Revision)
	}
}

func TestPreview_namesKeys(t *testing.T) {
	cfg := config(func(cfg *configv1.AppConfig) { cfg.Spec.Preview = true })
	live := revision{content: content{data: map[string]string{"same": "1", "other": "1", "gone": "1", "moved": "1"}}, hash: hashOf("a"), number: 1, complete: true}
	out := rendered{content: content{data: map[string]string{"same": "1", "other": "2", "new": "1"}, secret: map[string]string{"moved": "1"}}, hash: hashOf("b")}
	want := &configv1.AppConfigPreview{Hash: hashOf("b"), Added: []string{"new"}, Changed: []string{"other"}, Removed: []string{"gone"}}
	if diff := cmp.Diff(want, preview(cfg, out, existing{target: &live})); diff != "" {
		t.Errorf("preview (-want +got):\n%s", diff)
	}
	cfg.Spec.Preview = false
	if pv := preview(cfg, out, existing{target: &live}); pv != nil {
		t.Errorf("a preview that was not requested: %+v", pv)
	}
}

func TestPolicyOf(t *testing.T) {
	cfg := config(func(cfg *configv1.AppConfig) {
		cfg.Spec.Rollout = configv1.AppConfigRollout{
			Strategy: configv1.RolloutRestart, Discovery: configv1.DiscoverySelector,
			Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			Targets:  []configv1.AppConfigRolloutTarget{{Kind: "Deployment", Name: "web"}}, MaxConcurrent: 3,
			Window: &configv1.AppConfigWindow{Schedule: "0 2 * * *", Duration: metav1.Duration{Duration: 1}, TimeZone: "Europe/Berlin"},
		}
	})
	p, err := policyOf(cfg)
	if err != nil || p.Disabled || p.Window == nil || p.Selector.String() != "a=b" || p.MaxConcurrent != 3 || len(p.Targets) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	cfg.Spec.Rollout.Window.TimeZone = "Nowhere/Land"
	if p, err := policyOf(cfg); err == nil || !p.Disabled {
		t.Errorf("an unknown time zone: %+v, %v", p, err)
	}
	cfg.Spec.Rollout = configv1.AppConfigRollout{Strategy: configv1.RolloutNone}
	if p, err := policyOf(cfg); err != nil || !p.Disabled {
		t.Errorf("strategy None: %+v, %v", p, err)
	}
}

func TestOnlyDependents(t *testing.T) {
	before := decide(config(), outOf("a"), existing{}, reported(metav1.ConditionFalse, configv1.ReasonRollingOut))
	after := before.DeepCopy()
	after.Status.Dependents = []configv1.AppConfigDependent{{Kind: "Deployment", Name: "web"}}
	conditions.SetState(after, configv1.AppConfigRolledOut, true, conditions.False(configv1.ReasonRollingOut, "1 of 2"))
	conditions.SetState(after, fettlev1.Ready, true, conditions.False(configv1.ReasonRollingOut, "1 of 2"))
	if !onlyDependents(after, before) || !onlyProgress(after, before) {
		t.Error("progress of a rollout does not wait")
	}
	conditions.SetState(after, configv1.AppConfigRolledOut, true, conditions.False(configv1.ReasonRolloutFailed, "failed"))
	if onlyDependents(after, before) {
		t.Error("a failure waits")
	}
}

// An AppConfig that is being deleted is not Ready. A pause keeps the status of Ready.
func TestReady_notWhileTerminatingOrPaused(t *testing.T) {
	for _, tc := range []struct {
		set    func(*configv1.AppConfig)
		status metav1.ConditionStatus
		reason string
		phase  configv1.AppConfigPhase
	}{
		{func(o *configv1.AppConfig) { conditions.SetTerminating(o) }, metav1.ConditionFalse, fettlev1.ReasonTerminating, configv1.PhaseTerminating},
		{setPaused, metav1.ConditionUnknown, fettlev1.ReasonPaused, configv1.PhasePaused},
	} {
		cfg := config(func(cfg *configv1.AppConfig) { cfg.Generation = 3 })
		tc.set(cfg)
		ready := meta.FindStatusCondition(cfg.Status.Conditions, fettlev1.Ready)
		if ready == nil || ready.Status != tc.status || ready.Reason != tc.reason || ready.ObservedGeneration != 3 ||
			cfg.Status.ObservedGeneration != 3 || cfg.Status.Phase != tc.phase {
			t.Errorf("%s: %+v, phase %s", tc.reason, ready, cfg.Status.Phase)
		}
	}
}
