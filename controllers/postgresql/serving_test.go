package postgresql

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/pki"
)

var newYear = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// issue makes what an issuer gives for pg.
func issue(t *testing.T, pg *databasev1alpha1.PostgreSQL, authority *pki.CA, at time.Time) *serving {
	t.Helper()
	pair, err := authority.Server(hostsOf(pg), at)
	if err != nil {
		t.Fatal(err)
	}
	return &serving{pair: pair, authority: authority.Certificate}
}

func newAuthority(t *testing.T, name string) *pki.CA {
	t.Helper()
	a, err := pki.NewCA(name, newYear)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// TestServing follows what clients are shown through the changes of an issuer. At no time may a client or a standby that has
// the roots of the last two minutes be shown what they do not vouch for.
func TestServing(t *testing.T) {
	pg := wanting(3)
	own, first, second := newAuthority(t, "own"), newAuthority(t, "first"), newAuthority(t, "second")
	a, b, c := issue(t, pg, first, newYear), issue(t, pg, first, newYear.Add(time.Hour)), issue(t, pg, second, newYear)
	var s serving
	now := newYear
	for _, step := range []struct {
		what      string
		after     time.Duration
		candidate *serving
		wanted    bool
		// pair and roots are what is published then, by what they are of.
		pair, roots string
	}{
		{"without an issuer", 0, nil, false, "own", "own"},
		{"an issuer that has given nothing", 0, nil, true, "own", "own"},
		{"its authority first", 0, a, true, "own", "own first"},
		{"not before all know it", time.Minute, a, true, "own", "own first"},
		{"then its certificate", time.Minute, a, true, "first", "own first"},
		{"a renewal at once", time.Hour, b, true, "renewed", "own first"},
		{"another authority is made known", time.Hour, c, true, "renewed", "own first second"},
		{"and waits", time.Minute, c, true, "renewed", "own first second"},
		{"and is served, the old one still trusted", time.Minute, c, true, "second", "own first second"},
		{"for a while", time.Minute, c, true, "second", "own first second"},
		{"and then no more", time.Minute, c, true, "second", "own second"},
		{"an issuer that gives nothing more", time.Hour, nil, true, "second", "own second"},
		{"until the end", pki.Lifetime, nil, true, "own", "own second"},
		{"and is forgotten", time.Hour, nil, true, "own", "own"},
		{"it comes back", time.Hour, a, true, "own", "own first"},
	} {
		now = now.Add(step.after)
		s = s.next(own.Certificate, step.candidate, step.wanted, now)
		if again := s.next(own.Certificate, step.candidate, step.wanted, now); !again.same(s.pair) || !again.since.Equal(s.since) || !bytes.Equal(again.roots, s.roots) {
			t.Errorf("%s: a second pass changes something", step.what)
		}
		if got := pairName(s, map[string]*serving{"first": a, "renewed": b, "second": c}); got != step.pair {
			t.Errorf("%s: serves %q, want %q", step.what, got, step.pair)
		}
		if got := rootNames(s, map[string]*pki.CA{"own": own, "first": first, "second": second}); got != step.roots {
			t.Errorf("%s: trusts %q, want %q", step.what, got, step.roots)
		}
	}
}

// TestServingEnds goes back to Fettle's own certificate when no issuer is asked any more.
func TestServingEnds(t *testing.T) {
	pg := wanting(1)
	own, foreign := newAuthority(t, "own"), newAuthority(t, "foreign")
	s := *issue(t, pg, foreign, newYear)
	s.roots = pki.Bundle(own.Certificate, foreign.Certificate)
	now := newYear.Add(time.Hour)
	s = s.next(own.Certificate, nil, false, now)
	if len(s.pair.Certificate) > 0 || !pki.Contains(s.roots, foreign.Certificate) {
		t.Errorf("serves %q, roots %s", s.pair.Certificate, s.roots)
	}
	if s = s.next(own.Certificate, nil, false, now.Add(settleRoots)); !bytes.Equal(s.roots, own.Certificate) {
		t.Errorf("trusts %s", s.roots)
	}
}

// TestServingIsKept reads back what it has written.
func TestServingIsKept(t *testing.T) {
	s := serving{pair: pki.Pair{Certificate: []byte("c"), Key: []byte("k")}, authority: []byte("a"), roots: []byte("r"), since: newYear}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Annotations: s.annotations()}, Data: map[string][]byte{}}
	s.writeTo(secret.Data)
	if got := servingOf(secret); !got.same(s.pair) || string(got.roots) != "r" || string(got.authority) != "a" || !got.since.Equal(s.since) {
		t.Errorf("%+v", got)
	}
	if got := servingOf(nil); len(got.roots) > 0 || got.annotations() != nil {
		t.Errorf("%+v", got)
	}
}

// pairName says whose certificate is served.
func pairName(s serving, names map[string]*serving) string {
	for name, known := range names {
		if s.same(known.pair) {
			return name
		}
	}
	if len(s.pair.Certificate)+len(s.pair.Key)+len(s.authority) > 0 {
		return "something else"
	}
	return "own"
}

