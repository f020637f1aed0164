package alerts

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/fettle-dev/fettle/internal/testenv/golden"
)

// TestRules compares the rules with testdata/*.golden.yaml, which test/alerts evaluates.
func TestRules(t *testing.T) {
	for name, c := range map[string]Cluster{
		"fixed":      {Namespace: "shop", Name: "orders", Replicas: 3},
		"growing":    {Namespace: "shop", Name: "orders", Replicas: 3, AutoGrowThreshold: 90, AutoGrowMax: 100 << 30},
		"hibernated": {Namespace: "shop", Name: "orders", Replicas: 1, Hibernated: true},
	} {
		t.Run(name, func(t *testing.T) {
			rules, err := Rules(c)
			if err != nil {
				t.Fatal(err)
			}
			got, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "orders", "rules": rules}}})
			if err != nil {
				t.Fatal(err)
			}
			golden.Compare(t, filepath.Join("testdata", name+".golden.yaml"), string(got))
			if left := regexp.MustCompile(`\$[a-zA-Z]+`).FindAllString(strings.NewReplacer("$labels", "", "$value", "").Replace(string(got)), -1); len(left) > 0 {
				t.Errorf("unknown variables %q", left)
			}
		})
	}
}

// ruleFile is a rule file of Prometheus.
type ruleFile struct {
	Groups []struct {
		Rules []struct {
			Alert       string            `json:"alert"`
			Labels      map[string]string `json:"labels"`
			Annotations map[string]string `json:"annotations"`
		} `json:"rules"`
	} `json:"groups"`
}

// published are the rules of a PostgreSQL and of the operator.
func published(t *testing.T) ruleFile {
	t.Helper()
	rules, err := Rules(Cluster{Namespace: "shop", Name: "orders", Replicas: 3, AutoGrowThreshold: 80, AutoGrowMax: 1 << 30})
	if err != nil {
		t.Fatal(err)
	}
	raw, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"rules": rules}}})
	if err != nil {
		t.Fatal(err)
	}
	var all ruleFile
	if err := yaml.Unmarshal(raw, &all); err != nil {
		t.Fatal(err)
	}
	raw, err = os.ReadFile("../../../config/prometheus/rules.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var object struct {
		Spec ruleFile `json:"spec"`
	}
	if err := yaml.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	all.Groups = append(all.Groups, object.Spec.Groups...)
	return all
}

// TestRunbooks checks that each alert has a runbook with the standard sections, and that each runbook has an alert.
func TestRunbooks(t *testing.T) {
	var alerts []string
	for _, group := range published(t).Groups {
		for _, r := range group.Rules {
			alerts = append(alerts, r.Alert)
			if want := runbookURL + r.Alert + ".md"; r.Annotations["runbook_url"] != want {
				t.Errorf("%s: runbook_url %q, want %q", r.Alert, r.Annotations["runbook_url"], want)
			}
			if r.Annotations["summary"] == "" || r.Annotations["description"] == "" || !slices.Contains([]string{"critical", "warning", "info"}, r.Labels["severity"]) {
				t.Errorf("%s lacks a summary, a description or a severity", r.Alert)
			}
		}
	}
	slices.Sort(alerts)
	alerts = slices.Compact(alerts)
	if diff := cmp.Diff(alerts, runbooks(t)); diff != "" {
		t.Errorf("alerts and pages of docs/runbooks (-alerts +pages):\n%s", diff)
	}
}

// runbooks are the names of the runbooks. It checks their sections.
func runbooks(t *testing.T) []string {
	t.Helper()
	pages, err := filepath.Glob("../../../docs/runbooks/[^R]*.md") // README is none
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, path := range pages {
		name := strings.TrimSuffix(filepath.Base(path), ".md")
		found = append(found, name)
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range []string{"# " + name + "\n", "\n## Meaning\n", "\n## Impact\n", "\n## Diagnosis\n", "kubectl", "\n## Mitigation\n", "\n## When to ignore\n"} {
			if !strings.Contains(string(page), part) {
				t.Errorf("%s has no %q", path, strings.TrimSpace(part))
			}
		}
	}
	return found
}

// TestMetricsExist checks that every metric of PostgreSQL in rules and docs is in a table: docs/postgresql-metrics.md, which a
// test of the agent keeps up to date, or docs/configure.md for the metrics of the operator.
func TestMetricsExist(t *testing.T) {
	known := map[string]bool{}
	for _, path := range []string{"../../../docs/postgresql-metrics.md", "../../../docs/configure.md"} {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)`").FindAllSubmatch(page, -1) {
			known[string(m[1])] = true
		}
	}
	paths, err := filepath.Glob("../../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	runbooks, err := filepath.Glob("../../../docs/runbooks/*.md")
	if err != nil {
		t.Fatal(err)
	}
	uses := 0
	for _, path := range slices.Concat(paths, runbooks, []string{"postgresql.yaml", "../dashboards/postgresql.json"}) {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range regexp.MustCompile(`\bfettle_(agent|postgresql)_[a-z_]+`).FindAllString(string(text), -1) {
			uses++
			if !known[name] && !known[strings.TrimSuffix(name, "_bucket")] {
				t.Errorf("%s: there is no metric %s", path, name)
			}
		}
	}
	if uses < len(known)+20 {
		t.Errorf("only %d uses of metrics were found", uses)
	}
}
