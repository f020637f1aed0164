// Package pki creates the certificates of a PostgreSQL cluster: its own CA, the certificate that all its instances share,
// and those of clients without passwords. It has no clock and no I/O except random numbers.
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

// Common names of the cluster's certificates. Servers identify their clients by them. The CA signs no other names.
const (
	// Agent is the common name of the instances, as servers and as clients.
	Agent = "fettle-agent"
	// Operator is the common name of the operator as a client of agents.
	Operator = "fettle-operator"
	// Replication is the role that standbys connect as. `cert` in pg_hba.conf compares it with the common name.
	Replication = "streaming_replica"
)

const (
	// CALifetime is the lifetime of a CA.
	CALifetime = 10 * 365 * 24 * time.Hour
	// Lifetime is the lifetime of all other certificates.
	Lifetime = 90 * 24 * time.Hour
	// clockSkew backdates certificates for nodes whose clock is behind.
	clockSkew = time.Hour
	// renewalFraction is when a certificate is renewed: when 1/renewalFraction of its lifetime is left.
	renewalFraction = 3

	typeCertificate, typeKey = "CERTIFICATE", "PRIVATE KEY"
)

// Pair is a certificate and its key, both in PEM, as in a Secret of type kubernetes.io/tls.
type Pair struct {
	// Certificate is one CERTIFICATE block.
	Certificate []byte
	// Key is one PRIVATE KEY block (PKCS #8).
	Key []byte
}

// CA signs the certificates of one cluster.
type CA struct {
	Pair

	certificate *x509.Certificate
	key         crypto.Signer
}

// NewCA creates a self-signed CA with a new key. The name is for people.
func NewCA(name string, now time.Time) (*CA, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate the CA key: %w", err)
	}
	return selfSigned(name, key, now)
}

// Renew creates a CA certificate with a new lifetime for the same key and name. Certificates signed before and after are
// valid under both, so nothing has to be replaced at the same time.
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

// ParseCA parses the contents of a Secret and rejects certificates that are not a CA.
func ParseCA(pair Pair) (*CA, error) {
	certificate, key, err := parse(pair)
	if err != nil {
		return nil, fmt.Errorf("CA: %w", err)
	}
	if !certificate.IsCA || certificate.KeyUsage&x509.KeyUsageCertSign == 0 {
		return nil, errors.New("CA: the certificate is not a CA certificate")
	}
	return &CA{Pair: pair, certificate: certificate, key: key}, nil
}

// Server creates the certificate that all instances of a cluster share, as servers and as clients. hosts are DNS names
// (`*.` stands for one label) or IP addresses.
func (a *CA) Server(hosts []string, now time.Time) (Pair, error) {
	return a.issue(Agent, hosts, now, x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth)
}

// Client creates a client certificate. name is Operator or Replication.
func (a *CA) Client(name string, now time.Time) (Pair, error) {
	return a.issue(name, nil, now, x509.ExtKeyUsageClientAuth)
}

func (a *CA) issue(name string, hosts []string, now time.Time, usage ...x509.ExtKeyUsage) (Pair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return Pair{}, fmt.Errorf("generate a key for %s: %w", name, err)
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
		return Pair{}, fmt.Errorf("generate a serial number: %w", err)
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
