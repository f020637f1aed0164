package agent

import (
	"encoding/json"
	"net"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/pki"
	"github.com/fettle-dev/fettle/internal/postgres/server"
)

// TestPeers_withoutDNS: DNS is lost after a pod got another address. The agent there is found by what the API server says.
func TestPeers_withoutDNS(t *testing.T) {
	const gone = "127.0.0.2" // where the pod was before: nobody listens
	files := peerFiles(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	other := &http.Server{TLSConfig: files.ServerTLS(), Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(agentapi.Status{Pod: "db-1"})
	})}
	go func() { _ = other.ServeTLS(listener, "", "") }()
	t.Cleanup(func() { _ = other.Close() })
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "db-1"}, Status: corev1.PodStatus{PodIP: "127.0.0.1"}}
	p := &peers{
		files: files, self: "db-0", changed: func() {}, members: map[string]*member{}, urgent: true,
		host:    func(pod string) string { return pod + ".db-pods.shop.svc" },
		address: func(pod string) string { return pod + ".invalid:" + port },
		pods:    fake.NewClientset(pod).CoreV1().Pods("shop"),
	}
	p.SetInstances(t.Context(), []string{"db-0", "db-1"})
	p.member("db-1").client.SetIP(gone)
	for deadline := time.Now().Add(20 * time.Second); p.Answers()["db-1"].At == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("db-1 does not answer: %v", p.Answers()["db-1"].Err)
		}
	}
	if ip := p.IP("db-1"); ip != "127.0.0.1" {
		t.Errorf("replication goes to %s", ip)
	}
}

// peerFiles are the certificate and the authority of the agents of a cluster.
func peerFiles(t *testing.T) *agentapi.CertFiles {
	t.Helper()
	authority, err := pki.NewCA("db", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Server([]string{"db-0.db-pods.shop.svc", "db-1.db-pods.shop.svc"}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{"tls.crt": pair.Certificate, "tls.key": pair.Key, "ca.crt": authority.Certificate} {
		if err := server.WriteFile(filepath.Join(dir, name), content); err != nil {
			t.Fatal(err)
		}
	}
	files, err := agentapi.NewCertFiles(dir)
	if err != nil {
		t.Fatal(err)
	}
	return files
}
