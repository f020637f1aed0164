package pki

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"
)

// NeedsRenewal returns whether a certificate (PEM) needs renewal: at most a third of its lifetime is left, or it is
// invalid.
func NeedsRenewal(certificate []byte, now time.Time) bool {
	return !now.Before(RenewalTime(certificate))
}

// RenewalTime returns when a certificate (PEM) needs renewal. It is zero if the certificate is invalid.
func RenewalTime(certificate []byte) time.Time {
	parsed, err := parseCertificate(certificate)
	if err != nil {
		return time.Time{}
	}
	return parsed.NotAfter.Add(-parsed.NotAfter.Sub(parsed.NotBefore) / renewalFraction)
}

// Validity returns the validity of a certificate (PEM), the first one of several.
func Validity(certificate []byte) (from, to time.Time, err error) {
	parsed, err := parseCertificate(certificate)
	if err != nil {
		return time.Time{}, time.Time{}, err
	}
	return parsed.NotBefore, parsed.NotAfter, nil
}

// Check checks whether a pair of the cluster's CA is usable at a time for a common name. It returns an error if the pair is
// invalid, does not match, is not signed by the CA (PEM), lacks one of the hosts, or has expired.
func Check(pair Pair, ca []byte, name string, hosts []string, now time.Time) error {
	certificate, _, err := parse(pair)
	if err != nil {
		return err
	}
	if got := certificate.Subject.CommonName; got != name {
		return fmt.Errorf("the certificate is for %q, not for %q", got, name)
	}
	roots, err := Pool(ca)
	if err != nil {
		return err
	}
	options := x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if _, err := certificate.Verify(options); err != nil {
		return fmt.Errorf("verify the certificate of %s: %w", name, err)
	}
	for _, host := range hosts {
		if !coversHost(certificate, host) {
			return fmt.Errorf("the certificate of %s is not valid for host %s", name, host)
		}
	}
	return nil
}

// coversHost compares wildcards literally, and other names like a TLS client.
func coversHost(certificate *x509.Certificate, host string) bool {
	return slices.Contains(certificate.DNSNames, host) || certificate.VerifyHostname(host) == nil
}

// Pool parses CA certificates (PEM).
func Pool(cas []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(cas) {
		return nil, errors.New("CA: no PEM certificate found")
	}
	return pool, nil
}

func parse(pair Pair) (*x509.Certificate, crypto.Signer, error) {
	certificate, err := parseCertificate(pair.Certificate)
	if err != nil {
		return nil, nil, err
	}
	block, _ := pem.Decode(pair.Key)
	if block == nil || block.Type != typeKey {
		return nil, nil, fmt.Errorf("the key is not a PEM block %q", typeKey)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, nil, errors.New("the key is invalid") // the reason could quote it
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, nil, errors.New("the key is not ECDSA")
	}
	if !key.PublicKey.Equal(certificate.PublicKey) {
		return nil, nil, errors.New("key and certificate do not match")
	}
	return certificate, key, nil
}

func parseCertificate(in []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(in)
	if block == nil || block.Type != typeCertificate {
		return nil, fmt.Errorf("the certificate is not a PEM block %q", typeCertificate)
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the certificate is invalid: %w", err)
	}
	return certificate, nil
}
