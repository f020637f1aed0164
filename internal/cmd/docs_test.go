package cmd

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"
)

func readFile(t *testing.T, path ...string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(append([]string{"..", ".."}, path...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestPermissions_areDocumented finds every resource of the operator's role in docs/security.md, on a row with its verbs.
func TestPermissions_areDocumented(t *testing.T) {
	role := &rbacv1.ClusterRole{}
	if err := yaml.UnmarshalStrict([]byte(readFile(t, "config", "rbac", "role.yaml")), role); err != nil {
		t.Fatal(err)
	}
	page := readFile(t, "docs", "security.md")
	for _, rule := range role.Rules {
		for _, resource := range rule.Resources {
			if !explained(page, resource, rule.Verbs) {
				t.Errorf("docs/security.md has no row for %s with the verbs %q", resource, rule.Verbs)
			}
		}
	}
}

func explained(page, resource string, verbs []string) bool {
	for row := range strings.Lines(page) {
		cells := strings.Split(row, "|")
		if len(cells) < 4 || !strings.Contains(cells[1], "`"+resource+"`") {
			continue
		}
		listed := map[string]bool{}
		for verb := range strings.SplitSeq(cells[2], ",") {
			listed[strings.TrimSpace(verb)] = true
		}
		all := len(listed) == len(verbs)
		for _, verb := range verbs {
			all = all && listed[verb]
		}
		if all {
			return true
		}
	}
	return false
}
