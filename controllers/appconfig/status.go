package appconfig

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/rollout"
)

const (
	maxDependentMessage = 256
	maxPreviewed        = 100
	maxKeys             = 600
)

// observed is the state after the plan was applied.
type observed struct {
	// report of the rollout; unset if applyErr is set.
	report rollout.Report
	// applyErr is the reason why an object could not be published.
	applyErr error
	// throttled is true if the AppConfig has published too often.
	throttled bool
	// policyErr is the reason why spec.rollout is invalid.
	policyErr error
}

// summarized are the conditions that Ready summarizes, the most important first.
var summarized = []string{configv1.AppConfigRendered, configv1.AppConfigPublished, configv1.AppConfigRolledOut}

// setStatus sets cfg's status from the observed state.
func setStatus(cfg *configv1.AppConfig, out rendered, p plan, found existing, seen observed) {
	st := &cfg.Status
	st.ObservedGeneration = cfg.Generation
	st.Warnings = out.warnings
	st.Preview = preview(cfg, out, found)
	live := found.live(cfg.Spec.Target.Mode)
	if seen.applyErr == nil {
		count(cfg, p, live)
		st.Dependents = dependents(seen.report)
		if last := seen.report.LastRestart; !last.IsZero() {
			st.LastRolloutTime = metav1.NewTime(last).Rfc3339Copy()
		}
	}
	recordOutcome(cfg, out, p, found, seen)
	conditions.SetState(cfg, configv1.AppConfigRendered, true, renderedState(out))
	conditions.SetState(cfg, configv1.AppConfigPublished, true, publishedState(cfg, p, seen))
	conditions.SetState(cfg, configv1.AppConfigRolledOut, true, rolledOutState(cfg, p, seen))
	summarize(cfg)
}

// terminal are the reasons of Ready, besides those of all kinds, that only a change of the spec, of its values or of a workload
// resolves.
var terminal = []string{
	configv1.ReasonTemplateError, configv1.ReasonSchemaViolation, configv1.ReasonInvalidSchema, configv1.ReasonMalformed, configv1.ReasonCircularValues,
	configv1.ReasonRevisionMissing, configv1.ReasonInvalidWindow, configv1.ReasonRolloutFailed, configv1.ReasonRolledBack,
}

// summarize sets Ready, the phase and Stalled from the other conditions.
func summarize(cfg *configv1.AppConfig) {
	st := &cfg.Status
	st.ObservedGeneration = cfg.Generation
	conditions.Summarize(cfg, summarized...)
	published := meta.FindStatusCondition(st.Conditions, configv1.AppConfigPublished)
	if meta.IsStatusConditionTrue(st.Conditions, fettlev1.Ready) && published.Reason == configv1.ReasonPreview {
		conditions.SetState(cfg, fettlev1.Ready, true, conditions.True(published.Reason, published.Message))
	}
	st.Phase = phase(st.Conditions)
	conditions.SetStalled(cfg, false, terminal...)
}

// count sets the fields that describe the published revision.
func count(cfg *configv1.AppConfig, p plan, live *revision) {
	st := &cfg.Status
	st.ConfigMapName, st.SecretName, st.Hash, st.Revision, st.Keys = "", "", "", 0, nil
	r := p.revision
	if len(p.objects) == 0 {
		r = live
	}
	if r == nil {
		return
	}
	name := targetName(cfg)
	if versioned(cfg) {
		name = copyName(cfg, r.hash)
	}
	st.ConfigMapName, st.Hash, st.Revision = name, r.hash, r.number
	if len(r.secret) > 0 {
		st.SecretName = name
	}
	st.Keys = r.keys()
	if len(st.Keys) > maxKeys {
		st.Keys = st.Keys[:maxKeys]
	}
}

// recordOutcome records the last good and the failed revision.
func recordOutcome(cfg *configv1.AppConfig, out rendered, p plan, found existing, seen observed) {
	st := &cfg.Status
	if out.problem == nil && st.FailedHash != "" && st.FailedHash != out.hash {
		st.FailedHash, st.FailureMessage = "", ""
	}
	if seen.applyErr != nil || p.revision == nil || len(p.objects) == 0 {
		return
	}
	switch report := seen.report.Condition; {
	case report.Status == metav1.ConditionTrue:
		st.LastGoodRevision = p.revision.number
	case report.Reason != configv1.ReasonRolloutFailed, !cfg.Spec.Rollout.AutoRollback, !p.fresh:
	case found.lastGood(st.LastGoodRevision, p.revision.hash) != nil:
		st.FailedHash, st.FailureMessage = p.revision.hash, conditions.Clip(report.Message, conditions.MaxMessage)
	}
}

