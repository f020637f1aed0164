package alerts

import (
	"encoding/json"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/promql/parser"
)

// known are the metrics of docs/postgresql-metrics.md, which a test of the agent keeps up to date, those of Backups in
// docs/configure.md, and other metrics.
func known(t *testing.T) []string {
	t.Helper()
	names := []string{"up", "workqueue_depth"}
	for _, kind := range []string{"webapp", "appconfig", "voteconfig", "postgresql", "backup", "backuprun", "restore", "appstack", "ecommerceplatform"} {
		names = append(names, kind+"_errors_total") // of package internal/monitoring
	}
	for _, path := range []string{"../../docs/postgresql-metrics.md", "../../docs/configure.md"} {
		page, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile("(?m)^\\| `([a-z_]+)`").FindAllSubmatch(page, -1) {
			names = append(names, string(m[1]))
		}
	}
	return names
}

// check parses a query and checks that every metric exists.
func check(t *testing.T, names []string, query string) {
	t.Helper()
	expr, err := promQL.ParseExpr(query)
	if err != nil {
		t.Errorf("%s: %v", query, err)
		return
	}
	selectors := 0
	parser.Inspect(expr, func(node parser.Node, _ []parser.Node) error {
		if s, ok := node.(*parser.VectorSelector); ok {
			selectors++
			if !slices.Contains(names, s.Name) && !slices.Contains(names, strings.TrimSuffix(s.Name, "_bucket")) {
				t.Errorf("%s: there is no metric %q", query, s.Name)
			}
			if len(s.LabelMatchers) < 2 && strings.HasPrefix(s.Name, "fettle_") {
				t.Errorf("%s: %s is not limited to one cluster", query, s.Name)
			}
		}
		return nil
	})
	if selectors == 0 {
		t.Errorf("%s names no metric", query)
	}
}

func TestRulesNameMetrics(t *testing.T) {
	names := known(t)
	for _, path := range []string{golden + "growing.golden.yaml", golden + "fixed.golden.yaml", "../../config/prometheus/rules.yaml"} {
		for _, r := range rulesOf(t, path) {
			check(t, names, r.Expr)
		}
	}
}

// TestDashboard parses the queries of the dashboard as Grafana sends them.
func TestDashboard(t *testing.T) {
	raw, err := os.ReadFile("../../internal/monitoring/dashboards/postgresql.json")
	if err != nil {
		t.Fatal(err)
	}
	var board struct {
		Panels []struct {
			ID      int    `json:"id"`
			Title   string `json:"title"`
			GridPos struct{ X, Y, W, H int }
			Targets []struct {
				Expr string `json:"expr"`
			} `json:"targets"`
		} `json:"panels"`
	}
	if err := json.Unmarshal(raw, &board); err != nil {
		t.Fatal(err)
	}
	names, fill := known(t), strings.NewReplacer("$namespace", "shop", "$cluster", "orders", "$__rate_interval", "2m")
	queries, ids, places := 0, map[int]bool{}, map[[2]int]bool{}
	for _, p := range board.Panels {
		place := [2]int{p.GridPos.X, p.GridPos.Y}
		if ids[p.ID] || places[place] || p.GridPos.X+p.GridPos.W > 24 || p.Title == "" {
			t.Errorf("panel %d (%q) overlaps another one or has no title", p.ID, p.Title)
		}
		ids[p.ID], places[place] = true, true
		for _, target := range p.Targets {
			queries++
			query := fill.Replace(target.Expr)
			if strings.Contains(query, "$") {
				t.Errorf("%s: unknown variable", query)
			}
			check(t, names, query)
		}
	}
	if queries < 30 {
		t.Errorf("only %d queries were found", queries)
	}
}
