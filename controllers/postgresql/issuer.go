package postgresql

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/conditions"
	"github.com/fettle-dev/fettle/internal/optionalapi"
	"github.com/fettle-dev/fettle/internal/postgres/pki"
)

// +kubebuilder:rbac:groups=cert-manager.io,resources=certificates,verbs=get;list;watch;create;patch;delete

// issueTimeout is how long cert-manager may take to issue before that is reported as a problem. Most issuers take seconds.
const issueTimeout = time.Minute

// issuedCertificate is what is known of the certificate that cert-manager is asked for.
type issuedCertificate struct {
	// missing is true where the cluster lacks cert-manager, foreign where a Secret of another owner has the name of its result.
	missing, foreign bool
	// issuing is true while cert-manager is at work and has not been for long; refused has its words when it can't issue.
	issuing bool
	failure string
	// unusable is why its result can't be served.
	unusable error
	// candidate is the result; nil while there is none that can be served.
	candidate *serving
}

// certificateObject asks cert-manager for the certificate that clients are shown. Its result is watched by its labels.
func certificateObject(pg *databasev1alpha1.PostgreSQL) runtime.ApplyConfiguration {
	ref := pg.Spec.TLS.IssuerRef
	u := emptyCertificate(pg)
	u.SetLabels(labels(pg))
	u.Object["spec"] = map[string]any{
		"secretName":           issuedSecret(pg),
		"secretTemplate":       map[string]any{"labels": optionalapi.StringMap(labels(pg))},
		"dnsNames":             optionalapi.Strings(hostsOf(pg)),
		"usages":               []any{"digital signature", "server auth"},
		"privateKey":           map[string]any{"algorithm": "ECDSA", "size": int64(256), "encoding": "PKCS8", "rotationPolicy": "Always"},
		"revisionHistoryLimit": int64(1),
		"issuerRef":            map[string]any{"name": ref.Name, "kind": ref.Kind, "group": ref.Group},
	}
	return client.ApplyConfigurationFromUnstructured(u)
}

func emptyCertificate(pg *databasev1alpha1.PostgreSQL) *unstructured.Unstructured {
	u := optionalapi.Certificate.Object(pg)
	u.SetName(issuedSecret(pg))
	return u
}

// hostsOf are the names that clients may know the server by.
func hostsOf(pg *databasev1alpha1.PostgreSQL) []string {
	return slices.Concat(pki.Hosts(pg.Name, pg.Namespace), pg.Spec.TLS.DNSNames)
}

// readIssuedCertificate finds out what cert-manager has made; nil where it is not asked.
func (r *Reconciler) readIssuedCertificate(ctx context.Context, pg *databasev1alpha1.PostgreSQL, missing bool) (*issuedCertificate, error) {
	if pg.Spec.TLS.IssuerRef == nil {
		return nil, nil //nolint:nilnil // absence is an answer
	}
	i := &issuedCertificate{missing: missing}
	if missing {
		return i, nil
	}
	key := client.ObjectKey{Namespace: pg.Namespace, Name: issuedSecret(pg)}
	request := emptyCertificate(pg)
	asked, _, err := r.Applier.Get(ctx, request)
	if err != nil {
		return nil, fmt.Errorf("get Certificate %q: %w", key.Name, err)
	}
	if asked {
		i.issuing, i.failure = issuanceState(request, r.Clock.Now())
	}
	secret := &corev1.Secret{}
	err = r.Client.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) && !asked {
		err = r.Live.Get(ctx, key, secret) // the cache does not hold those of others
	}
	switch {
	case apierrors.IsNotFound(err):
		return i, nil
	case err != nil:
		return nil, fmt.Errorf("get Secret %q: %w", key.Name, err)
	case !isOwn(pg, secret):
		i.foreign = true
		return i, nil
	}
	i.evaluate(pg, secret, r.Clock.Now())
	return i, nil
}

