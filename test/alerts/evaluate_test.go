// Package alerts evaluates Fettle's alerting rules and dashboard queries with Prometheus's own engine. It is a separate
// module, so that the operator does not depend on Prometheus.
package alerts

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/annotations"
	"sigs.k8s.io/yaml"
)

// interval is the scrape and evaluation interval.
const interval = 30 * time.Second

var promQL = parser.NewParser(parser.Options{})

// begin is the time of the first scrape. Certificate times are relative to it.
var begin = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// rule is a rule of a PrometheusRule.
type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// id distinguishes rules with the same name.
func (r *rule) id() string { return r.Alert + " " + r.Labels["severity"] }

func (r *rule) after(t *testing.T) time.Duration {
	t.Helper()
	after, err := time.ParseDuration(r.For)
	if err != nil {
		t.Fatalf("%s: %v", r.id(), err)
	}
	return after
}

type group struct {
	Groups []struct {
		Rules []rule `json:"rules"`
	} `json:"groups"`
}

// rulesOf reads a rule file or a PrometheusRule.
func rulesOf(t *testing.T, path string) []rule {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		group
		Spec group `json:"spec"`
	}
	if err := yaml.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	var all []rule
	for _, g := range slices.Concat(file.Groups, file.Spec.Groups) {
		all = append(all, g.Rules...)
	}
	if len(all) == 0 {
		t.Fatalf("%s has no rules", path)
	}
	return all
}

// fixture has the scraped series.
type fixture []storage.Series

// series converts `up/orders-0/a="b" 1x9 0 _ 1+2x9` to a series of an instance, with more labels and values in promtool's
// notation: 1x9 is ten times 1, 1+2x9 starts with 1 and increases by 2 nine times, _ is a missing scrape.
func series(line string) string {
	name, values, _ := strings.Cut(line, " ")
	parts := strings.SplitN(name, "/", 3)
	set := `job="shop/orders",namespace="shop"`
	if len(parts) > 1 {
		set += fmt.Sprintf(",pod=%q", parts[1])
	}
	if len(parts) > 2 {
		set += "," + parts[2]
	}
	return fmt.Sprintf("%s{%s} %s", parts[0], set, values)
}

func scrape(t *testing.T, lines []string) fixture {
	t.Helper()
	var w fixture
	for _, line := range lines {
		if !strings.Contains(line, "{") {
			line = series(line)
		}
		set, values, err := promQL.ParseSeriesDesc(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		var samples []chunks.Sample
		for i, v := range values {
			if !v.Omitted {
				samples = append(samples, sample{begin.Add(time.Duration(i) * interval).UnixMilli(), v.Value})
			}
		}
		w = append(w, storage.NewListSeries(set, samples))
	}
	return w
}

// Querier implements storage.Queryable.
func (w fixture) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher) storage.SeriesSet {
		var found []storage.Series
		for _, s := range w {
			if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool { return !m.Matches(s.Labels().Get(m.Name)) }) {
				found = append(found, s)
			}
		}
		return &seriesSet{left: found}
	}}, nil
}

// seriesSet is a storage.SeriesSet.
type seriesSet struct {
	left []storage.Series
	at   storage.Series
}

func (s *seriesSet) Next() bool {
	if len(s.left) == 0 {
		return false
	}
	s.at, s.left = s.left[0], s.left[1:]
	return true
}

func (s *seriesSet) At() storage.Series                { return s.at }
func (s *seriesSet) Err() error                        { return nil }
func (s *seriesSet) Warnings() annotations.Annotations { return nil }

func newEngine(t *testing.T) *promql.Engine {
	t.Helper()
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 1 << 20, Timeout: time.Minute})
	t.Cleanup(func() { _ = engine.Close() })
	return engine
}

// evaluate returns the result of an expression at a time, by its labels.
func (w fixture) evaluate(ctx context.Context, t *testing.T, engine *promql.Engine, expr string, at time.Duration) map[string]labels.Labels {
	t.Helper()
	query, err := engine.NewInstantQuery(ctx, w, nil, expr, begin.Add(at))
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	defer query.Close()
	result := query.Exec(ctx)
	vector, err := result.Vector()
	if err != nil {
		t.Fatalf("%s: %v", expr, err)
	}
	out := map[string]labels.Labels{}
	for _, s := range vector {
		out[s.Metric.String()] = s.Metric.Copy()
	}
	return out
}

// firing evaluates a rule from the first scrape on, and returns the alerts that fire at a time, as labels without the
// metric name.
func (w fixture) firing(t *testing.T, engine *promql.Engine, r *rule, at time.Duration) []map[string]string {
	t.Helper()
	since := map[string]time.Duration{}
	var now map[string]labels.Labels
	for when := time.Duration(0); when <= at; when += interval {
		now = w.evaluate(t.Context(), t, engine, r.Expr, when)
		maps.DeleteFunc(since, func(key string, _ time.Duration) bool { _, still := now[key]; return !still })
		for key := range now {
			if _, known := since[key]; !known {
				since[key] = when
			}
		}
	}
	var out []map[string]string
	for key, begun := range since {
		if at-begun >= r.after(t) {
			set := now[key].Map()
			delete(set, labels.MetricName)
			out = append(out, set)
		}
	}
	return out
}

// brief formats labels, without those that all series have.
func brief(set map[string]string) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if !slices.Contains([]string{"job", "namespace"}, name) {
			parts = append(parts, fmt.Sprintf("%s=%s", name, set[name]))
		}
	}
	return strings.Join(parts, " ")
}

// sample is a chunks.Sample.
type sample struct {
	t int64
	f float64
}

func (s sample) T() int64                      { return s.t }
func (s sample) ST() int64                     { return 0 }
func (s sample) F() float64                    { return s.f }
func (s sample) H() *histogram.Histogram       { return nil }
func (s sample) FH() *histogram.FloatHistogram { return nil }
func (s sample) Type() chunkenc.ValueType      { return chunkenc.ValFloat }
func (s sample) Copy() chunks.Sample           { return s }
