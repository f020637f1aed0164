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

// NeedsRenewal tells whether a certificate (PEM) has to be renewed: a third of its lifetime or less is left, or it can't be read.
func NeedsRenewal(certificate []byte, now time.Time) bool {
	return !now.Before(RenewalTime(certificate))
}

// RenewalTime returns when a certificate (PEM) becomes due, the zero time if it can't be read.
func RenewalTime(certificate []byte) time.Time {
	parsed, err := parseCertificate(certificate)
	if err != nil {
		return time.Time{}
	}
	return parsed.NotAfter.Add(-parsed.NotAfter.Sub(parsed.NotBefore) / renewalFraction)
}

// Validity returns when a certificate (PEM; of several the first) begins and ends.
func Validity(certificate []byte) (from, to time.Time, err error) {
	parsed, err := parseCertificate(certificate)
	if err != nil {
		return time.Time{}, time.Time{}, err
	}
	return parsed.NotBefore, parsed.NotAfter, nil
}

// Check returns why a pair can't be used at that time by whom name says, or nil: it is damaged, key and certificate are
// not of each other, another authority (PEM) signed it, it lacks one of the hosts, or its time is over.
func Check(pair Pair, ca []byte, name string, hosts []string, now time.Time) error {
	certificate, _, err := parse(pair)
	if err != nil {
		return err
	}
	if got := certificate.Subject.CommonName; got != name {
		return fmt.Errorf("the certificate is of %q, not of %q", got, name)
	}
	roots, err := Pool(ca)
	if err != nil {
		return err
	}
	options := x509.VerifyOptions{Roots: roots, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	if _, err := certificate.Verify(options); err != nil {
		return fmt.Errorf("the certificate of %s: %w", name, err)
	}
	for _, host := range hosts {
		if !coversHost(certificate, host) {
			return fmt.Errorf("the certificate of %s is not for host %s", name, host)
		}
	}
	return nil
}

// coversHost compares a wildcard with a wildcard, and all else as a client would.
func coversHost(certificate *x509.Certificate, host string) bool {
	return slices.Contains(certificate.DNSNames, host) || certificate.VerifyHostname(host) == nil
}

// Pool reads one or more authorities (PEM).
func Pool(cas []byte) (*x509.CertPool, error) {
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(cas) {
		return nil, errors.New("authority: no certificate in PEM was found")
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
		return nil, nil, fmt.Errorf("the key is no block %q in PEM", typeKey)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, nil, errors.New("the key is damaged") // the reason could quote it
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok {
		return nil, nil, errors.New("the key is not ECDSA")
	}
	if !key.PublicKey.Equal(certificate.PublicKey) {
		return nil, nil, errors.New("key and certificate are not of each other")
	}
	return certificate, key, nil
}

func parseCertificate(in []byte) (*x509.Certificate, error) {
	block, _ := pem.Decode(in)
	if block == nil || block.Type != typeCertificate {
		return nil, fmt.Errorf("the certificate is no block %q in PEM", typeCertificate)
	}
	certificate, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("the certificate is damaged: %w", err)
	}
	return certificate, nil
}
