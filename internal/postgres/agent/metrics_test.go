package agent

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
	"github.com/fettle-dev/fettle/internal/postgres/election"
	"github.com/fettle-dev/fettle/internal/postgres/exporter"
	"github.com/fettle-dev/fettle/internal/postgres/pki"
)

var update = flag.Bool("update", false, "update the table of docs/postgresql-metrics.md")

// measured is an agent with nothing but what metrics need.
func measured(t *testing.T) *Agent {
	t.Helper()
	return &Agent{options: Options{TLS: t.TempDir(), Run: t.TempDir()}, fence: &fence{}, heartbeatTimes: newHeartbeatTimes()}
}

// TestMetricsPage compares the table of docs/postgresql-metrics.md, which ends the page, with the metrics of an instance. Rules, the
// dashboard and runbooks are checked against that page. go test ./internal/postgres/agent -run TestMetricsPage -update
func TestMetricsPage(t *testing.T) {
	form := regexp.MustCompile(`^Desc\{fqName: "([^"]+)", help: "([^"]*)", unit: "[^"]*", constLabels: \{([^}]*)\}, variableLabels: \{([^}]*)\}\}$`)
	rows := map[string]string{}
	for _, c := range append(measured(t).collectors(), exporter.New(exporter.Options{})) {
		descs := make(chan *prometheus.Desc, 200)
		c.Describe(descs)
		close(descs)
		for d := range descs {
			m := form.FindStringSubmatch(d.String())
			if m == nil {
				t.Fatalf("%s", d)
			}
			labels := regexp.MustCompile(`="[^"]*"`).ReplaceAllString(m[3], "") + m[4]
			if labels != "" {
				labels = "`" + strings.ReplaceAll(labels, ",", "`, `") + "`"
			}
			rows[m[1]] = fmt.Sprintf("| `%s` | %s | %s |\n", m[1], labels, m[2])
		}
	}
	const path, head = "../../../docs/postgresql-metrics.md", "| Metric | Labels | Meaning |\n| --- | --- | --- |\n"
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	prose, _, _ := strings.Cut(string(want), head)
	got := prose + head
	for _, name := range slices.Sorted(maps.Keys(rows)) {
		got += rows[name]
	}
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil { //nolint:gosec // a page of the documentation
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("docs/postgresql-metrics.md (-want +got):\n%s", diff)
	}
}

// TestAgentMetrics gathers what the agent says of itself.
func TestAgentMetrics(t *testing.T) {
	a := measured(t)
	a.published.Store(&agentapi.Status{Phase: agentapi.Cloning, Role: agentapi.Primary, HoldsLease: true, Timeline: 7})
	a.counts.failed(election.Cloning)
	a.counts.failed(election.NoDataTask)
	a.heartbeatTimes.Observe(0.03)
	begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	authority, err := pki.NewCA("db", begin)
	if err != nil {
		t.Fatal(err)
	}
	putFile(t, a.certificateFiles()["server"], authority.Certificate)
	putFile(t, a.certificateFiles()["ca"], authority.Certificate)
	putFile(t, a.certificateFiles()["replication"], []byte("damaged"))
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(a.collectors()...)
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	got := values(t, registry)
	want := map[string]float64{
		"is_primary": 1, "ready": 0, "timeline": 7, "phase{phase=Cloning}": 1, "phase{phase=Running}": 0,
		"work_failures_total{work=clone}": 1, "work_failures_total{work=rewind}": 0, "work_failures_total{work=initdb}": 0,
		"certificate_start_timestamp_seconds{certificate=server}":  float64(begin.Add(-time.Hour).Unix()),
		"certificate_expiry_timestamp_seconds{certificate=server}": float64(begin.Add(pki.CALifetime).Unix()),
		"certificate_expiry_timestamp_seconds{certificate=ca}":     float64(begin.Add(pki.CALifetime).Unix()),
	}
	for name, value := range want {
		if is, ok := got[name]; !ok || is != value {
			t.Errorf("%s: want %v, got %v (there: %v)", name, value, is, ok)
		}
	}
	for _, none := range []string{"replication", "agent"} {
		if value, ok := got["certificate_expiry_timestamp_seconds{certificate="+none+"}"]; ok {
			t.Errorf("the certificate %s, which can't be read, ends at %v", none, value)
		}
	}
}

func values(t *testing.T, registry prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			name := strings.TrimPrefix(family.GetName(), "fettle_agent_")
			for _, l := range m.GetLabel() {
				name += "{" + l.GetName() + "=" + l.GetValue() + "}"
			}
			out[name] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return out
}
