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

func newAuthority(t *testing.T, now time.Time) *Authority {
	t.Helper()
	authority, err := NewAuthority("orders", now)
	if err != nil {
		t.Fatal(err)
	}
	return authority
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
	authority, other := newAuthority(t, start), newAuthority(t, start)
	hosts := Hosts("orders", "shop")
	server := must(t)(authority.Server(hosts, start))
	client := must(t)(authority.Client(Replication, start))
	for _, c := range []struct {
		name      string
		pair      Pair
		authority []byte
		as        string
		hosts     []string
		at        time.Time
		want      string
	}{
		{"server", server, authority.Certificate, Agent, hosts, start, ""},
		{"a pod", server, authority.Certificate, Agent, []string{"orders-7.orders-pods.shop.svc"}, start, ""},
		{"a clock behind", server, authority.Certificate, Agent, nil, start.Add(-30 * time.Minute), ""},
		{"client", client, authority.Certificate, Replication, nil, start, ""},
		{"another host", server, authority.Certificate, Agent, []string{"orders.bank.svc"}, start, "host orders.bank.svc"},
		{"a client has no host", client, authority.Certificate, Replication, hosts[:1], start, "host orders"},
		{"another name", client, authority.Certificate, Operator, nil, start, `not of "fettle-operator"`},
		{"over", server, authority.Certificate, Agent, nil, start.Add(Lifetime + time.Second), "expired"},
		{"another authority", server, other.Certificate, Agent, nil, start, "unknown authority"},
		{"no authority", server, nil, Agent, nil, start, "no certificate"},
		{"another key", Pair{server.Certificate, client.Key}, authority.Certificate, Agent, nil, start, "not of each other"},
		{"no key", Pair{Certificate: server.Certificate}, authority.Certificate, Agent, nil, start, "the key is no block"},
		{"no certificate", Pair{Key: server.Key}, authority.Certificate, Agent, nil, start, "the certificate is no block"},
		{"cut", Pair{server.Certificate, server.Key[:60]}, authority.Certificate, Agent, nil, start, "the key is no block"},
	} {
		err := Check(c.pair, c.authority, c.as, c.hosts, c.at)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if err != nil && bytes.Contains([]byte(err.Error()), server.Key[40:60]) {
			t.Errorf("%s: the message quotes the key", c.name)
		}
	}
}

func TestRenewal(t *testing.T) {
	authority := newAuthority(t, start)
	server := must(t)(authority.Server(nil, start))
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
		{"authority, new", authority.Certificate, start, false},
		{"authority, 3 years left", authority.Certificate, start.Add(AuthorityLifetime * 7 / 10), true},
	} {
		if got := Due(c.certificate, c.at); got != c.want {
			t.Errorf("%s: due %v, want %v", c.name, got, c.want)
		}
	}
}

func TestRenewedAuthority(t *testing.T) {
	old := newAuthority(t, start)
	later := start.Add(AuthorityLifetime - 24*time.Hour)
	renewed, err := old.Renew(later)
	if err != nil {
		t.Fatal(err)
	}
	ofOld, ofNew := must(t)(old.Client(Operator, later)), must(t)(renewed.Client(Operator, later))
	for _, pair := range []Pair{ofOld, ofNew} {
		for _, authority := range []*Authority{old, renewed} {
			if err := Check(pair, authority.Certificate, Operator, nil, later); err != nil {
				t.Error(err)
			}
		}
	}
	end := start.Add(AuthorityLifetime + time.Hour)
	if Check(ofOld, renewed.Certificate, Operator, nil, end) == nil {
		t.Error("a certificate outlives the authority that signed it")
	}
	if err := Check(ofNew, renewed.Certificate, Operator, nil, end); err != nil {
		t.Error(err)
	}
}

func TestParseAuthority(t *testing.T) {
	authority := newAuthority(t, start)
	if _, err := ParseAuthority(authority.Pair); err != nil {
		t.Error(err)
	}
	if _, err := ParseAuthority(must(t)(authority.Client(Operator, start))); err == nil {
		t.Error("a client's certificate was taken for an authority")
	}
}

// TestHandshake has two instances speak TLS with each other, as server and client.
func TestHandshake(t *testing.T) {
	authority := newAuthority(t, time.Now())
	server := must(t)(authority.Server(Hosts("orders", "shop"), time.Now()))
	for name, pair := range map[string]Pair{Agent: server, Operator: must(t)(authority.Client(Operator, time.Now()))} {
		if got := handshake(t, authority, server, pair); got != name {
			t.Errorf("the server saw %q, want %q", got, name)
		}
	}
}

func handshake(t *testing.T, authority *Authority, server, client Pair) string {
	t.Helper()
	roots, err := Pool(authority.Certificate)
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
