package postgresql

import (
	"k8s.io/apimachinery/pkg/runtime"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/monitoring/alerts"
	"github.com/fettle-dev/fettle/internal/optionalapi"
)

// podMonitor has Prometheus scrape every instance.
func podMonitor(pg *databasev1alpha1.PostgreSQL) runtime.ApplyConfiguration {
	return optionalapi.PodMonitor.Child(pg, labels(pg), pg.Spec.Monitoring.Labels, map[string]any{
		"selector": map[string]any{"matchLabels": optionalapi.StringMap(selector(pg))},
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
	return optionalapi.PrometheusRule.Child(pg, labels(pg), pg.Spec.Monitoring.Labels,
		map[string]any{"groups": []any{map[string]any{"name": "fettle-postgresql-" + pg.Name, "rules": rules}}})
}
