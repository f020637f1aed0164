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
		for _, block := range blocks(part) {
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
	have := blocks(bundle)
	return !slices.ContainsFunc(blocks(part), func(block []byte) bool {
		return !slices.ContainsFunc(have, func(known []byte) bool { return bytes.Equal(known, block) })
	})
}

// blocks are the certificates of a bundle; what else is in it is passed over.
func blocks(bundle []byte) [][]byte {
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
func CheckServer(pair Pair, authority []byte, hosts []string, now time.Time) error {
	chain, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		return errors.New("the certificate or its key is damaged, or they are not of each other") // the reason could quote the key
	}
	roots, err := Pool(authority)
	if err != nil {
		return err
	}
	between := x509.NewCertPool()
	for _, der := range chain.Certificate[1:] {
		if certificate, err := x509.ParseCertificate(der); err == nil {
			between.AddCert(certificate)
		}
	}
	options := x509.VerifyOptions{Roots: roots, Intermediates: between, CurrentTime: now, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}}
	if _, err := chain.Leaf.Verify(options); err != nil {
		return fmt.Errorf("the certificate: %w", err)
	}
	for _, host := range hosts {
		if !names(chain.Leaf, host) {
			return fmt.Errorf("the certificate is not for host %s", host)
		}
	}
	return nil
}
