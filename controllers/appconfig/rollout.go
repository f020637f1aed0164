package appconfig

import (
	"context"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/rollout"
)

// collectAgain is when to check again whether used versions are still in use, if no event comes.
const collectAgain = 10 * time.Minute

func ownerOf(cfg *configv1.AppConfig) rollout.Owner {
	return rollout.Owner{Prefix: rollout.ConfigPrefix, Namespace: cfg.Namespace, Name: cfg.Name}
}

// policyOf converts spec.rollout for the engine. If the window is invalid, the policy restarts nothing.
func policyOf(cfg *configv1.AppConfig) (rollout.Policy, error) {
	s := &cfg.Spec.Rollout
	p := rollout.Policy{
		Disabled:         s.Strategy == configv1.RolloutNone,
		Discovery:        rollout.Discovery(s.Discovery),
		Debounce:         durationOf(s.Debounce),
		MinInterval:      durationOf(s.MinInterval),
		MaxConcurrent:    int(s.MaxConcurrent),
		ProgressDeadline: durationOf(s.ProgressDeadline),
	}
	for _, t := range s.Targets {
		p.Targets = append(p.Targets, rollout.Target{Kind: t.Kind, Name: t.Name})
	}
	if s.Selector != nil {
		selector, err := metav1.LabelSelectorAsSelector(s.Selector)
		if err != nil {
			p.Disabled = true
			return p, fmt.Errorf("spec.rollout.selector: %w", err)
		}
		p.Selector = selector
	}
	if w := s.Window; w != nil {
		window, err := rollout.ParseWindow(w.Schedule, w.Duration.Duration, w.TimeZone)
		if err != nil {
			p.Disabled = true
			return p, fmt.Errorf("spec.rollout.window: %w", err)
		}
		p.Window = window
	}
	return p, nil
}

func durationOf(d *metav1.Duration) time.Duration {
	if d == nil {
		return 0
	}
	return d.Duration
}

func dependents(report rollout.Report) []configv1.AppConfigDependent {
	var out []configv1.AppConfigDependent
	listed, _ := report.Bounded()
	for _, d := range listed {
		out = append(out, configv1.AppConfigDependent{
			Kind: d.Kind, Name: d.Name, Hash: d.Hash, State: configv1.DependentState(d.State), Message: conditions.Clip(d.Message, maxDependentMessage),
		})
	}
	return out
}

// collect deletes, in mode Versioned, surplus versions that nothing uses. It returns when to check those in use again.
func (r *Reconciler) collect(ctx context.Context, cfg *configv1.AppConfig, p plan, seen observed) (time.Duration, error) {
	if !versioned(cfg) || len(p.surplus) == 0 {
		return 0, nil
	}
	if !restarted(seen) {
		return 0, nil // all versions are in use until all dependents have restarted, which triggers a reconcile
	}
	unused := map[string]bool{}
	for _, kind := range []string{rollout.ConfigMap, rollout.Secret} {
		names := namesOf(p.surplus, kind)
		if len(names) == 0 {
			continue
		}
		found, err := r.engine.Unused(ctx, cfg.Namespace, kind, names)
		if err != nil {
			return 0, fmt.Errorf("find who uses old versions: %w", err)
		}
		for _, name := range found {
			unused[kind+"/"+name] = true
		}
	}
	free, wait := unusedOf(p.surplus, unused), time.Duration(0)
	if len(free) < len(p.surplus) {
		wait = collectAgain
	}
	return wait, r.Applier.Prune(ctx, cfg, objectsNamed(cfg, free)...)
}

// unusedOf returns the revisions whose objects nothing uses.
func unusedOf(revisions []revision, unused map[string]bool) []revision {
	return slices.DeleteFunc(slices.Clone(revisions), func(rev revision) bool {
		return !unused[rollout.ConfigMap+"/"+rev.name] || (rev.withSecret && !unused[rollout.Secret+"/"+rev.name])
	})
}

func namesOf(revisions []revision, kind string) []string {
	var names []string
	for _, rev := range revisions {
		if kind == rollout.ConfigMap || rev.withSecret {
			names = append(names, rev.name)
		}
	}
	return names
}

// restarted reports whether no dependent is waiting for a restart.
func restarted(seen observed) bool {
	return seen.applyErr == nil && seen.report.Condition.Status == metav1.ConditionTrue
}

// interested returns the AppConfigs that w may concern: those whose target its pod template refers to, those in its annotations, and
// those that list it or select workloads by labels.
func (r *Reconciler) interested(ctx context.Context, w *rollout.Workload) []reconcile.Request {
	var requests []reconcile.Request
	for _, name := range w.Owners(rollout.ConfigPrefix) {
		requests = append(requests, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: w.Namespace, Name: name}})
	}
	targets := []string{}
	for _, ref := range w.References {
		targets = append(targets, ref.Names()...)
	}
	slices.Sort(targets)
	for _, target := range slices.Compact(targets) {
		requests = append(requests, r.RequestsBy(ctx, w.Namespace, indexTarget, target)...)
	}
	for _, value := range []string{bySelector, w.Kind + "/" + w.Name} {
		requests = append(requests, r.RequestsBy(ctx, w.Namespace, indexDiscovery, value)...)
	}
	return requests
}
