package postgresql

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/pki"
	"github.com/fettle-dev/fettle/internal/postgres/scram"
)

const keyAuthority = "ca.crt"

// certificates are what the instances, and the operator as their client, prove themselves with.
type certificates struct {
	ca             *pki.CA
	server, client pki.Pair
	// serving is what clients are shown, and what they trust.
	serving serving
	// renewAt is when the first of them is due.
	renewAt time.Time
}

// ensureCertificates keeps what is good of the Secrets' contents (nil for a Secret that is not there), and makes the rest.
func ensureCertificates(pg *databasev1alpha1.PostgreSQL, authority, server, client *corev1.Secret, now time.Time) (certificates, error) {
	c := certificates{server: pairOf(server), client: pairOf(client), serving: servingOf(server)}
	var err error
	if c.ca, err = caFor(pg, authority, now); err != nil {
		return c, err
	}
	hosts := hostsOf(pg)
	if needsRenewal(c.server, c.ca, pki.Agent, hosts, now) {
		if c.server, err = c.ca.Server(hosts, now); err != nil {
			return c, err
		}
	}
	if needsRenewal(c.client, c.ca, pki.Replication, nil, now) {
		if c.client, err = c.ca.Client(pki.Replication, now); err != nil {
			return c, err
		}
	}
	c.renewAt = pki.RenewalTime(c.ca.Certificate)
	for _, pair := range []pki.Pair{c.server, c.client} {
		if at := pki.RenewalTime(pair.Certificate); at.Before(c.renewAt) {
			c.renewAt = at
		}
	}
	return c, nil
}

// caFor never replaces the key of a readable CA: all certificates that it signed would become invalid.
func caFor(pg *databasev1alpha1.PostgreSQL, live *corev1.Secret, now time.Time) (*pki.CA, error) {
	if live == nil {
		return pki.NewCA(pg.Name+"."+pg.Namespace, now)
	}
	a, err := pki.ParseCA(pairOf(live))
	if err != nil {
		return nil, &caError{live.Name, err}
	}
	if pki.NeedsRenewal(a.Certificate, now) {
		return a.Renew(now)
	}
	return a, nil
}

// caError is a CA that cannot be read. A person has to repair it.
type caError struct {
	secret string
	err    error
}

func (e *caError) Error() string {
	return fmt.Sprintf("secret %q holds no readable CA: %s: restore it, or delete it to get a new CA", e.secret, e.err)
}

func (e *caError) Unwrap() error { return e.err }

// keyedHash is a short hash of what a Secret holds, which changes with that alone. Status shows what is made of it, so it is keyed:
// passwords cannot be guessed from it.
func (c *certificates) keyedHash(s *corev1.Secret) string {
	mac := hmac.New(sha256.New, c.ca.Key)
	_, _ = mac.Write([]byte(hashOf(s.Data)))
	return hex.EncodeToString(mac.Sum(nil)[:8])
}

// salt is that of a login's verifier. Only the CA can compute it until the server shows it, which it does to whoever
// tries to log in: it is of the login and not of its password. That it stays the same has the server see that a password has.
func (c *certificates) salt(login string) []byte {
	mac := hmac.New(sha256.New, c.ca.Key)
	_, _ = mac.Write([]byte("salt of " + login))
	return mac.Sum(nil)[:scram.SaltSize]
}

func needsRenewal(pair pki.Pair, authority *pki.CA, name string, hosts []string, now time.Time) bool {
	return len(pair.Certificate) == 0 || pki.NeedsRenewal(pair.Certificate, now) || pki.Check(pair, authority.Certificate, name, hosts, now) != nil
}

func pairOf(s *corev1.Secret) pki.Pair {
	if s == nil {
		return pki.Pair{}
	}
	return pki.Pair{Certificate: s.Data[corev1.TLSCertKey], Key: s.Data[corev1.TLSPrivateKeyKey]}
}

// secrets are the Secrets with the certificates, as they should be.
func (c *certificates) secrets(pg *databasev1alpha1.PostgreSQL) []*corev1ac.SecretApplyConfiguration {
	object := func(name string, pair pki.Pair, authority []byte) *corev1ac.SecretApplyConfiguration {
		return corev1ac.Secret(name, pg.Namespace).
			WithLabels(labels(pg)).
			WithType(corev1.SecretTypeTLS).
			WithData(map[string][]byte{
				corev1.TLSCertKey: pair.Certificate, corev1.TLSPrivateKeyKey: pair.Key, keyAuthority: authority,
			})
	}
	own := c.ca.Certificate
	server := object(serverSecret(pg), c.server, own).WithAnnotations(c.serving.annotations())
	c.serving.writeTo(server.Data)
	// Standbys verify what the primary shows its clients.
	return []*corev1ac.SecretApplyConfiguration{
		object(authoritySecret(pg), c.ca.Pair, own), server, object(clientSecret(pg), c.client, c.serving.roots),
	}
}
