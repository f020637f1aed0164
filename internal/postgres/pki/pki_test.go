package pki

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func newCA(t *testing.T, now time.Time) *CA {
	t.Helper()
	ca, err := NewCA("orders", now)
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func must(t *testing.T) func(Pair, error) Pair {
	return func(pair Pair, err error) Pair {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return pair
	}
}

func TestCheck(t *testing.T) {
	ca, other := newCA(t, start), newCA(t, start)
	hosts := Hosts("orders", "shop")
	server := must(t)(ca.Server(hosts, start))
	client := must(t)(ca.Client(Replication, start))
	for _, c := range []struct {
		name  string
		pair  Pair
		ca    []byte
		as    string
		hosts []string
		at    time.Time
		want  string
	}{
		{"server", server, ca.Certificate, Agent, hosts, start, ""},
		{"a pod", server, ca.Certificate, Agent, []string{"orders-7.orders-pods.shop.svc"}, start, ""},
		{"a clock behind", server, ca.Certificate, Agent, nil, start.Add(-30 * time.Minute), ""},
		{"client", client, ca.Certificate, Replication, nil, start, ""},
		{"another host", server, ca.Certificate, Agent, []string{"orders.bank.svc"}, start, "host orders.bank.svc"},
		{"a client has no host", client, ca.Certificate, Replication, hosts[:1], start, "host orders"},
		{"another name", client, ca.Certificate, Operator, nil, start, `not for "fettle-operator"`},
		{"over", server, ca.Certificate, Agent, nil, start.Add(Lifetime + time.Second), "expired"},
		{"another CA", server, other.Certificate, Agent, nil, start, "unknown authority"},
		{"no CA", server, nil, Agent, nil, start, "no PEM certificate"},
		{"another key", Pair{server.Certificate, client.Key}, ca.Certificate, Agent, nil, start, "do not match"},
		{"no key", Pair{Certificate: server.Certificate}, ca.Certificate, Agent, nil, start, "the key is not a PEM block"},
		{"no certificate", Pair{Key: server.Key}, ca.Certificate, Agent, nil, start, "the certificate is not a PEM block"},
		{"cut", Pair{server.Certificate, server.Key[:60]}, ca.Certificate, Agent, nil, start, "the key is not a PEM block"},
	} {
		err := Check(c.pair, c.ca, c.as, c.hosts, c.at)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if err != nil && bytes.Contains([]byte(err.Error()), server.Key[40:60]) {
			t.Errorf("%s: the message quotes the key", c.name)
		}
	}
}

func TestNeedsRenewal(t *testing.T) {
	ca := newCA(t, start)
	server := must(t)(ca.Server(nil, start))
	for _, c := range []struct {
		name        string
		certificate []byte
		at          time.Time
		want        bool
	}{
		{"new", server.Certificate, start, false},
		{"31 days left", server.Certificate, start.Add(Lifetime - 31*24*time.Hour), false},
		{"29 days left", server.Certificate, start.Add(Lifetime - 29*24*time.Hour), true},
		{"damaged", []byte("x"), start, true},
		{"CA, new", ca.Certificate, start, false},
		{"CA, 3 years left", ca.Certificate, start.Add(CALifetime * 7 / 10), true},
	} {
		if got := NeedsRenewal(c.certificate, c.at); got != c.want {
			t.Errorf("%s: due %v, want %v", c.name, got, c.want)
		}
	}
}

func TestCA_renew(t *testing.T) {
	old := newCA(t, start)
	later := start.Add(CALifetime - 24*time.Hour)
	renewed, err := old.Renew(later)
	if err != nil {
		t.Fatal(err)
	}
	ofOld, ofNew := must(t)(old.Client(Operator, later)), must(t)(renewed.Client(Operator, later))
	for _, pair := range []Pair{ofOld, ofNew} {
		for _, ca := range []*CA{old, renewed} {
			if err := Check(pair, ca.Certificate, Operator, nil, later); err != nil {
				t.Error(err)
			}
		}
	}
	end := start.Add(CALifetime + time.Hour)
	if Check(ofOld, renewed.Certificate, Operator, nil, end) == nil {
		t.Error("a certificate outlives the CA that signed it")
	}
	if err := Check(ofNew, renewed.Certificate, Operator, nil, end); err != nil {
		t.Error(err)
	}
}

func TestParseCA(t *testing.T) {
	ca := newCA(t, start)
	if _, err := ParseCA(ca.Pair); err != nil {
		t.Error(err)
	}
	if _, err := ParseCA(must(t)(ca.Client(Operator, start))); err == nil {
		t.Error("a client certificate was accepted as a CA")
	}
}

// TestHandshake connects two instances over TLS, as server and client.
func TestHandshake(t *testing.T) {
	ca := newCA(t, time.Now())
	server := must(t)(ca.Server(Hosts("orders", "shop"), time.Now()))
	for name, pair := range map[string]Pair{Agent: server, Operator: must(t)(ca.Client(Operator, time.Now()))} {
		if got := handshake(t, ca, server, pair); got != name {
			t.Errorf("the server saw %q, want %q", got, name)
		}
	}
}

func handshake(t *testing.T, ca *CA, server, client Pair) string {
	t.Helper()
	roots, err := Pool(ca.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	a, b := net.Pipe()
	seen := make(chan string, 1)
	go func() {
		conn := tls.Server(a, &tls.Config{Certificates: keyPair(t, server), ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert})
		defer func() { _ = conn.Close() }()
		if err := conn.HandshakeContext(t.Context()); err != nil {
			seen <- err.Error()
			return
		}
		seen <- conn.ConnectionState().PeerCertificates[0].Subject.CommonName
	}()
	conn := tls.Client(b, &tls.Config{Certificates: keyPair(t, client), RootCAs: roots, ServerName: "orders-0.orders-pods.shop.svc"})
	_, _ = io.ReadAll(conn)
	return <-seen
}

func keyPair(t *testing.T, pair Pair) []tls.Certificate {
	t.Helper()
	loaded, err := tls.X509KeyPair(pair.Certificate, pair.Key)
	if err != nil {
		t.Error(err)
	}
	if _, err := x509.ParseCertificate(loaded.Certificate[0]); err != nil {
		t.Error(err)
	}
	return []tls.Certificate{loaded}
}
