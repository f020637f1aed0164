package webapppolicy

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/policy"
)

const (
	// listedViolations is the number of WebApps in status.violations.
	listedViolations = 20
)

// observed is the observed state of a policy.
type observed struct {
	// served is true if the operator serves webhooks, called if the API server is configured to call them.
	served, called bool
	selectorErr    error
	// selected are the labels of the selected namespaces, by name.
	selected map[string]map[string]string
	// violations has one entry for each WebApp that violates the policy, sorted: "namespace/name: rule, rule".
	violations []string
}

// selectedBy returns the labels of the namespaces that the policy selects.
func selectedBy(p *appsv1.WebAppPolicy, namespaces []metav1.PartialObjectMetadata) (map[string]map[string]string, error) {
	selector, err := policy.Selector(p)
	selected := map[string]map[string]string{}
	for i := range namespaces {
		if ns := &namespaces[i]; selector.Matches(labels.Set(ns.Labels)) {
			selected[ns.Name] = ns.Labels
		}
	}
	return selected, err
}

// violationsOf lists the WebApps in the selected namespaces that violate the policy, without those that are being deleted.
func violationsOf(p *appsv1.WebAppPolicy, selected map[string]map[string]string, apps []appsv1.WebApp) ([]string, error) {
	var lines []string
	for i := range apps {
		app := &apps[i]
		namespaceLabels, ok := selected[app.Namespace]
		if !ok || app.DeletionTimestamp != nil {
			continue
		}
		broken, err := policy.Check(p, app, namespaceLabels)
		if err != nil {
			return nil, fmt.Errorf("check WebApp %s/%s: %w", app.Namespace, app.Name, err)
		}
		var rules []string
		for _, v := range broken {
			if !slices.Contains(rules, v.Rule) {
				rules = append(rules, v.Rule)
			}
		}
		if len(rules) > 0 {
			lines = append(lines, app.Namespace+"/"+app.Name+": "+strings.Join(rules, ", "))
		}
	}
	slices.Sort(lines)
	return lines, nil
}

func setStatus(p *appsv1.WebAppPolicy, seen observed) {
	p.Status.ObservedGeneration = p.Generation
	p.Status.ViolationCount = int32(len(seen.violations))
	p.Status.Violations = slices.Clone(seen.violations[:min(len(seen.violations), listedViolations)])
	c := ready(p, seen)
	conditions.Set(p, c.Type, c.Status, c.Reason, c.Message)
	p.Status.Phase = appsv1.PolicyActive
	if c.Status != metav1.ConditionTrue {
		p.Status.Phase = appsv1.PolicyDegraded
	}
	conditions.SetStalled(p, c.Reason == appsv1.ReasonSelectorInvalid)
}

func ready(p *appsv1.WebAppPolicy, seen observed) metav1.Condition {
	c := metav1.Condition{Type: fettlev1.Ready, Status: metav1.ConditionTrue, ObservedGeneration: p.Generation}
	switch {
	case seen.selectorErr != nil:
		c.Status, c.Reason = metav1.ConditionFalse, appsv1.ReasonSelectorInvalid
		c.Message = fmt.Sprintf("%v: correct it; until then the policy applies to all namespaces", seen.selectorErr)
		return c
	case !seen.called:
		c.Status, c.Reason = metav1.ConditionFalse, appsv1.ReasonNotEnforced
		c.Message = "no ValidatingWebhookConfiguration has the webhook " + policy.WebhookName +
			": WebApps are not checked; install the operator again (make deploy, or OLM)"
		return c
	case !seen.served:
		c.Status, c.Reason = metav1.ConditionFalse, appsv1.ReasonNotEnforced
		c.Message = "the operator runs with --webhooks=false: WebApps are not checked"
		return c
	case p.Spec.Action == appsv1.ActionEnforce:
		c.Reason, c.Message = appsv1.ReasonEnforced, "WebApps that violate the policy are rejected"
	default:
		c.Reason, c.Message = appsv1.ReasonWarning, "WebApps that violate the policy are admitted with a warning"
	}
	if len(seen.selected) == 0 {
		c.Message += "; no namespace matches namespaceSelector"
	}
	return c
}
