package pki

import (
	"crypto/x509"
	"net"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/client-go/tools/clientcmd"
)

func open(t *testing.T, dir string) *CA {
	t.Helper()
	ca, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func issue(t *testing.T, ca *CA, r Request) []byte {
	t.Helper()
	pair, err := ca.Issue(r)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(pair.Cert)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestIssue_keepsValidCertificate(t *testing.T) {
	dir := t.TempDir()
	request := Request{Name: "server", CommonName: "server", DNSNames: []string{"localhost"}, IPs: []net.IP{net.ParseIP("127.0.0.1")}}
	first := issue(t, open(t, dir), request)
	if again := issue(t, open(t, dir), request); string(again) != string(first) {
		t.Error("a valid certificate was re-issued")
	}
	request.IPs = append(request.IPs, net.ParseIP("172.30.0.1"))
	if changed := issue(t, open(t, dir), request); string(changed) == string(first) {
		t.Error("a certificate with other IPs was kept")
	}
}

func TestIssue_replacesCertificateOfOldCA(t *testing.T) {
	dir := t.TempDir()
	request := Request{Name: "client", CommonName: "someone", Groups: []string{"group"}}
	first := issue(t, open(t, dir), request)
	if err := os.Remove(filepath.Join(dir, "ca.key")); err != nil {
		t.Fatal(err)
	}
	if after := issue(t, open(t, dir), request); string(after) == string(first) {
		t.Error("a certificate of the old CA was kept")
	}
}

func TestIssue_certificateVerifies(t *testing.T) {
	ca := open(t, t.TempDir())
	issue(t, ca, Request{Name: "server", CommonName: "server", DNSNames: []string{"localhost"}, IPs: []net.IP{net.ParseIP("172.30.0.1")}})
	cert, _, err := readPair(ca.file("server.crt"), ca.file("server.key"))
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.Certificate())
	for _, host := range []string{"localhost", "172.30.0.1"} {
		if _, err := cert.Verify(x509.VerifyOptions{DNSName: host, Roots: roots}); err != nil {
			t.Errorf("for %s: %v", host, err)
		}
	}
	if _, err := cert.Verify(x509.VerifyOptions{DNSName: "example.org", Roots: roots}); err == nil {
		t.Error("the certificate is valid for another host")
	}
}

func TestKubeconfig(t *testing.T) {
	dir := t.TempDir()
	ca := open(t, dir)
	pair, err := ca.Issue(Request{Name: "admin", CommonName: "admin", Groups: []string{"system:masters"}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "kubeconfig")
	if err := os.WriteFile(file, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := ca.Kubeconfig(file, "https://172.30.0.1:6443", "admin", pair); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(file)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm() != 0o600 {
		t.Errorf("mode is %v, want 0600", info.Mode().Perm())
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	if config.Host != "https://172.30.0.1:6443" || len(config.CertData) == 0 || len(config.KeyData) == 0 || len(config.CAData) == 0 {
		t.Errorf("server or certificates are missing: %+v", config)
	}
}

func TestSigningKey_keepsKey(t *testing.T) {
	ca := open(t, t.TempDir())
	private, public, err := ca.SigningKey("service-accounts")
	if err != nil {
		t.Fatal(err)
	}
	before, _ := os.ReadFile(private)
	if _, _, err := ca.SigningKey("service-accounts"); err != nil {
		t.Fatal(err)
	}
	after, _ := os.ReadFile(private)
	if string(before) != string(after) || len(after) == 0 {
		t.Error("the key was regenerated: all tokens would be rejected")
	}
	if _, err := readPEM(public); err != nil {
		t.Error(err)
	}
}
