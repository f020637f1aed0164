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

func TestParseClaim(t *testing.T) {
	for name, want := range map[string][2]int{
		"data-pg-0": {1, 0}, "data-2-pg-3": {2, 3}, "data-999-pg-8": {999, 8},
		"data-1-pg-0": {}, "data-02-pg-0": {}, "data-0-pg-0": {}, "data--2-pg-0": {}, "data-x-pg-0": {}, "data-pg-00": {}, "data-2-other-0": {},
		"logs-pg-0": {}, "data-2": {}, "data-": {}, "pg-0": {}, "data-2-pg": {}, "data-2-data-pg-0": {},
	} {
		volumes, ordinal, ok := ParseClaim("pg", name)
		if ok != (want[0] > 0) || ok && (volumes != want[0] || ordinal != want[1]) {
			t.Errorf("%s: %d, %d, %t", name, volumes, ordinal, ok)
		}
		if ok && Claim("pg", volumes, ordinal) != name {
			t.Errorf("%s is named %s", name, Claim("pg", volumes, ordinal))
		}
	}
}
