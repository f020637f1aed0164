// Package pki creates the local cluster's CA, certificates and kubeconfigs.
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
	// renewBefore is the remaining lifetime at which a certificate is renewed.
	renewBefore = 30 * 24 * time.Hour
)

// CA signs the cluster's certificates. Its files ca.crt and ca.key are in one directory with all certificates that it signs.
type CA struct {
	dir  string
	cert *x509.Certificate
	key  crypto.Signer
}

// Open reads the CA in dir. It creates the CA (and dir) if the CA does not exist or expires soon. Issue then re-issues the
// certificates of the old CA.
func Open(dir string) (*CA, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("create the directory of certificates: %w", err)
	}
	ca := &CA{dir: dir}
	cert, key, err := readPair(ca.file("ca.crt"), ca.file("ca.key"))
	if err == nil && time.Until(cert.NotAfter) > renewBefore {
		ca.cert, ca.key = cert, key
		return ca, nil
	}
	if ca.key, err = newKey(); err != nil {
		return nil, err
	}
	template, err := newTemplate(pkix.Name{CommonName: "fettle-cluster-ca"})
	if err != nil {
		return nil, err
	}
	template.IsCA, template.BasicConstraintsValid = true, true
	template.KeyUsage = x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature
	ca.cert = template
	if ca.cert, err = ca.sign(template, ca.key); err != nil {
		return nil, err
	}
	return ca, ca.write("ca", ca.cert, ca.key)
}

// CertFile returns the path of the CA certificate.
func (ca *CA) CertFile() string { return ca.file("ca.crt") }

// Certificate returns the CA certificate in PEM.
func (ca *CA) Certificate() []byte { return encode("CERTIFICATE", ca.cert.Raw) }

func (ca *CA) file(name string) string { return filepath.Join(ca.dir, name) }

func (ca *CA) sign(template *x509.Certificate, key crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, ca.cert, key.Public(), ca.key)
	if err != nil {
		return nil, fmt.Errorf("sign the certificate of %s: %w", template.Subject.CommonName, err)
	}
	return x509.ParseCertificate(der)
}

// write stores a certificate and its key as NAME.crt and NAME.key. Only the owner can read the key.
func (ca *CA) write(name string, cert *x509.Certificate, key crypto.Signer) error {
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return fmt.Errorf("encode the key of %s: %w", name, err)
	}
	if err := os.WriteFile(ca.file(name+".key"), encode("PRIVATE KEY", der), 0o600); err != nil {
		return fmt.Errorf("write the key of %s: %w", name, err)
	}
	if err := os.WriteFile(ca.file(name+".crt"), encode("CERTIFICATE", cert.Raw), 0o644); err != nil {
		return fmt.Errorf("write the certificate of %s: %w", name, err)
	}
	return nil
}

func newKey() (crypto.Signer, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate a key: %w", err)
	}
	return key, nil
}

func newTemplate(subject pkix.Name) (*x509.Certificate, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, fmt.Errorf("generate a serial number: %w", err)
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
		return nil, nil, fmt.Errorf("%s does not match the certificate %s", keyFile, certFile)
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
		return nil, errors.New(file + " has no PEM block")
	}
	return block.Bytes, nil
}
