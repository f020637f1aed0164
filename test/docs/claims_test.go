package docs_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestReadmeCounts holds the numbers of alerts, runbooks and kinds in README.md.
func TestReadmeCounts(t *testing.T) {
	readme := pages(t)["README.md"]
	for what, want := range map[string]int{"alerts": len(alerts(t)), "runbooks": len(runbooks(t)), "kinds": len(kinds(t))} {
		found := regexp.MustCompile(`(\d+) `+what).FindAllStringSubmatch(readme, -1)
		if len(found) == 0 {
			t.Errorf("README.md does not say how many %s there are", what)
		}
		for _, match := range found {
			if got, _ := strconv.Atoi(match[1]); got != want {
				t.Errorf("README.md says %d %s, there are %d", got, what, want)
			}
		}
	}
	for _, kind := range kinds(t) {
		if page := "docs/" + strings.ToLower(kind) + ".md"; !strings.Contains(readme, "[`"+kind+"`]("+page+")") {
			t.Errorf("README.md does not link %s to %s", kind, page)
		}
	}
}

// alerts are the names of Fettle's alerts. Several rules may have one name.
func alerts(t *testing.T) map[string]bool {
	t.Helper()
	names := map[string]bool{}
	for _, file := range []string{"internal/monitoring/alerts/postgresql.yaml", "config/prometheus/rules.yaml"} {
		text, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`(?m)^\s*- alert: (\w+)$`).FindAllStringSubmatch(string(text), -1) {
			names[match[1]] = true
		}
	}
	return names
}

func runbooks(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "docs", "runbooks", "Fettle*.md"))
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func kinds(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "PROJECT"))
	if err != nil {
		t.Fatal(err)
	}
	project := struct {
		Resources []struct{ Kind string }
	}{}
	if err := yaml.Unmarshal(text, &project); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, r := range project.Resources {
		all = append(all, r.Kind)
	}
	return all
}
