package postgresql

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/postgres/pki"
)

var update = flag.Bool("update", false, "write the golden files anew")

// testCase is a testdata/*.yaml: a PostgreSQL as the API server returns it, and what else decides its children.
type testCase struct {
	PG                databasev1alpha1.PostgreSQL `json:"pg"`
	MonitoringMissing bool                        `json:"monitoringMissing"`
}

// TestDesired compares what would be sent with testdata/*.golden.yaml; `go test ./controllers/postgresql -update` writes them.
func TestDesired(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cases := 0
	for _, path := range paths {
		if strings.HasSuffix(path, ".golden.yaml") {
			continue
		}
		cases++
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var c testCase
			if err := yaml.UnmarshalStrict(raw, &c); err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(path, ".yaml")+".golden.yaml", c.render(t))
		})
	}
	if cases != 4 {
		t.Errorf("%d cases, want 4", cases)
	}
}

func (c *testCase) render(t *testing.T) string {
	t.Helper()
	in := &inputs{agentImage: "ghcr.io/fettle-dev/fettle:v1", templateSize: c.PG.Spec.Storage, monitoringMissing: c.MonitoringMissing}
	// Keys and certificates differ each time, and have tests of their own.
	in.certificates.authority = &pki.Authority{Pair: pki.Pair{Certificate: []byte("authority"), Key: []byte("key")}}
	count, _ := next(&c.PG, new(assemble(&c.PG, nil, nil, nil, nil, "")))
	var docs []string
	for _, o := range desired(&c.PG, in, count) {
		raw, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, string(raw))
	}
	for _, o := range superfluous(&c.PG, in) {
		docs = append(docs, "# must not exist: "+strings.TrimPrefix(strings.TrimPrefix(cmpKind(o), "*"), "v1.")+"\n")
	}
	return strings.Join(docs, "---\n")
}

func golden(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func TestUser(t *testing.T) {
	for image, want := range map[string]int64{
		"": 999, "postgres:16": 999, "postgres:16-alpine": 70, "registry:5000/alpine/postgres:16": 999, "registry:5000/postgres": 999,
		"docker.io/library/postgres:16-alpine3.20@sha256:01": 70, "postgres@sha256:0a1p1ne": 999,
	} {
		pg := wanting(1)
		pg.Spec.Version, pg.Spec.Image = "16", image
		if got := user(pg); got != want {
			t.Errorf("%q runs as %d, want %d", image, got, want)
		}
	}
}

// TestCertificates follows the certificates through the years: an authority keeps its key, and what is good is kept.
func TestCertificates(t *testing.T) {
	pg := wanting(3)
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	first, err := certify(pg, nil, nil, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	ca, server, client := secretsOf(first)
	again, err := certify(pg, ca, server, client, now.Add(24*time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first.server, again.server); diff != "" || !again.renewAt.Equal(first.renewAt) {
		t.Errorf("a day later (-first +again):\n%s", diff)
	}
	later, err := certify(pg, ca, server, client, first.renewAt)
	if err != nil {
		t.Fatal(err)
	}
	if cmp.Equal(first.server, later.server) || cmp.Equal(first.client, later.client) || !cmp.Equal(first.authority.Pair, later.authority.Pair) {
		t.Error("when they are due, the certificates must be new and the authority the same")
	}
	pg.Spec.TLS.DNSNames = []string{"db.example.com"}
	named, err := certify(pg, ca, server, client, now)
	if err != nil {
		t.Fatal(err)
	}
	if cmp.Equal(first.server, named.server) || !cmp.Equal(first.client, named.client) {
		t.Error("a further name needs a new certificate of the server, and none of the replicas")
	}
	server.Data["tls.key"] = []byte("damaged")
	if repaired, err := certify(pg, ca, server, client, now); err != nil || pki.Check(repaired.server, ca.Data["tls.crt"], pki.Agent, nil, now) != nil {
		t.Error("a damaged certificate was not replaced", err)
	}
	ca.Data["tls.key"] = []byte("damaged")
	if _, err := certify(pg, ca, server, client, now); err == nil || !strings.Contains(err.Error(), `secret "pg-ca"`) {
		t.Errorf("a damaged authority: %v", err)
	}
}
