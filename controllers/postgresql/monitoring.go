package postgresql

import (
	"maps"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/monitoring/alerts"
)

// Kinds of the Prometheus Operator, which a cluster may lack.
var (
	podMonitorGVK = schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "PodMonitor"}
	alertRulesGVK = schema.GroupVersionKind{Group: "monitoring.coreos.com", Version: "v1", Kind: "PrometheusRule"}
)

// podMonitor has Prometheus scrape every instance.
func podMonitor(pg *databasev1alpha1.PostgreSQL) runtime.ApplyConfiguration {
	match := map[string]any{}
	for k, v := range selector(pg) {
		match[k] = v
	}
	return optional(pg, podMonitorGVK, map[string]any{
		"selector": map[string]any{"matchLabels": match},
		// The role of an instance, as a label of all its series.
		"podTargetLabels":     []any{databasev1alpha1.LabelRole},
		"podMetricsEndpoints": []any{map[string]any{"port": "metrics", "path": "/metrics", "interval": pg.Spec.Monitoring.Interval}},
	})
}

// rulesOf are the alerts of pg.
func rulesOf(pg *databasev1alpha1.PostgreSQL) ([]any, error) {
	c := alerts.Cluster{Namespace: pg.Namespace, Name: pg.Name, Replicas: replicas(pg), Hibernated: pg.Spec.Hibernated}
	if grow := pg.Spec.AutoGrow; grow != nil {
		c.AutoGrowThreshold, c.AutoGrowMax = int(grow.Threshold), grow.Max.Value()
	}
	return alerts.Rules(c)
}

// alertRules is the PrometheusRule.
func alertRules(pg *databasev1alpha1.PostgreSQL, rules []any) runtime.ApplyConfiguration {
	return optional(pg, alertRulesGVK, map[string]any{"groups": []any{map[string]any{"name": "fettle-postgresql-" + pg.Name, "rules": rules}}})
}

// optional is a child of an API that has no Go type here. Fettle's labels win over those of spec.monitoring.
func optional(pg *databasev1alpha1.PostgreSQL, gvk schema.GroupVersionKind, spec map[string]any) runtime.ApplyConfiguration {
	u := emptyOf(gvk, pg)
	all := maps.Clone(pg.Spec.Monitoring.Labels)
	u.SetLabels(mergeMaps(all, labels(pg)))
	u.Object["spec"] = spec
	return client.ApplyConfigurationFromUnstructured(u)
}

// emptyOf is an object of the kind with the PostgreSQL's name.
func emptyOf(gvk schema.GroupVersionKind, pg *databasev1alpha1.PostgreSQL) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{}}
	u.SetGroupVersionKind(gvk)
	u.SetName(pg.Name)
	u.SetNamespace(pg.Namespace)
	return u
}