// evaluate decides whether what the Secret has can be served.
func (i *issuedCertificate) evaluate(pg *databasev1alpha1.PostgreSQL, secret *corev1.Secret, now time.Time) {
	s := &serving{pair: pairOf(secret), authority: pki.Bundle(secret.Data[keyAuthority])}
	if len(s.pair.Certificate) == 0 {
		return // it is being filled
	}
	if i.unusable = pki.CheckServer(s.pair, s.authority, hostsOf(pg), now); i.unusable == nil {
		i.candidate = s
	}
}

// issuanceState judges what cert-manager says of a Certificate that is not ready: that it is at work, and else why there is none, in
// its own words. What it waits for it says in another object.
func issuanceState(certificate *unstructured.Unstructured, now time.Time) (making bool, refused string) {
	ready, issuing := conditionOf(certificate, "Ready"), conditionOf(certificate, "Issuing")
	if ready["status"] != "False" {
		return false, "" // it is, or cert-manager has not reconciled it yet
	}
	switch {
	case issuing["status"] == "True":
		since, err := time.Parse(time.RFC3339, fmt.Sprint(issuing["lastTransitionTime"]))
		if err == nil && now.Sub(since) < issueTimeout {
			return true, ""
		}
		return false, fmt.Sprintf("%v: %v; see: kubectl -n %s describe certificaterequests -l %s=%s", ready["reason"],
			ready["message"], certificate.GetNamespace(), labelOwnerName, certificate.GetLabels()[labelOwnerName])
	case issuing["status"] == "False" && issuing["reason"] != "Issued":
		return false, fmt.Sprintf("%v: %v", issuing["reason"], issuing["message"]) // why the last try failed
	}
	return false, fmt.Sprintf("%v: %v", ready["reason"], ready["message"])
}

// conditionOf returns nil where the object has none of that type.
func conditionOf(o *unstructured.Unstructured, kind string) map[string]any {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	for _, c := range conditions {
		if c, ok := c.(map[string]any); ok && c["type"] == kind {
			return c
		}
	}
	return nil
}

// isIssuing reports whether to poll, because no watch may tell of a change.
func (i *issuedCertificate) isIssuing() bool { return i != nil && i.issuing }

// certified judges what clients are shown. In all cases but the first the instances go on with what they have.
func certified(i *issuedCertificate, served serving) conditions.State {
	const meanwhile = "; meanwhile the instances use their present certificate"
	switch {
	case i == nil:
		return conditions.True(databasev1alpha1.ReasonCertified, "the instances use Fettle's own certificate")
	case i.missing:
		return conditions.False(databasev1alpha1.ReasonAPIMissing, "spec.tls.issuerRef: the cluster has no Certificate (cert-manager.io/v1): install cert-manager, or remove the field"+meanwhile)
	case i.foreign:
		return conditions.False(fettlev1.ReasonNameConflict, "spec.tls.issuerRef: the Secret for its certificate exists and does not belong to Fettle: rename or delete it"+meanwhile)
	case i.issuing && i.candidate == nil:
		return conditions.Unknown(fettlev1.ReasonReconciling, "waiting for cert-manager to make the certificate"+meanwhile)
	case i.unusable != nil:
		return conditions.False(databasev1alpha1.ReasonCertificateUnusable, "spec.tls.issuerRef: the issued certificate cannot be used: "+i.unusable.Error()+meanwhile)
	case i.failure != "":
		return conditions.False(databasev1alpha1.ReasonIssuerNotReady, "spec.tls.issuerRef: cert-manager has issued no certificate: "+i.failure+meanwhile)
	case i.candidate == nil:
		return conditions.Unknown(fettlev1.ReasonReconciling, "waiting for the certificate of the issuer"+meanwhile)
	case !served.same(i.candidate.pair):
		return conditions.Unknown(fettlev1.ReasonReconciling, "the issuer's CA is distributed to clients and standbys before its certificate is used")
	}
	return conditions.True(databasev1alpha1.ReasonCertified, "the instances use the certificate of the issuer")
}
