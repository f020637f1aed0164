package pki

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestBundle(t *testing.T) {
	a, b := newCA(t, start), newCA(t, start)
	noise := []byte("Subject: example\n")
	both := Bundle(a.Certificate, append(noise, b.Certificate...), a.Certificate, nil)
	if want := append(bytes.Clone(a.Certificate), b.Certificate...); !bytes.Equal(both, want) {
		t.Errorf("%s, want %s", both, want)
	}
	for _, c := range []struct {
		name         string
		bundle, part []byte
		want         bool
	}{
		{"both and one", both, b.Certificate, true},
		{"one and both", a.Certificate, both, false},
		{"one and another", a.Certificate, b.Certificate, false},
		{"one and nothing", a.Certificate, nil, true},
		{"nothing and one", nil, a.Certificate, false},
		{"no key is taken for a certificate", Bundle(a.Key), a.Certificate, false},
	} {
		if got := Contains(c.bundle, c.part); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if len(Bundle(a.Key)) > 0 {
		t.Error("a bundle contains a key")
	}
}

func TestCheckServer(t *testing.T) {
	foreign, other := newCA(t, start), newCA(t, start)
	hosts := append(Hosts("orders", "shop"), "db.example.com")
	good := must(t)(foreign.Server(hosts, start))
	client := must(t)(foreign.Client(Operator, start))
	for _, c := range []struct {
		name string
		pair Pair
		ca   []byte
		at   time.Time
		want string
	}{
		{"good", good, foreign.Certificate, start, ""},
		{"with more after it", Pair{append(bytes.Clone(good.Certificate), other.Certificate...), good.Key}, foreign.Certificate, start, ""},
		{"over", good, foreign.Certificate, start.Add(Lifetime + time.Second), "expired"},
		{"not yet", good, foreign.Certificate, start.Add(-2 * time.Hour), "not yet valid"},
		{"another CA", good, other.Certificate, start, "unknown authority"},
		{"no CA", good, nil, start, "no PEM certificate"},
		{"another key", Pair{good.Certificate, client.Key}, foreign.Certificate, start, "do not match"},
		{"a client's", client, foreign.Certificate, start, "incompatible key usage"},
		{"too few hosts", must(t)(foreign.Server(hosts[:3], start)), foreign.Certificate, start, "not valid for host"},
		{"nothing", Pair{}, foreign.Certificate, start, "invalid"},
	} {
		err := CheckServer(c.pair, c.ca, hosts, c.at)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
	}
}
