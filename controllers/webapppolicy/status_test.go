package webapppolicy

import (
	"errors"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/conditions"
)

func namespaceOf(name string, labels map[string]string) metav1.PartialObjectMetadata {
	return metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels}}
}

func appOf(namespace, name string, replicas int32) appsv1.WebApp {
	return appsv1.WebApp{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       appsv1.WebAppSpec{Image: "nginx:1.25", Replicas: new(replicas)},
	}
}

func TestSelectedBy(t *testing.T) {
	all := []metav1.PartialObjectMetadata{
		namespaceOf("production", map[string]string{"env": "production"}), namespaceOf("shop", nil),
		namespaceOf("live", map[string]string{"env": "production", "team": "a"}),
	}
	p := &appsv1.WebAppPolicy{}
	selected, err := selectedBy(p, all)
	if err != nil || len(selected) != 3 {
		t.Errorf("an empty selector selects %v, %v; want all", selected, err)
	}
	p.Spec.NamespaceSelector.MatchLabels = map[string]string{"env": "production"}
	want := map[string]map[string]string{"production": all[0].Labels, "live": all[2].Labels}
	selected, err = selectedBy(p, all)
	if diff := cmp.Diff(want, selected); diff != "" || err != nil {
		t.Errorf("selected (-want +got): %v\n%s", err, diff)
	}
	p.Spec.NamespaceSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "env", Operator: "Near"}}
	if selected, err := selectedBy(p, all); err == nil || len(selected) != len(all) {
		t.Errorf("an unknown operator selects %v, %v; want all namespaces", selected, err)
	}
}

func TestViolationsOf(t *testing.T) {
	p := &appsv1.WebAppPolicy{Spec: appsv1.WebAppPolicySpec{MaxReplicas: new(int32(10)), RequireLimits: true}}
	limited := appOf("b", "limited", 11)
	limited.Spec.Resources.Limits = limits()
	fine := appOf("a", "fine", 10)
	fine.Spec.Resources.Limits = limits()
	leaving := appOf("a", "leaving", 11)
	leaving.DeletionTimestamp = new(metav1.Now())
	apps := []appsv1.WebApp{limited, appOf("a", "web", 11), leaving, fine, appOf("elsewhere", "web", 11), appOf("a", "api", 1)}
	got, err := violationsOf(p, map[string]map[string]string{"a": nil, "b": nil}, apps)
	want := []string{"a/api: requireLimits", "a/web: maxReplicas, requireLimits", "b/limited: maxReplicas"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("violations (-want +got): %v\n%s", err, diff)
	}
}

func TestSetStatus(t *testing.T) {
	many := make([]string, 25)
	for i := range many {
		many[i] = fmt.Sprintf("a/web-%02d: maxReplicas", i)
	}
	somewhere := map[string]map[string]string{"a": nil}
	for _, c := range []struct {
		name   string
		action appsv1.PolicyAction
		seen   observed
		want   metav1.Condition
		count  int32
	}{
		{
			"enforced", appsv1.ActionEnforce, observed{served: true, called: true, selected: somewhere, violations: many[:1]},
			metav1.Condition{Status: "True", Reason: "Enforced", Message: "WebApps that violate the policy are rejected"}, 1,
		},
		{
			"warning", appsv1.ActionWarn, observed{served: true, called: true, selected: somewhere, violations: many},
			metav1.Condition{Status: "True", Reason: "Warning", Message: "WebApps that violate the policy are admitted with a warning"}, 25,
		},
		{
			"nowhere", appsv1.ActionEnforce, observed{served: true, called: true},
			metav1.Condition{Status: "True", Reason: "Enforced", Message: "WebApps that violate the policy are rejected; no namespace matches namespaceSelector"}, 0,
		},
		{
			"no webhooks", appsv1.ActionEnforce, observed{called: true, selected: somewhere, violations: many[:2]},
			metav1.Condition{
				Status: "False", Reason: "NotEnforced",
				Message: "the operator runs with --webhooks=false: WebApps are not checked",
			}, 2,
		},
		{
			"no configuration", appsv1.ActionEnforce, observed{served: true, selected: somewhere},
			metav1.Condition{
				Status: "False", Reason: "NotEnforced",
				Message: "no ValidatingWebhookConfiguration has the webhook webapps.apps.fettle.dev: WebApps are not checked; " +
					"install the operator again (make deploy, or OLM)",
			}, 0,
		},
		{
			"selector", appsv1.ActionEnforce, observed{served: true, called: true, selectorErr: errors.New("spec.namespaceSelector: odd")},
			metav1.Condition{
				Status: "False", Reason: "SelectorInvalid",
				Message: "spec.namespaceSelector: odd: correct it; until then the policy applies to all namespaces",
			}, 0,
		},
	} {
		p := &appsv1.WebAppPolicy{ObjectMeta: metav1.ObjectMeta{Generation: 4}, Spec: appsv1.WebAppPolicySpec{Action: c.action}}
		p.Status.Violations = []string{"a/old: maxReplicas"}
		setStatus(p, c.seen)
		c.want.Type, c.want.ObservedGeneration = "Ready", 4
		if diff := cmp.Diff(c.want, conditions.ReadyOf(p), cmpopts.IgnoreFields(metav1.Condition{}, "LastTransitionTime")); diff != "" {
			t.Errorf("%s: Ready (-want +got):\n%s", c.name, diff)
		}
		if p.Status.ViolationCount != c.count || p.Status.ObservedGeneration != 4 {
			t.Errorf("%s: %d violations at generation %d, want %d at 4", c.name, p.Status.ViolationCount, p.Status.ObservedGeneration, c.count)
		}
		if diff := cmp.Diff(many[:min(c.count, listedViolations)], p.Status.Violations, cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("%s: violations (-want +got):\n%s", c.name, diff)
		}
		before := p.DeepCopy()
		setStatus(p, c.seen)
		if diff := cmp.Diff(before, p); diff != "" {
			t.Errorf("%s: a second look changes the status:\n%s", c.name, diff)
		}
	}
}

func limits() corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1"), corev1.ResourceMemory: resource.MustParse("1Gi")}
}