func renderedState(out rendered) conditions.State {
	if out.problem != nil {
		return *out.problem
	}
	return conditions.True(configv1.ReasonRendered, fmt.Sprintf("%d keys", len(out.data)+len(out.secret)))
}

func publishedState(cfg *configv1.AppConfig, p plan, seen observed) conditions.State {
	if seen.applyErr != nil {
		return conditions.False(apply.Reason(seen.applyErr), seen.applyErr.Error())
	}
	if seen.throttled {
		return throttledState(cfg)
	}
	return p.choice.published
}

func rolledOutState(cfg *configv1.AppConfig, p plan, seen observed) conditions.State {
	switch {
	case seen.applyErr != nil:
		return conditions.Unknown(fettlev1.ReasonReconciling, "unknown until the contents are published")
	case seen.policyErr != nil:
		return conditions.False(configv1.ReasonInvalidWindow, seen.policyErr.Error()+": no workload restarts until it is corrected")
	case p.rolledBack:
		return conditions.False(configv1.ReasonRolledBack, fmt.Sprintf("the rollout of hash %s failed (%s); revision %d is published until the rendered contents change. %s",
			cfg.Status.FailedHash, cfg.Status.FailureMessage, p.revision.number, seen.report.Condition.Message))
	}
	c := seen.report.Condition
	return conditions.State{Status: c.Status, Reason: c.Reason, Message: c.Message}
}

// preview lists the changes that publishing would make; nil if it is not requested or the rendering failed.
func preview(cfg *configv1.AppConfig, out rendered, found existing) *configv1.AppConfigPreview {
	if !cfg.Spec.Preview || out.problem != nil {
		return nil
	}
	live := found.live(cfg.Spec.Target.Mode)
	if live == nil {
		live = &revision{}
	}
	pv := &configv1.AppConfigPreview{Hash: out.hash}
	for _, k := range out.keys() {
		was, ok := live.value(k)
		is, _ := out.value(k)
		switch {
		case !ok:
			pv.Added = append(pv.Added, k)
		case was != is:
			pv.Changed = append(pv.Changed, k)
		}
	}
	for _, k := range live.keys() {
		if _, ok := out.value(k); !ok {
			pv.Removed = append(pv.Removed, k)
		}
	}
	for _, list := range []*[]string{&pv.Added, &pv.Changed, &pv.Removed} {
		*list = (*list)[:min(len(*list), maxPreviewed)]
	}
	return pv
}

// setPaused reports which revision stays published.
func setPaused(cfg *configv1.AppConfig) {
	published := "nothing is published yet"
	if cfg.Status.Revision > 0 {
		published = fmt.Sprintf("revision %d stays published", cfg.Status.Revision)
	}
	conditions.SetPaused(cfg, published)
}

// setThrottled reports that the rendered contents are not published yet, since they change too often.
func setThrottled(cfg *configv1.AppConfig, out rendered) {
	conditions.SetState(cfg, configv1.AppConfigRendered, true, renderedState(out))
	conditions.SetState(cfg, configv1.AppConfigPublished, true, throttledState(cfg))
	summarize(cfg)
}

// setConflict reports that nothing is published, since another object has the name.
func setConflict(cfg *configv1.AppConfig, v conditions.State) {
	cfg.Status = configv1.AppConfigStatus{ObservedGeneration: cfg.Generation, Conditions: cfg.Status.Conditions}
	conditions.SetState(cfg, configv1.AppConfigRendered, true, conditions.Unknown(fettlev1.ReasonReconciling, "not rendered while another object has the name of the target"))
	conditions.SetState(cfg, configv1.AppConfigPublished, true, v)
	conditions.SetState(cfg, configv1.AppConfigRolledOut, true, conditions.Unknown(fettlev1.ReasonReconciling, "nothing is published"))
	summarize(cfg)
}

// progress are the reasons of a rollout in progress.
var progress = []string{configv1.ReasonRollingOut, configv1.ReasonDebouncing, configv1.ReasonWaitingForWindow}

func phase(conds []metav1.Condition) configv1.AppConfigPhase {
	ready := meta.FindStatusCondition(conds, fettlev1.Ready)
	switch {
	case ready.Status == metav1.ConditionTrue:
		return configv1.PhaseRunning
	case ready.Reason == configv1.ReasonValuesMissing:
		return configv1.PhasePending
	case slices.Contains(progress, ready.Reason):
		return configv1.PhaseRollingOut
	case ready.Reason == configv1.ReasonRolloutFailed:
		return configv1.PhaseFailed
	case ready.Status == metav1.ConditionUnknown:
		return configv1.PhasePublishing
	default:
		return configv1.PhaseDegraded
	}
}
