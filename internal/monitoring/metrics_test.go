package monitoring

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"k8s.io/apimachinery/pkg/types"
)

// series lists the registered series as name{label=value,…}, one per histogram, in the registry's order.
func series(t *testing.T, reg prometheus.Gatherer) []string {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, f := range families {
		for _, metric := range f.GetMetric() {
			var labels []string
			for _, l := range metric.GetLabel() {
				labels = append(labels, l.GetName()+"="+l.GetValue())
			}
			all = append(all, f.GetName()+"{"+strings.Join(labels, ",")+"}")
		}
	}
	return all
}

func key(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

func TestMetrics_seriesEndWithNamespace(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := New(reg, false)
	for _, k := range []types.NamespacedName{key("a", "one"), key("a", "two"), key("b", "one")} {
		m.Observe(KindWebApp, k, time.Second, nil)
		m.Observe(KindWebApp, k, time.Second, context.DeadlineExceeded)
		m.Created(KindWebApp, k, time.Minute)
		m.ConfigChanged(KindWebApp, k)
		m.Ready(KindWebApp, k, true) // without perObject there is no series per object
	}
	of := func(namespace string) []string {
		return []string{
			"fettle_config_changes_total{namespace=" + namespace + "}",
			"webapp_creation_duration_seconds{namespace=" + namespace + "}",
			"webapp_errors_total{namespace=" + namespace + ",type=timeout}",
			"webapp_reconcile_duration_seconds{namespace=" + namespace + "}",
			"webapp_reconcile_total{namespace=" + namespace + ",result=error}",
			"webapp_reconcile_total{namespace=" + namespace + ",result=success}",
		}
	}
	if got, want := len(series(t, reg)), 2*len(of("a")); got != want {
		t.Fatalf("%d series for three objects in two namespaces, want %d: %q", got, want, series(t, reg))
	}
	m.Forget(KindWebApp, key("a", "one"))
	if got, want := len(series(t, reg)), 2*len(of("a")); got != want {
		t.Errorf("%d series while namespace a has an object, want %d: %q", got, want, series(t, reg))
	}
	m.Forget(KindWebApp, key("a", "two"))
	if diff := cmp.Diff(of("b"), series(t, reg)); diff != "" {
		t.Errorf("after the last object of namespace a (-want +got):\n%s", diff)
	}
	m.Forget(KindWebApp, key("b", "one"))
	m.Forget(KindWebApp, key("b", "never-counted"))
	if got := series(t, reg); len(got) != 0 {
		t.Errorf("series without objects: %q", got)
	}
	if len(m.tracked) != 0 {
		t.Errorf("objects are tracked after they were deleted: %v", m.tracked)
	}
}

func TestMetrics_boundedSeries(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := New(reg, false)
	for i := range 1000 {
		k := key("a", fmt.Sprintf("app-%d", i))
		m.Observe(KindWebApp, k, time.Second, fmt.Errorf("error number %d", i))
		m.Observe("Dashboard", k, time.Second, nil) // a kind without metrics
	}
	want := []string{
		"webapp_errors_total{namespace=a,type=other}",
		"webapp_reconcile_duration_seconds{namespace=a}",
		"webapp_reconcile_total{namespace=a,result=error}",
	}
	if diff := cmp.Diff(want, series(t, reg)); diff != "" {
		t.Errorf("series of 1000 objects (-want +got):\n%s", diff)
	}
	if got := testutil.ToFloat64(m.kinds[KindWebApp].errors); got != 1000 {
		t.Errorf("counted %v errors, want 1000", got)
	}
}

func TestMetrics_perObjectSeriesEndWithObject(t *testing.T) {
	reg := prometheus.NewPedanticRegistry()
	m := New(reg, true)
	m.Ready(KindWebApp, key("a", "one"), true)
	m.Ready(KindWebApp, key("a", "two"), false)
	m.Ready("WebAppPolicy", key("", "one"), true)
	const want = `# HELP fettle_resource_ready 1 if the object's Ready condition is True, otherwise 0.
# TYPE fettle_resource_ready gauge
fettle_resource_ready{kind="WebApp",name="one",namespace="a"} 1
fettle_resource_ready{kind="WebApp",name="two",namespace="a"} 0
fettle_resource_ready{kind="WebAppPolicy",name="one",namespace=""} 1
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want), "fettle_resource_ready"); err != nil {
		t.Error(err)
	}
	m.Forget(KindWebApp, key("a", "one"))
	m.Forget("WebAppPolicy", key("", "one"))
	rest := []string{"fettle_resource_ready{kind=WebApp,name=two,namespace=a}"}
	if diff := cmp.Diff(rest, series(t, reg)); diff != "" {
		t.Errorf("after two objects went (-want +got):\n%s", diff)
	}
}

func TestAgentOutdated_absentWithoutAny(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := New(reg, false)
	m.AgentOutdated(key("a", "one"), 2)
	m.AgentOutdated(key("a", "two"), 1)
	m.AgentOutdated(key("a", "three"), 0)
	both := []string{"fettle_postgresql_agent_outdated{name=one,namespace=a}", "fettle_postgresql_agent_outdated{name=two,namespace=a}"}
	if diff := cmp.Diff(both, series(t, reg)); diff != "" {
		t.Errorf("series (-want +got):\n%s", diff)
	}
	m.AgentOutdated(key("a", "one"), 0)
	m.Forget(KindPostgreSQL, key("a", "two"))
	if diff := cmp.Diff([]string(nil), series(t, reg)); diff != "" {
		t.Errorf("series of updated and deleted ones (-want +got):\n%s", diff)
	}
}

func TestMetrics_nil(*testing.T) {
	var m *Metrics
	m.AgentOutdated(key("a", "one"), 1)
	m.Observe(KindWebApp, key("a", "one"), time.Second, nil)
	m.Created(KindWebApp, key("a", "one"), time.Second)
	m.ConfigChanged(KindWebApp, key("a", "one"))
	m.Ready(KindWebApp, key("a", "one"), true)
	m.Forget(KindWebApp, key("a", "one"))
}

func TestBackupState(t *testing.T) {
	reg := prometheus.NewRegistry()
	m := New(reg, false)
	key := types.NamespacedName{Namespace: "shop", Name: "db"}
	values := func() map[string]float64 {
		families, err := reg.Gather()
		if err != nil {
			t.Fatal(err)
		}
		out := map[string]float64{}
		for _, f := range families {
			for _, series := range f.GetMetric() {
				if strings.HasPrefix(f.GetName(), "backup_") && series.GetGauge() != nil {
					out[f.GetName()] = series.GetGauge().GetValue()
				}
			}
		}
		return out
	}
	steps := []struct {
		state Backup
		want  map[string]float64
	}{
		{Backup{Interval: time.Hour}, map[string]float64{"backup_schedule_interval_seconds": 3600, "backup_suspended": 0}},
		{Backup{LastRunEnded: true, Suspended: true}, map[string]float64{"backup_last_status": 0, "backup_suspended": 1}},
		{
			Backup{LastSuccess: time.Unix(7, 0), LastRunEnded: true, LastRunSucceeded: true, Duration: time.Minute, SizeBytes: 5},
			map[string]float64{
				"backup_last_success_timestamp_seconds": 7, "backup_last_status": 1, "backup_duration_seconds": 60, "backup_size_bytes": 5, "backup_suspended": 0,
			},
		},
	}
	for i, step := range steps {
		m.BackupState(key, step.state)
		if got := values(); !maps.Equal(got, step.want) {
			t.Errorf("step %d: %v, want %v", i, got, step.want)
		}
	}
	m.Forget(KindBackup, key)
	if got := values(); len(got) > 0 {
		t.Errorf("of a deleted Backup: %v", got)
	}
}
