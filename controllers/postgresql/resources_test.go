package postgresql

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	"sigs.k8s.io/yaml"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/podsecurity"
	"github.com/fettle-dev/fettle/internal/postgres/pki"
	"github.com/fettle-dev/fettle/internal/testenv/golden"
)

// testCase is a testdata/*.yaml: a PostgreSQL as the API server returns it, and what else decides its children.
type testCase struct {
	PG                databasev1alpha1.PostgreSQL `json:"pg"`
	MonitoringMissing bool                        `json:"monitoringMissing"`
	// CertManagerMissing is true where the cluster has no Certificate.
	CertManagerMissing bool `json:"certManagerMissing"`
	// Identity are the annotations for access to a bucket.
	Identity map[string]string `json:"identity"`
}

// TestDesired compares what would be sent with testdata/*.golden.yaml; `go test ./controllers/postgresql -update` writes them.
func TestDesired(t *testing.T) {
	golden.Cases(t, 5, func(t *testing.T, c testCase) string {
		t.Helper()
		pod := apply.Convert[corev1.PodSpec](podTemplate(&c.PG, "agent", 1).Spec)
		if violations, err := podsecurity.Violations(pod, appsv1.ProfileRestricted); err != nil || len(violations) > 0 {
			t.Errorf("violations of Pod Security: %v, %v", violations, err)
		}
		return c.render(t)
	})
}

func (c *testCase) render(t *testing.T) string {
	t.Helper()
	in := &inputs{agentImage: "ghcr.io/fettle-dev/fettle:v1", operatorNamespace: "fettle-system", templateSize: c.PG.Spec.Storage, monitoringMissing: c.MonitoringMissing}
	// Keys and certificates differ each time, and have tests of their own.
	in.certificates.ca = &pki.CA{Pair: pki.Pair{Certificate: []byte("authority"), Key: []byte("key")}}
	in.certificates.serving = serving{roots: []byte("roots")}
	in.backup, in.identity = backsUp(&c.PG), c.Identity
	in.certificateAPI = !c.CertManagerMissing
	if c.PG.Spec.TLS.IssuerRef != nil {
		in.issued = &issuedCertificate{missing: c.CertManagerMissing}
	}
	var err error
	if in.alerts, err = rulesOf(&c.PG); err != nil {
		t.Fatal(err)
	}
	count, _ := next(&c.PG, new(assemble(&c.PG, nil, nil, nil, nil, podVersion{})))
	var docs []string
	for _, o := range append(certificateSecrets(&c.PG, in), desired(&c.PG, in, count)...) {
		raw, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, string(raw))
	}
	for _, o := range toPrune(&c.PG, in) {
		docs = append(docs, "# must not exist: "+strings.TrimPrefix(strings.TrimPrefix(cmpKind(o), "*"), "v1.")+"\n")
	}
	return strings.Join(docs, "---\n")
}

func TestUser(t *testing.T) {
	for image, want := range map[string]int64{
		"": 999, "postgres:16": 999, "postgres:16-alpine": 70, "registry:5000/alpine/postgres:16": 999, "registry:5000/postgres": 999,
		"docker.io/library/postgres:16-alpine3.20@sha256:" + strings.Repeat("0", 64): 70, "alpine@sha256:" + strings.Repeat("0", 64): 999,
		"Not A Name:alpine": 999,
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
	first, err := ensureCertificates(pg, nil, nil, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		at     time.Time
		change func(pg *databasev1alpha1.PostgreSQL, ca, server *corev1.Secret)
		want   string // what is new, or the error
	}{
		"a day later":       {at: now.Add(24 * time.Hour)},
		"when they are due": {at: first.renewAt, want: "server client"},
		"with a further name": {at: now, change: func(pg *databasev1alpha1.PostgreSQL, _, _ *corev1.Secret) {
			pg.Spec.TLS.DNSNames = []string{"db.example.com"}
		}, want: "server"},
		"with a damaged key":     {at: now, change: func(_ *databasev1alpha1.PostgreSQL, _, server *corev1.Secret) { server.Data["tls.key"] = []byte("x") }, want: "server"},
		"a damaged authority":    {at: now, change: func(_ *databasev1alpha1.PostgreSQL, ca, _ *corev1.Secret) { ca.Data["tls.key"] = []byte("x") }, want: `secret "pg-ca"`},
		"an authority that ends": {at: now.Add(9 * 365 * 24 * time.Hour), want: "authority server client"},
	} {
		t.Run(name, func(t *testing.T) {
			pg := pg.DeepCopy()
			ca, server, client := secretsOf(first)
			if c.change != nil {
				c.change(pg, ca, server)
			}
			then, err := ensureCertificates(pg, ca, server, client, c.at)
			if got := renewed(first, then, err); !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
				t.Errorf("new: %q, want %q", got, c.want)
			}
		})
	}
}

// renewed says which certificates differ, or what went wrong.
func renewed(before, after certificates, err error) string {
	if err != nil {
		return strings.TrimPrefix(err.Error(), "certificates: ")
	}
	var out []string
	for _, c := range []struct {
		name string
		same bool
	}{
		{"authority", cmp.Equal(before.ca.Pair, after.ca.Pair)},
		{"server", cmp.Equal(before.server, after.server)}, {"client", cmp.Equal(before.client, after.client)},
	} {
		if !c.same {
			out = append(out, c.name)
		}
	}
	return strings.Join(out, " ")
}

// TestPlacement_keepsTheUsersAffinity holds that instances are kept apart beside what the spec asks for, and that nothing of it can
// keep a pod from a node.
func TestPlacement_keepsTheUsersAffinity(t *testing.T) {
	pg := wanting(3)
	own := corev1.PodAffinityTerm{TopologyKey: "rack", LabelSelector: &metav1.LabelSelector{}}
	pg.Spec.Affinity = &corev1.Affinity{
		NodeAffinity: &corev1.NodeAffinity{},
		PodAntiAffinity: &corev1.PodAntiAffinity{
			RequiredDuringSchedulingIgnoredDuringExecution:  []corev1.PodAffinityTerm{own},
			PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{Weight: 7, PodAffinityTerm: own}},
		},
	}
	spec := corev1ac.PodSpec()
	placement(pg, spec)
	var got []string
	for _, term := range spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution {
		got = append(got, fmt.Sprint(*term.PodAffinityTerm.TopologyKey, " ", *term.Weight))
	}
	if diff := cmp.Diff([]string{"rack 7", "kubernetes.io/hostname 100", "topology.kubernetes.io/zone 50"}, got); diff != "" {
		t.Errorf("preferred (-want +got):\n%s", diff)
	}
	if required := spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution; len(required) != 1 || spec.Affinity.NodeAffinity == nil {
		t.Errorf("the user's own affinity: %v, %v", required, spec.Affinity.NodeAffinity)
	}
	for _, c := range spec.TopologySpreadConstraints {
		if *c.WhenUnsatisfiable != corev1.ScheduleAnyway || *c.TopologyKey != corev1.LabelHostname {
			t.Errorf("a constraint that blocks a pod, or has the scheduler ignore nodes without a zone: %s, %s", *c.TopologyKey, *c.WhenUnsatisfiable)
		}
	}
	if len(pg.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution) != 1 {
		t.Error("the spec was changed")
	}
}
