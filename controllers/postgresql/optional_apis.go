package postgresql

import (
	"context"
	"time"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/optionalapi"
)

// optionalAPIs are the APIs of children that a cluster may lack.
var optionalAPIs = []optionalapi.API{optionalapi.PodMonitor, optionalapi.PrometheusRule, optionalapi.Certificate}

// optionalKinds are the kinds of those APIs that pg uses.
func optionalKinds(pg *databasev1alpha1.PostgreSQL) []string {
	var kinds []string
	if pg.Spec.Monitoring.Enabled {
		kinds = append(kinds, optionalapi.PodMonitor.Kind, optionalapi.PrometheusRule.Kind)
	}
	if pg.Spec.TLS.IssuerRef != nil {
		kinds = append(kinds, optionalapi.Certificate.Kind)
	}
	return kinds
}

// resolveOptionalAPIs fills in what children of APIs are made of that the cluster may lack.
func (r *Reconciler) resolveOptionalAPIs(ctx context.Context, pg *databasev1alpha1.PostgreSQL, in *inputs) error {
	served, err := r.apis.Find(ctx, optionalKinds(pg))
	if err != nil {
		return err
	}
	noCertificates := served.Missing[optionalapi.Certificate.Kind]
	in.monitoringMissing = served.Missing[optionalapi.PodMonitor.Kind] || served.Missing[optionalapi.PrometheusRule.Kind]
	in.certificateAPI, in.apiRetry = !noCertificates, served.Retry
	if in.alerts, err = rulesOf(pg); err != nil {
		return err
	}
	if in.issued, err = r.readIssuedCertificate(ctx, pg, noCertificates); err != nil {
		return err
	}
	in.chooseServedCertificate(r.Clock.Now())
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
