// Package pki makes the certificates of a PostgreSQL cluster: an authority of its own, the certificate that all its
// instances serve and know each other by, and those of the clients that use no password. It has no I/O but the system's
// random numbers, and no clock.
package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"time"
)

// Common names of the cluster's certificates. They are what a server tells its clients apart by; any certificate of the
// authority is of one of them.
const (
	// Agent is the name of the instances, as servers and to each other.
	Agent = "fettle-agent"
	// Operator is the name that the operator speaks to agents with.
	Operator = "fettle-operator"
	// Replication is the role of the database that standbys connect as; `cert` in pg_hba.conf compares it.
	Replication = "streaming_replica"
)

const (
	// CALifetime is how long an authority is valid.
	CALifetime = 10 * 365 * 24 * time.Hour
	// Lifetime is how long all other certificates are valid.
	Lifetime = 90 * 24 * time.Hour
	// clockSkew certificates work on nodes whose clock is behind.
	clockSkew = time.Hour
	// renewalFraction is the part of a lifetime that is left when a certificate is due: 1/renewed.
	renewalFraction = 3

	typeCertificate, typeKey = "CERTIFICATE", "PRIVATE KEY"
)

// Pair is a certificate and its key, both in PEM: what a Secret of type kubernetes.io/tls holds.
type Pair struct {
	// Certificate is one block CERTIFICATE.
	Certificate []byte
	// Key is one block PRIVATE KEY, PKCS #8.
	Key []byte
}

// CA signs the certificates of one cluster.
type CA struct {
	Pair

	certificate *x509.Certificate
	key         crypto.Signer
}

// NewCA makes a self-signed authority with a new key. The name is for people.
func NewCA(name string, now time.Time) (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make the authority's key: %w", err)
	}
	return selfSigned(name, key, now)
}

// Renew makes a certificate with a new lifetime for the same key and name. Whatever either of the two signed is good
// under both, so nothing has to be exchanged at once.
func (a *CA) Renew(now time.Time) (*CA, error) {
	return selfSigned(a.certificate.Subject.CommonName, a.key, now)
}

func selfSigned(name string, key crypto.Signer, now time.Time) (*CA, error) {
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              now.Add(CALifetime),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	pair, err := sign(template, template, key, key)
	if err != nil {
		return nil, err
	}
	return ParseCA(pair)
}

// ParseCA reads what a Secret holds, and refuses what is no authority.
func ParseCA(pair Pair) (*CA, error) {
	certificate, key, err := parse(pair)
	if err != nil {
		return nil, fmt.Errorf("authority: %w", err)
	}
	if !certificate.IsCA || certificate.KeyUsage&x509.KeyUsageCertSign == 0 {
		return nil, errors.New("authority: its certificate may not sign others")
	}
	return &CA{Pair: pair, certificate: certificate, key: key}, nil
}

// Server makes the certificate that all instances of a cluster share. They serve with it under each of the hosts, which
// are DNS names (`*.` stands for one label) or IP addresses, and are known by it to each other.
func (a *CA) Server(hosts []string, now time.Time) (Pair, error) {
	return a.issue(Agent, hosts, now, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth)
}

// Client makes a certificate that only opens connections; name is Operator or Replication.
func (a *CA) Client(name string, now time.Time) (Pair, error) {
	return a.issue(name, nil, now, x509.ExtKeyUsageClientAuth)
}

func (a *CA) issue(name string, hosts []string, now time.Time, usage ...x509.ExtKeyUsage) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("make a key for %s: %w", name, err)
	}
	until := now.Add(Lifetime)
	if until.After(a.certificate.NotAfter) {
		until = a.certificate.NotAfter
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             now.Add(-clockSkew),
		NotAfter:              until,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           usage,
		BasicConstraintsValid: true,
	}
	for _, host := range hosts {
		if ip := net.ParseIP(host); ip != nil {
			template.IPAddresses = append(template.IPAddresses, ip)
		} else {
			template.DNSNames = append(template.DNSNames, host)
		}
	}
	return sign(template, a.certificate, key, a.key)
}

func sign(template, parent *x509.Certificate, key, by crypto.Signer) (Pair, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return Pair{}, fmt.Errorf("choose a serial number: %w", err)
	}
	template.SerialNumber = serial.Add(serial, big.NewInt(1))
	certificate, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), by)
	if err != nil {
		return Pair{}, fmt.Errorf("sign the certificate of %s: %w", template.Subject.CommonName, err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return Pair{}, fmt.Errorf("encode the key of %s: %w", template.Subject.CommonName, err)
	}
	return Pair{
		Certificate: pem.EncodeToMemory(&pem.Block{Type: typeCertificate, Bytes: certificate}),
		Key:         pem.EncodeToMemory(&pem.Block{Type: typeKey, Bytes: private}),
	}, nil
}