func rootNames(s serving, names map[string]*pki.CA) string {
	var out []string
	for _, name := range []string{"own", "first", "second"} {
		if pki.Contains(s.roots, names[name].Certificate) {
			out = append(out, name)
		}
	}
	return strings.Join(out, " ")
}

func TestCertified(t *testing.T) {
	pair := pki.Pair{Certificate: []byte("c"), Key: []byte("k")}
	candidate := &serving{pair: pair}
	for _, c := range []struct {
		name   string
		issued *issuedCertificate
		served serving
		want   string
	}{
		{"not asked", nil, serving{}, "True Certified"},
		{"no cert-manager", &issuedCertificate{missing: true}, serving{}, "False APIMissing"},
		{"a Secret in the way", &issuedCertificate{foreign: true}, serving{}, "False NameConflict"},
		{"cert-manager can't", &issuedCertificate{failure: "Pending: no such issuer"}, serving{}, "False IssuerNotReady"},
		{"cert-manager can't any more", &issuedCertificate{failure: "Failed", candidate: candidate}, serving{pair: pair}, "False IssuerNotReady"},
		{"of no use", &issuedCertificate{unusable: errors.New("too few hosts")}, serving{pair: pair}, "False CertificateUnusable"},
		{"soon", &issuedCertificate{}, serving{}, "Unknown Reconciling"},
		{"at work", &issuedCertificate{issuing: true}, serving{}, "Unknown Reconciling"},
		{"at work, for other names than before", &issuedCertificate{issuing: true, unusable: errors.New("too few hosts")}, serving{pair: pair}, "Unknown Reconciling"},
		{"at work, and served", &issuedCertificate{issuing: true, candidate: candidate}, serving{pair: pair}, "True Certified"},
		{"not everywhere yet", &issuedCertificate{candidate: candidate}, serving{}, "Unknown Reconciling"},
		{"served", &issuedCertificate{candidate: candidate}, serving{pair: pair}, "True Certified"},
	} {
		got := certified(c.issued, c.served)
		if is := string(got.Status) + " " + got.Reason; is != c.want {
			t.Errorf("%s: %s, want %s", c.name, is, c.want)
		}
		if got.Status == metav1.ConditionFalse && !strings.Contains(got.Message, "meanwhile the instances use") {
			t.Errorf("%s: %q does not say what is served", c.name, got.Message)
		}
	}
}

// TestProgress has conditions as cert-manager writes them.
func TestProgress(t *testing.T) {
	condition := func(kind, status, reason, message string) map[string]any {
		return map[string]any{"type": kind, "status": status, "reason": reason, "message": message,
			"lastTransitionTime": newYear.Format(time.RFC3339)}
	}
	missing := condition("Ready", "False", "DoesNotExist", "Issuing certificate as Secret does not exist")
	working := condition("Issuing", "True", "DoesNotExist", "Issuing certificate as Secret does not exist")
	failed := condition("Issuing", "False", "Failed", "The certificate request has failed to complete and will be retried: names")
	const told = "DoesNotExist: Issuing certificate as Secret does not exist"
	for _, c := range []struct {
		name       string
		after      time.Duration
		conditions []any
		making     bool
		refused    string
	}{
		{"not looked at", 0, nil, false, ""},
		{"just asked", 0, []any{missing, working}, true, ""},
		{"by a clock that is ahead", -time.Second, []any{missing, working}, true, ""},
		{"still at work", issueTimeout - time.Second, []any{working, missing}, true, ""},
		{"for too long", issueTimeout, []any{missing, working},
			false, told + "; see: kubectl -n shop describe certificaterequests -l fettle.dev/owner-name=orders"},
		{"not at work yet", 0, []any{missing}, false, told},
		{"tried and failed", 0, []any{missing, failed}, false, "Failed: The certificate request has failed to complete and will be retried: names"},
		{"issued, and the Secret is gone", 0, []any{missing, condition("Issuing", "False", "Issued", "issued")}, false, told},
		{"ready", time.Hour, []any{condition("Ready", "True", "Ready", "up to date")}, false, ""},
		{"ready, and renewed", time.Hour, []any{condition("Ready", "True", "Ready", "up to date"), working}, false, ""},
		{"ready, and not renewed", time.Hour, []any{condition("Ready", "True", "Ready", "up to date"), failed}, false, ""},
		{"unknown", time.Hour, []any{condition("Ready", "Unknown", "", "")}, false, ""},
		{"at work since nobody knows when", 0, []any{missing, map[string]any{"type": "Issuing", "status": "True"}},
			false, told + "; see: kubectl -n shop describe certificaterequests -l fettle.dev/owner-name=orders"},
	} {
		certificate := &unstructured.Unstructured{Object: map[string]any{}}
		certificate.SetNamespace("shop")
		certificate.SetLabels(map[string]string{"fettle.dev/owner-name": "orders"})
		if c.conditions != nil {
			certificate.Object["status"] = map[string]any{"conditions": c.conditions}
		}
		if making, refused := issuanceState(certificate, newYear.Add(c.after)); making != c.making || refused != c.refused {
			t.Errorf("%s: %t, %q, want %t, %q", c.name, making, refused, c.making, c.refused)
		}
	}
}
