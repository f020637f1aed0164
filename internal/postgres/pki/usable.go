package pki

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// Usable returns why others could not rely on a certificate at that time, or nil: it or its key is damaged, they are not
// of each other, none of the authorities (PEM) signed it, or its time is over. It may be of any kind of key, and be
// followed by the certificates between it and the authority.
func Usable(certificate, key, authorities []byte, now time.Time) error {
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return errors.New("certificate and key are damaged, or not of each other")
	}
	roots, err := Pool(authorities)
	if err != nil {
		return err
	}
	between := x509.NewCertPool()
	for _, der := range pair.Certificate[1:] {
		if parsed, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(parsed)
		}
	}
	leaf := pair.Leaf
	if now.After(leaf.NotAfter) {
		return fmt.Errorf("the certificate ended at %s: it has to be renewed", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	_, err = leaf.Verify(x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageAny}})
	if err != nil {
		return fmt.Errorf("the certificate is not of the authority beside it: %w", err)
	}
	return nil
}
