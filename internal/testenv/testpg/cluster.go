package testpg

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/config"
	"github.com/fettle-dev/fettle/internal/postgres/server"
)

// CA signs the certificates of a test's instances.
type CA struct {
	dir  string
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
}

// NewCA creates a CA with certificates for a server at 127.0.0.1 or localhost, and for config.ReplicationUser.
func NewCA(t testing.TB) *CA {
	t.Helper()
	ca := &CA{dir: Dir(t)}
	ca.cert, ca.key = ca.sign(t, "ca", &x509.Certificate{
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign, Subject: pkix.Name{CommonName: "test CA"},
	})
	ca.sign(t, "server", &x509.Certificate{
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, Subject: pkix.Name{CommonName: "server"},
	})
	ca.ClientCert(t, config.ReplicationUser)
	return ca
}

// ClientCert creates the certificate of a role, in the files role.crt and role.key.
func (ca *CA) ClientCert(t testing.TB, role string) {
	t.Helper()
	ca.sign(t, role, &x509.Certificate{ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}, Subject: pkix.Name{CommonName: role}})
}

// File is the path of one of the CA's files.
func (ca *CA) File(name string) string { return filepath.Join(ca.dir, name) }

func (ca *CA) sign(t testing.TB, name string, template *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber, template.NotBefore, template.NotAfter = serial, time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, signer := ca.cert, ca.key
	if parent == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, &key.PublicKey, signer)
	if err != nil {
		t.Fatal(err)
	}
	encoded, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	ca.write(t, name+".crt", "CERTIFICATE", der)
	ca.write(t, name+".key", "EC PRIVATE KEY", encoded)
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func (ca *CA) write(t testing.TB, name, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(ca.File(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
	if c := Credential(t); c != nil {
		if err := os.Chown(ca.File(name), int(c.Uid), int(c.Gid)); err != nil {
			t.Fatal(err)
		}
	}
}

// EnableTLS configures an instance with certificates of the CA.
func (ca *CA) EnableTLS(i *Instance) {
	i.Settings.TLS = config.TLS{CertFile: ca.File("server.crt"), KeyFile: ca.File("server.key"), CAFile: ca.File("ca.crt")}
}

// Upstream is the connection to an instance for a standby.
func (ca *CA) Upstream(i *Instance) config.Upstream {
	return config.Upstream{
		Host: "127.0.0.1", Port: i.Settings.Port,
		CertFile: ca.File(config.ReplicationUser + ".crt"), KeyFile: ca.File(config.ReplicationUser + ".key"), CAFile: ca.File("ca.crt"),
	}
}

// Source is the connection to an instance for a base backup.
func (ca *CA) Source(i *Instance, name string) server.Source {
	return server.Source{Upstream: ca.Upstream(i), ApplicationName: name}
}

// Primary starts a new primary with TLS and Fettle's roles.
func (ca *CA) Primary(t testing.TB, name string) *Instance {
	t.Helper()
	i := New(t, name)
	ca.EnableTLS(i)
	if err := i.Init(t.Context(), server.InitOptions{WALSegmentSize: 1}); err != nil {
		t.Fatal(err)
	}
	i.Start(t)
	if err := i.Client(t).Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	return i
}

// Standby starts a new standby that streams from a primary.
func (ca *CA) Standby(t testing.TB, name string, primary *Instance) *Instance {
	t.Helper()
	i := New(t, name)
	ca.EnableTLS(i)
	if err := i.Clone(t.Context(), ca.Source(primary, name)); err != nil {
		t.Fatal(err)
	}
	i.Settings.Upstream = new(ca.Upstream(primary))
	i.Start(t)
	return i
}
