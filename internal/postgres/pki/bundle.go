package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Bundle joins certificates (PEM), in their order and each of them once.
func Bundle(parts ...[]byte) []byte {
	var all [][]byte
	for _, part := range parts {
		for _, block := range certificateBlocks(part) {
			if !slices.ContainsFunc(all, func(known []byte) bool { return bytes.Equal(known, block) }) {
				all = append(all, block)
			}
		}
	}
	var out []byte
	for _, block := range all {
		out = append(out, pem.EncodeToMemory(&pem.Block{Type: typeCertificate, Bytes: block})...)
	}
	return out
}

// Contains reports whether a bundle has all certificates of a part (both PEM).
func Contains(bundle, part []byte) bool {
	have := certificateBlocks(bundle)
	return !slices.ContainsFunc(certificateBlocks(part), func(block []byte) bool {
		return !slices.ContainsFunc(have, func(known []byte) bool { return bytes.Equal(known, block) })
	})
}

// certificateBlocks are the certificates of a bundle; what else is in it is passed over.
func certificateBlocks(bundle []byte) [][]byte {
	var out [][]byte
	for {
		var block *pem.Block
		if block, bundle = pem.Decode(bundle); block == nil {
			return out
		}
		if block.Type == typeCertificate {
			out = append(out, block.Bytes)
		}
	}
}

// CheckServer returns why a server can't show a pair that another authority (PEM) has issued, or nil: it is damaged, key and
// certificate are not of each other, the authority did not sign it, it lacks one of the hosts, or its time is over. The
// certificate may be followed by those between it and the authority, and the key be of any kind.
func CheckServer(pair Pair, ca []byte, hosts []string, now time.Time) error {
	leaf, options, err := parseChain(pair, ca, now)
	if err != nil {
		return err
	}
	options.KeyUsages = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	if _, err := leaf.Verify(options); err != nil {
		return fmt.Errorf("the certificate: %w", err)
	}
	for _, host := range hosts {
		if !coversHost(leaf, host) {
			return fmt.Errorf("the certificate is not for host %s", host)
		}
	}
	return nil
}

// CheckUsable returns why others could not rely on a pair at that time, or nil: it is damaged, key and certificate are not of each other,
// none of the authorities (PEM) signed it, or its time is over. It takes the same pairs as CheckServer, for any use.
func CheckUsable(pair Pair, cas []byte, now time.Time) error {
	leaf, options, err := parseChain(pair, cas, now)
	if err != nil {
		return err
	}
	if now.After(leaf.NotAfter) {
		return fmt.Errorf("the certificate ended at %s: it has to be renewed", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	options.KeyUsages = []x509.ExtKeyUsage{x509.ExtKeyUsageAny}
	if _, err := leaf.Verify(options); err != nil {
		return fmt.Errorf("the certificate is not of the authority beside it: %w", err)
	}
	return nil
}

// parseChain returns the certificate of a pair, and what it is verified with: the authorities and those between it and them.
func parseChain(pair Pair, cas []byte, now time.Time) (*x509.Certificate, x509.VerifyOptions, error) {
	options := x509.VerifyOptions{Intermediates: x509.NewCertPool(), CurrentTime: now}
	chain, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		return nil, options, errors.New("the certificate or its key is damaged, or they are not of each other") // the reason could quote the key
	}
	for _, der := range chain.Certificate[1:] {
		if certificate, err := x509.ParseCertificate(der); err == nil {
			options.Intermediates.AddCert(certificate)
		}
	}
	options.Roots, err = Pool(cas)
	return chain.Leaf, options, err
}
