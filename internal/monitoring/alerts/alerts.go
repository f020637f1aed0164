// Package alerts has the alerting rules that the operator creates for each PostgreSQL, for the Prometheus Operator. The
// rules for the operator itself are in config/prometheus.
package alerts

import (
	_ "embed" // the rules
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"
)

// runbookURL is the directory of the runbooks. Each alert has a page of its name.
const runbookURL = "https://github.com/fettle-dev/fettle/blob/main/docs/runbooks/"

//go:embed postgresql.yaml
var postgresql []byte

// Cluster is the input for the rules of one PostgreSQL.
type Cluster struct {
	Namespace, Name string
	Replicas        int
	Hibernated      bool
	// AutoGrowThreshold is the volume usage in percent at which the volume grows, up to AutoGrowMax bytes. Both are 0 if
	// spec.autoGrow is not set.
	AutoGrowThreshold int
	AutoGrowMax       int64
}

// rule is an alert of postgresql.yaml.
type rule struct {
	Alert       string `json:"alert"`
	When        string `json:"when,omitempty"`
	Expr        string `json:"expr"`
	For         string `json:"for"`
	Severity    string `json:"severity"`
	Summary     string `json:"summary"`
	Description string `json:"description"`
}

// Values of rule.When.
const (
	always   = ""
	running  = "running"
	autoGrow = "autoGrow"
)

// parsed are the rules. They are embedded, and a test parses them.
var parsed = sync.OnceValues(func() ([]rule, error) {
	var rules []rule
	if err := yaml.UnmarshalStrict(postgresql, &rules); err != nil {
		return nil, fmt.Errorf("alerting rules: %w", err)
	}
	return rules, nil
})

// Rules returns the rules of a PostgreSQL, as spec.groups[].rules of a PrometheusRule.
func Rules(c Cluster) ([]any, error) {
	rules, err := parsed()
	if err != nil {
		return nil, err
	}
	fill := c.replacer()
	out := make([]any, 0, len(rules))
	for i := range rules {
		r := &rules[i]
		if !slices.Contains(c.conditions(), r.When) {
			continue
		}
		out = append(out, map[string]any{
			"alert":  r.Alert,
			"expr":   fill.Replace(r.Expr),
			"for":    r.For,
			"labels": map[string]any{"severity": r.Severity, "namespace": c.Namespace, "postgresql": c.Name},
			"annotations": map[string]any{
				"summary": fill.Replace(r.Summary), "description": fill.Replace(r.Description), "runbook_url": runbookURL + r.Alert + ".md",
			},
		})
	}
	return out, nil
}

// conditions are the values of rule.When that apply.
func (c Cluster) conditions() []string {
	out := []string{always}
	if !c.Hibernated {
		out = append(out, running)
	}
	if c.AutoGrowMax > 0 {
		out = append(out, autoGrow)
	}
	return out
}

// replacer replaces the variables of the rules. Names are DNS labels, so they cannot break out of the quotes.
func (c Cluster) replacer() *strings.Replacer {
	const low, lowest = 0.15, 0.05
	free := 1 - float64(c.AutoGrowThreshold)/100 // do not page for a volume that is about to grow
	return strings.NewReplacer(
		"$cluster", fmt.Sprintf("job=%q", c.Namespace+"/"+c.Name),
		"$namespace", c.Namespace, "$name", c.Name, "$replicas", strconv.Itoa(c.Replicas),
		"$lowest", ratio(min(lowest, free/2)), "$low", ratio(min(low, free*3/4)),
		"$threshold", strconv.Itoa(c.AutoGrowThreshold), "$max", strconv.FormatInt(c.AutoGrowMax, 10),
	)
}

func ratio(f float64) string { return strconv.FormatFloat(f, 'f', 3, 64) }
