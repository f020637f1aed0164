// Package pki makes the local cluster's certificate authority, its certificates and its kubeconfigs.
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
	"os"
	"path/filepath"
	"time"
)

const (
	lifetime = 10 * 365 * 24 * time.Hour
	// renewBefore is how long before its end a certificate is made anew.
	renewBefore = 30 * 24 * time.Hour
)

// Authority signs the cluster's certificates. Its files are ca.crt and ca.key in one folder, beside all that it signs.
type Authority struct {
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
}

// Open reads the authority in dir, and makes it (and dir) if there is none or if it is about to expire.
// Certificates of an authority that was replaced are made anew by Issue.
func Open(dir string) (*Authority, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of certificates: %w", err)
	}
	a := &Authority{dir: dir}
	cert, key, err := readPair(a.file("ca.crt"), a.file("ca.key"))
	if err == nil && time.Until(cert.NotAfter) > renewBefore {
		a.cert, a.key = cert, key
		return a, nil
	}
	if a.key, err = newKey(); err != nil {
		return nil, err
	}
	template, err := newTemplate(pkix.Name{CommonName: "fettle-cluster-ca"})
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	a.cert = template
	if a.cert, err = a.sign(template, a.key); err != nil {
		return nil, err
	}
	return a, a.write("ca", a.cert, a.key)
}

// CertFile is the path of the authority's own certificate.
func (a *Authority) CertFile() string { return a.file("ca.crt") }

// Certificate is the authority's own certificate in PEM.
func (a *Authority) Certificate() []byte { return encode("CERTIFICATE", a.cert.Raw) }

func (a *Authority) file(name string) string { return filepath.Join(a.dir, name) }

func (a *Authority) sign(template *x509.Certificate, key crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, key.Public(), a.key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of %s: %w", template.Subject.CommonName, err)
	}
	return x509.ParseCertificate(der)
}

// write stores a pair as NAME.crt and NAME.key; the key is for its owner alone.
func (a *Authority) write(name string, cert *x509.Certificate, key crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode the key of %s: %w", name, err)
	}
	if err := os.WriteFile(a.file(name+".key"), encode("PRIVATE KEY", der), 0o600); err != nil {
		return fmt.Errorf("write the key of %s: %w", name, err)
	}
	if err := os.WriteFile(a.file(name+".crt"), encode("CERTIFICATE", cert.Raw), 0o644); err != nil {
		return fmt.Errorf("write the certificate of %s: %w", name, err)
	}
	return nil
}

func newKey() (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return key, nil
}

func newTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	now := time.Now()
	return &x509.Certificate{SerialNumber: serial, Subject: subject, NotBefore: now.Add(-time.Hour), NotAfter: now.Add(lifetime)}, nil
}

func encode(kind string, der []byte) []byte {
	return pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
}

func readPair(certFile, keyFile string) (*x509.Certificate, crypto.Signer, error) {
	certDER, err := readPEM(certFile)
	if err != nil {
		return nil, nil, err
	}
	keyDER, err := readPEM(keyFile)
	if err != nil {
		return nil, nil, err
	}
	cert, err := x509.ParseCertificate(certDER)
	if err != nil {
		return nil, nil, fmt.Errorf("parse %s: %w", certFile, err)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(keyDER)
	if err != nil {
		return nil, nil, fmt.Errorf("parse %s: %w", keyFile, err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(cert.PublicKey) {
		return nil, nil, fmt.Errorf("%s is not the key of %s", keyFile, certFile)
	}
	return cert, key, nil
}

func readPEM(file string) ([]byte, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New(file + " holds no PEM block")
	}
	return block.Bytes, nil
}
