package postgresql

import (
	"context"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

// resolveOptionalAPIs fills in what children of APIs are made of that the cluster may lack.
func (r *Reconciler) resolveOptionalAPIs(ctx context.Context, pg *databasev1alpha1.PostgreSQL, in *inputs) error {
	missing, err := r.apis.missing(ctx)
	if err != nil {
		return err
	}
	lacks := func(gvk schema.GroupVersionKind) bool {
		soon, lacking := missing[gvk]
		in.apiPending = in.apiPending || soon
		return lacking
	}
	noMonitors, noRules, noCertificates := lacks(podMonitorGVK), lacks(alertRulesGVK), lacks(certificateGVK)
	in.monitoringMissing, in.certificateAPI = noMonitors || noRules, !noCertificates
	in.apiPending = in.apiPending && (pg.Spec.Monitoring.Enabled || pg.Spec.TLS.IssuerRef != nil)
	if in.alerts, err = rulesOf(pg); err != nil {
		return err
	}
	if in.issued, err = r.readIssuedCertificate(ctx, pg, noCertificates); err != nil {
		return err
	}
	in.chooseServedCertificate(r.clock.Now())
	return nil
}

// chooseServedCertificate decides what clients are shown from now on.
func (in *inputs) chooseServedCertificate(now time.Time) {
	var candidate *serving
	if in.issued != nil {
		candidate = in.issued.candidate
	}
	c := &in.certificates
	c.serving = c.serving.next(c.ca.Certificate, candidate, in.issued != nil, now)
}
