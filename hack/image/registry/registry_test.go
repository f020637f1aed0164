package registry

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
)

// start serves the registry in dir over TLS on a loopback port. It returns a client that trusts the registry, and a stop function.
func start(t *testing.T, dir string) (*Client, func()) {
	t.Helper()
	handler, err := New(dir, log.New(io.Discard, "", 0))
	if err != nil {
		t.Fatal(err)
	}
	certificate, ca := selfSigned(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := Serve(ctx, listener, certificate, handler); err != nil {
			t.Error(err)
		}
	})
	stop := func() { cancel(); running.Wait() }
	t.Cleanup(stop)
	client, err := NewClient(listener.Addr().String(), ca)
	if err != nil {
		t.Fatal(err)
	}
	return client, stop
}

func selfSigned(t *testing.T) (certificate tls.Certificate, file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, file
}

func randomImage(t *testing.T) v1.Image {
	t.Helper()
	image, err := random.Image(512, 2)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func push(t *testing.T, client *Client, image Pushable, names ...string) {
	t.Helper()
	sent, err := client.Push(t.Context(), image, names...)
	if err != nil {
		t.Fatal(err)
	}
	if !sent {
		t.Fatalf("%v: nothing was sent", names)
	}
}

func wantImage(t *testing.T, client *Client, name string, want Pushable) {
	t.Helper()
	found, err := client.Pull(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	layers, err := found.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		content, err := l.Uncompressed()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, content); err != nil {
			t.Fatal(err)
		}
	}
	got, _ := found.Digest()
	if digest, _ := want.Digest(); got != digest {
		t.Errorf("%s is %s, want %s", name, got, digest)
	}
}

func TestHandler_keepsImagesAfterRestart(t *testing.T) {
	dir := t.TempDir()
	client, stop := start(t, dir)
	first, second := randomImage(t), randomImage(t)
	push(t, client, first, "docker.io/library/nginx:1.27", "nginx:latest")
	index, err := random.Index(128, 1, 2)
	if err != nil {
		t.Fatal(err)
	}
	push(t, client, index, "ghcr.io/fettle-dev/fettle:v0.0.1")
	push(t, client, second, "nginx:latest") // moves the tag
	stop()

	client, stop = start(t, dir)
	wantImage(t, client, "nginx:1.27", first)
	wantImage(t, client, "nginx:latest", second)
	digest, _ := first.Digest()
	wantImage(t, client, "quay.io/library/nginx@"+digest.String(), first)
	ref, err := client.Mirrored("ghcr.io/fettle-dev/fettle:v0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	found, err := remote.Index(ref, client.options(t.Context())...)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := found.Digest(); got != must(index.Digest()) {
		t.Errorf("the index is %s after a restart", got)
	}
	if sent, err := client.Push(t.Context(), first, "nginx:1.27"); err != nil || sent {
		t.Errorf("a push of an existing image: sent=%t, err=%v", sent, err)
	}

	if err := remote.Delete(must(client.Mirrored("nginx:1.27")), client.options(t.Context())...); err != nil {
		t.Fatal(err)
	}
	stop()
	client, _ = start(t, dir)
	if _, err := client.Pull(t.Context(), "nginx:1.27"); err == nil {
		t.Error("a deleted tag is back after a restart")
	}
	wantImage(t, client, "nginx:latest", second)
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

// Several concurrent layers, each larger than the flow-control window of a connection.
func TestServe_concurrentLargeLayers(t *testing.T) {
	client, _ := start(t, t.TempDir())
	image, err := random.Image(8<<20, 5)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := client.Push(ctx, image, "nginx:large"); err != nil {
		t.Fatal(err)
	}
	wantImage(t, client, "nginx:large", image)
}

func TestNew_ignoresInterruptedWrite(t *testing.T) {
	dir := t.TempDir()
	client, stop := start(t, dir)
	image := randomImage(t)
	push(t, client, image, "nginx:latest")
	stop()
	part := filepath.Join(dir, "manifests", "half.json.part")
	if err := os.WriteFile(part, []byte(`{"path":`), 0o644); err != nil {
		t.Fatal(err)
	}
	client, _ = start(t, dir)
	wantImage(t, client, "nginx:latest", image)
	if _, err := os.Stat(part); err == nil {
		t.Error("the interrupted write was not removed")
	}
}

func TestClient_rejectsUntrustedCertificate(t *testing.T) {
	trusted, _ := start(t, t.TempDir())
	client, err := NewClient(trusted.host, "")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Push(t.Context(), randomImage(t), "nginx:latest"); err == nil {
		t.Error("the push to a server with an untrusted certificate succeeded")
	}
}

func TestMirrored(t *testing.T) {
	client, err := NewClient("172.30.0.1:5000", "")
	if err != nil {
		t.Fatal(err)
	}
	for image, want := range map[string]string{
		"nginx":                            "172.30.0.1:5000/library/nginx:latest",
		"docker.io/library/nginx:1.27":     "172.30.0.1:5000/library/nginx:1.27",
		"ghcr.io/fettle-dev/fettle:v0.0.1": "172.30.0.1:5000/fettle-dev/fettle:v0.0.1",
		"registry.k8s.io/pause:3.10":       "172.30.0.1:5000/pause:3.10",
	} {
		got, err := client.Mirrored(image)
		if err != nil {
			t.Fatal(err)
		}
		if got.Name() != want {
			t.Errorf("%s is stored as %s, want %s", image, got.Name(), want)
		}
	}
	if _, err := client.Mirrored("not a name"); err == nil {
		t.Error("a name with spaces was accepted")
	}
}
