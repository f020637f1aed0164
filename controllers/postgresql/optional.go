package postgresql

import (
	"context"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

// optional fills in what children of APIs are made of that the cluster may lack.
func (r *reconciler) optional(ctx context.Context, pg *databasev1alpha1.PostgreSQL, in *inputs) error {
	missing, err := r.apis.missing(ctx)
	if err != nil {
		return err
	}
	in.monitoringMissing = missing[podMonitorGVK] || missing[alertRulesGVK]
	in.alerts, err = rulesOf(pg)
	return err
}
