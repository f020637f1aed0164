package postgresql

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgconn"
	corev1 "k8s.io/api/core/v1"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
)

// TestNothingUnwrittenIsTold holds that the primary learns of no password that is not in a Secret yet.
func TestNothingUnwrittenIsTold(t *testing.T) {
	pg := wanting(1)
	pg.Spec.DatabaseName = "app"
	made := credentialsOf(pg)[0]
	if err := made.load(nil, false); err != nil {
		t.Fatal(err)
	}
	live := made.object(pg, nil)
	load := func() *inputs {
		in := &inputs{objectsHash: "hash", credentials: credentialsOf(pg), passwords: map[string]password{"app": {version: "1"}}}
		if err := in.loadCredentials([]*corev1.Secret{live}, false); err != nil {
			t.Fatal(err)
		}
		return in
	}
	if in := load(); in.objectsHash == "" || in.rotating {
		t.Error("a Secret that stays as it is keeps the primary from being told")
	}
	live.Annotations = map[string]string{databasev1alpha1.AnnotationRotate: "1"}
	if in := load(); in.objectsHash != "" || !in.rotating {
		t.Error("a password is told before it is written")
	}
	next := made
	if err := next.load(live, false); err != nil {
		t.Fatal(err)
	}
	live.Data = next.object(pg, nil).Data
	in := load()
	if p := in.passwords["app"]; in.objectsHash == "" || p.value != made.password || p.second != string(live.Data[keyNext]) {
		t.Errorf("told %v, of the role %v", in.objectsHash != "", p.value == made.password)
	}
}

// TestCredentials_sslMode has the Secret that clients read say how to verify the server, and with what; one that an earlier
// version made stays as it is, to the byte, until its user decides.
func TestCredentials_sslMode(t *testing.T) {
	pg := wanting(1)
	pg.Spec.DatabaseName = "app"
	written := func(live *corev1.Secret) map[string][]byte {
		t.Helper()
		c := credentialsOf(pg)[0]
		if err := c.load(live, true); err != nil {
			t.Fatal(err)
		}
		return c.object(pg, []byte("roots")).Data
	}
	fresh := written(nil)
	earlier := maps.Clone(fresh)
	delete(earlier, "sslmode")
	delete(earlier, "ca.crt")
	for _, key := range []string{"uri", "jdbc-uri"} {
		earlier[key] = []byte(strings.ReplaceAll(string(fresh[key]), "sslmode=verify-full", "sslmode=require"))
	}
	for mode, want := range map[string]string{"verify-full": "verify-full", "verify-ca": "verify-ca", "require": "require", "disable": "verify-full", "": "verify-full"} {
		live := &corev1.Secret{Data: maps.Clone(earlier)}
		live.Data["sslmode"] = []byte(mode)
		got := written(live)
		if string(got["sslmode"]) != want || string(got["ca.crt"]) != "roots" || !bytes.HasSuffix(got["uri"], []byte("?sslmode="+want)) ||
			!bytes.Contains(got["jdbc-uri"], []byte("sslmode="+want+"&")) {
			t.Errorf("asked for %q: %s", mode, got)
		}
		if diff := cmp.Diff(fresh, got); want == sslModes[0] && diff != "" {
			t.Errorf("not as a new one (-new +changed):\n%s", diff)
		}
	}
	if diff := cmp.Diff(earlier, written(&corev1.Secret{Data: earlier})); diff != "" {
		t.Errorf("an earlier version's changes (-want +got):\n%s", diff)
	}
}

// TestCredentials_verify holds that the host that clients are told of is in the server's certificate, for the authority they get.
func TestCredentials_verify(t *testing.T) {
	pg := wanting(1)
	pg.Spec.DatabaseName = "app"
	certificates, err := ensureCertificates(pg, nil, nil, nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	roots := certificates.serving.next(certificates.ca.Certificate, nil, false, time.Now()).roots
	c := credentialsOf(pg)[0]
	if err := c.load(nil, true); err != nil {
		t.Fatal(err)
	}
	data := c.object(pg, roots).Data
	file := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, data["ca.crt"], 0o600); err != nil {
		t.Fatal(err)
	}
	client, err := pgconn.ParseConfig(string(data["uri"]) + "&sslrootcert=" + file)
	if err != nil {
		t.Fatal(err)
	}
	block, _ := pem.Decode(certificates.server.Certificate)
	server, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	for _, host := range []string{client.TLSConfig.ServerName, string(data["read-host"])} {
		if _, err := server.Verify(x509.VerifyOptions{Roots: client.TLSConfig.RootCAs, DNSName: host}); err != nil {
			t.Errorf("%s: %v", host, err)
		}
	}
}
