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

// Bundle joins certificates (PEM) in order, without duplicates.
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

// Contains returns whether a bundle contains all certificates of part (both PEM).
func Contains(bundle, part []byte) bool {
	have := certificateBlocks(bundle)
	return !slices.ContainsFunc(certificateBlocks(part), func(block []byte) bool {
		return !slices.ContainsFunc(have, func(known []byte) bool { return bytes.Equal(known, block) })
	})
}

// certificateBlocks are the certificates of a bundle. Other blocks are ignored.
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

// CheckServer checks a server certificate that an external CA (PEM) issued. It returns an error if the pair is invalid,
// does not match, is not signed by the CA, lacks one of the hosts, or has expired. Intermediate certificates may follow,
// and the key can be of any kind.
func CheckServer(pair Pair, ca []byte, hosts []string, now time.Time) error {
	leaf, options, err := parseChain(pair, ca, now)
	if err != nil {
		return err
	}
	options.KeyUsages = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	if _, err := leaf.Verify(options); err != nil {
		return fmt.Errorf("verify the certificate: %w", err)
	}
	for _, host := range hosts {
		if !coversHost(leaf, host) {
			return fmt.Errorf("the certificate is not valid for host %s", host)
		}
	}
	return nil
}

// CheckUsable checks whether a pair is usable at a time. It returns an error if the pair is invalid, does not match, is not
// signed by one of the CAs (PEM), or has expired. It accepts the same pairs as CheckServer, for any key usage.
func CheckUsable(pair Pair, cas []byte, now time.Time) error {
	leaf, options, err := parseChain(pair, cas, now)
	if err != nil {
		return err
	}
	if now.After(leaf.NotAfter) {
		return fmt.Errorf("the certificate expired at %s: renew it", leaf.NotAfter.UTC().Format(time.RFC3339))
	}
	options.KeyUsages = []x509.ExtKeyUsage{x509.ExtKeyUsageAny}
	if _, err := leaf.Verify(options); err != nil {
		return fmt.Errorf("the certificate is not signed by the CA in ca.crt: %w", err)
	}
	return nil
}

// parseChain returns the certificate of a pair and the options to verify it: CAs and intermediates.
func parseChain(pair Pair, cas []byte, now time.Time) (*x509.Certificate, x509.VerifyOptions, error) {
	options := x509.VerifyOptions{Intermediates: x509.NewCertPool(), CurrentTime: now}
	chain, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		return nil, options, errors.New("the certificate or its key is invalid, or they do not match") // the reason could quote the key
	}
	for _, der := range chain.Certificate[1:] {
		if certificate, err := x509.ParseCertificate(der); err == nil {
			options.Intermediates.AddCert(certificate)
		}
	}
	options.Roots, err = Pool(cas)
	return chain.Leaf, options, err
}
