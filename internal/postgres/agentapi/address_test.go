package agentapi

import (
	"net/http"
	"strings"
	"testing"
)

// TestClient_withoutDNS: when DNS fails, the last address of the agent is used.
func TestClient_withoutDNS(t *testing.T) {
	_, dir := newCA(t)
	files := newFiles(t, dir)
	address := serve(t, files)
	client := files.NewClient(host, "no-such-agent.invalid:1")
	if _, err := client.Status(t.Context()); err == nil || client.IP() != "" || !client.Unresolved() {
		t.Fatalf("an agent that was never reached: %v, at %q, unresolved: %t", err, client.IP(), client.Unresolved())
	}
	client.lastAddress.Store(&address)
	if _, err := client.Status(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ip := client.IP(); ip != "127.0.0.1" {
		t.Errorf("it was reached at %q", ip)
	}
	byName := files.NewClient(host, address)
	if _, err := byName.Status(t.Context()); err != nil || byName.IP() != "127.0.0.1" || byName.Unresolved() {
		t.Errorf("by its name: %v, at %q, unresolved: %t", err, byName.IP(), byName.Unresolved())
	}
	_, port, _ := strings.Cut(address, ":")
	located := files.NewClient(host, "no-such-agent.invalid:"+port)
	located.SetIP("127.0.0.1")
	if _, err := located.Status(t.Context()); err != nil {
		t.Errorf("at the address from SetIP: %v", err)
	}
}

// TestClient_addressReusedByAnotherAgent: an agent rejects requests for another agent.
func TestClient_addressReusedByAnotherAgent(t *testing.T) {
	_, dir := newCA(t)
	files := newFiles(t, dir)
	asked := 0
	address := serveAs(t, files, RequireHost(host, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked++
		_, _ = w.Write([]byte("{}"))
	})))
	other := files.NewClient("orders-1.orders-pods.shop.svc", "no-such-agent.invalid:1")
	other.lastAddress.Store(&address)
	if _, err := other.Failsafe(t.Context(), FailsafeRequest{}); err == nil || !strings.Contains(err.Error(), "421") {
		t.Errorf("another agent responded: %v", err)
	}
	if other.IP() != "" {
		t.Errorf("its address is still that of the other: %s", other.IP())
	}
	if _, err := files.NewClient(host, address).Status(t.Context()); err != nil || asked != 1 {
		t.Errorf("the one that was meant: %v, asked %d times", err, asked)
	}
}
