package agentapi

import (
	"encoding/json"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/fettle-dev/fettle/internal/postgres/pki"
)

const host = "orders-0.orders-pods.shop.svc"

// newCA creates a CA and a directory with an agent's certificate.
func newCA(t *testing.T) (*pki.CA, string) {
	t.Helper()
	a, err := pki.NewCA("orders", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return a, folder(t, a)
}

func folder(t *testing.T, a *pki.CA) string {
	t.Helper()
	dir := t.TempDir()
	write(t, dir, a, issue(t, a, pki.Agent))
	return dir
}

func issue(t *testing.T, a *pki.CA, name string) pki.Pair {
	t.Helper()
	pair, err := a.Client(name, time.Now())
	if name == pki.Agent {
		pair, err = a.Server(pki.Hosts("orders", "shop"), time.Now())
	}
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

func write(t *testing.T, dir string, a *pki.CA, pair pki.Pair) {
	t.Helper()
	for name, content := range map[string][]byte{"tls.crt": pair.Certificate, "tls.key": pair.Key, "ca.crt": a.Certificate} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// serve runs an agent's server on loopback and returns its address. Agents and the operator may read the status, and only
// the operator may apply desired objects.
func serve(t *testing.T, files *CertFiles) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+PathStatus, RequireCommonName(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(Status{Pod: "orders-0", Received: 1 << 60})
	}, pki.Agent, pki.Operator))
	mux.HandleFunc("PUT "+PathDesired, RequireCommonName(func(w http.ResponseWriter, r *http.Request) {
		var in Desired
		if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		_ = json.NewEncoder(w).Encode(Result{Items: []Item{{Kind: KindRole, Name: in.Roles[0].Name}}})
	}, pki.Operator))
	return serveAs(t, files, mux)
}

func serveAs(t *testing.T, files *CertFiles, handler http.Handler) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: handler, TLSConfig: files.ServerTLS()}
	go func() { _ = server.ServeTLS(listener, "", "") }()
	t.Cleanup(func() { _ = server.Close() })
	return listener.Addr().String()
}

func newFiles(t *testing.T, dir string) *CertFiles {
	t.Helper()
	files, err := NewCertFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func TestServer_authorization(t *testing.T) {
	a, dir := newCA(t)
	other, foreign := newCA(t)
	address := serve(t, newFiles(t, dir))
	operator := func(a *pki.CA, name string) *Client {
		c, err := NewClient(host, address, issue(t, a, name), a.Certificate)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	for _, c := range []struct {
		name            string
		client          *Client
		status, desired string
	}{
		{"agent", newFiles(t, dir).NewClient(host, address), "", "403"},
		{"operator", operator(a, pki.Operator), "", ""},
		{"standby", operator(a, pki.Replication), "403", "403"},
		{"agent of another cluster", newFiles(t, foreign).NewClient(host, address), "unknown authority", "unknown authority"},
		{"operator of another cluster", operator(other, pki.Operator), "unknown authority", "unknown authority"},
		{"agent under another name", newFiles(t, dir).NewClient("orders-0.orders-pods.bank.svc", address), "not orders-0", "not orders-0"},
	} {
		status, err := c.client.Status(t.Context())
		expect(t, c.name+", status", err, c.status)
		if err == nil && (status.Pod != "orders-0" || status.Received != 1<<60) {
			t.Errorf("%s: status %+v", c.name, status)
		}
		result, err := c.client.ApplyDesired(t.Context(), Desired{Roles: []DesiredRole{{Name: "app"}}})
		expect(t, c.name+", desired", err, c.desired)
		if err == nil && result.Items[0].Name != "app" {
			t.Errorf("%s: result %+v", c.name, result)
		}
		c.client.Close()
	}
}

func expect(t *testing.T, name string, err error, want string) {
	t.Helper()
	if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v, want %q", name, err, want)
	}
}

// TestClient_rejectsOtherCertificates: a server with another certificate of the CA is not accepted as an agent.
func TestClient_rejectsOtherCertificates(t *testing.T) {
	a, dir := newCA(t)
	wrong := t.TempDir()
	write(t, wrong, a, issue(t, a, pki.Operator))
	_, err := newFiles(t, dir).NewClient(host, serve(t, newFiles(t, wrong))).Status(t.Context())
	if err == nil {
		t.Error("the operator's certificate was accepted as an agent's")
	}
}

// TestCertFiles_reload replaces the certificates of both sides, like the renewal of a Secret.
func TestCertFiles_reload(t *testing.T) {
	_, dir := newCA(t)
	files := newFiles(t, dir)
	address := serve(t, files)
	next, _ := newCA(t)
	write(t, dir, next, issue(t, next, pki.Agent))
	client, err := NewClient(host, address, issue(t, next, pki.Operator), next.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := client.Status(t.Context()); err == nil {
		t.Error("new files were used before the reload interval")
	}
	files.mutex.Lock()
	files.checked = time.Now().Add(-reloadInterval)
	files.mutex.Unlock()
	if _, err := client.Status(t.Context()); err != nil {
		t.Errorf("with new files: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "tls.key"), []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	files.mutex.Lock()
	files.checked = time.Now().Add(-reloadInterval)
	files.mutex.Unlock()
	client.Close()
	if _, err := client.Status(t.Context()); err != nil {
		t.Errorf("damaged files were used: %v", err)
	}
	if _, err := NewCertFiles(dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("damaged files: %v", err)
	}
}

func TestOrdinal(t *testing.T) {
	for pod, want := range map[string]int{"orders-0": 0, "orders-12": 12, "orders-x": -1, "orders-01": -1, "orders": -1, "other-1": -1, "orders--1": -1} {
		got, ok := Ordinal("orders", pod)
		if ok != (want >= 0) || ok && got != want {
			t.Errorf("%s: %d, %v", pod, got, ok)
		}
	}
}
