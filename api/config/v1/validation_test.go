package v1_test

import (
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

type ruleCase struct {
	accept string
	reject []string
	// field is the path and message the start of the sentence that the refusal must contain.
	field, message string
}

const (
	badKey    = "{\"a b\": x}"
	dottedKey = "{.a: x}"
)

// cases are, for each rule that is written in CEL, a spec that it accepts and some that it rejects.
var cases = []ruleCase{
	{`{config: {a: x}, files: {b: x}}`, []string{`{config: {a: x}, files: {a: x}}`},
		"spec", "files: a name may not be a key of spec.config too"},
	{`{config: null, files: {a: x}}`, []string{`config: null`, `{config: {}, files: {}}`},
		"spec", "config, files: there is nothing to render"},
	{`{rollback: {}, target: {historyLimit: 1}}`, []string{`{rollback: {}, target: {historyLimit: 0}}`},
		"spec", "rollback: there is nothing to go back to"},
	{`{rollout: {autoRollback: true}}`, []string{`{rollout: {autoRollback: true}, target: {historyLimit: 0}}`},
		"spec", "rollout.autoRollback: there is nothing to go back to"},
	{`application: a-1`, []string{`application: A`, `application: a.b`, `application: -a`},
		"spec.application", "application: must be a DNS label"},
	{`config: {A_b-c.1: x}`, []string{`config: ` + badKey, `config: ` + dottedKey, `config: {` + strings.Repeat("a", 254) + `: x}`},
		"spec.config", "config: each key consists of"},
	{`values: {.a-b_c: x}`, []string{`values: ` + badKey}, "spec.values", "values: each name consists of"},
	{`files: {app.yaml: x}`, []string{`files: ` + badKey, `files: {..: x}`}, "spec.files", "files: each name consists of"},
	{`environments: {prod: {config: {a: x}, files: {b: x}}}`, []string{`environments: {prod: {config: {a: x}, files: {a: x}}}`},
		"spec.environments.prod", "files: a name may not be a key of config too"},
	{`environments: {dev: {values: {a: x}}}`, []string{`environments: {dev: {values: ` + badKey + `}}`},
		"spec.environments.dev.values", "values: each name consists of"},
	{`environments: {staging: {config: {a: x}}}`, []string{`environments: {staging: {config: ` + dottedKey + `}}`},
		"spec.environments.staging.config", "config: each key consists of"},
	{`environments: {prod: {files: {a: x}}}`, []string{`environments: {prod: {files: ` + badKey + `}}`},
		"spec.environments.prod.files", "files: each name consists of"},
	{`valuesFrom: [{secretRef: {name: a}}, {configMapRef: {name: a}}]`,
		[]string{`valuesFrom: [{}]`, `valuesFrom: [{secretRef: {name: a}, configMapRef: {name: a}}]`},
		"spec.valuesFrom[0]", "valuesFrom: set exactly one of"},
	{`{target: {name: mine}, valuesFrom: [{configMapRef: {name: shop-config}}, {secretRef: {name: shop-config}}]}`,
		[]string{`valuesFrom: [{configMapRef: {name: a}}, {configMapRef: {name: shop-config}}]`, `valuesFrom: [{secretRef: {name: shop-config}}]`,
			`{target: {name: mine}, valuesFrom: [{configMapRef: {name: mine}}]}`},
		"spec", "valuesFrom: an AppConfig can't take values from what it publishes itself"},
	{`valuesFrom: [{secretRef: {name: a}, prefix: db_}]`, []string{`valuesFrom: [{secretRef: {name: a}, prefix: "db "}]`},
		"spec.valuesFrom[0].prefix", "prefix: consists of"},
	{`{schema: {files: {a.json: {type: object}}}}`, []string{`{schema: {files: {a.txt: {type: object}}}}`},
		"spec.schema.files", "files: only files that end in"},
	{`target: {name: a.b-1}`, []string{`target: {name: A}`, `target: {name: a..b}`, `target: {name: a-}`},
		"spec.target.name", "name: must be a DNS name"},
	{`target: {labels: {team: a}}`, []string{`target: {labels: {fettle.dev/owner-name: a}}`, `target: {labels: {app.kubernetes.io/name: a}}`},
		"spec.target.labels", "labels: those of fettle.dev"},
	{`target: {annotations: {example.com/a: a}}`, []string{`target: {annotations: {config.fettle.dev/hash: a}}`},
		"spec.target.annotations", "annotations: those of fettle.dev"},
	{`rollout: {discovery: Selector, selector: {matchLabels: {a: b}}}`, []string{`rollout: {discovery: Selector}`, `rollout: {selector: {}}`},
		"spec.rollout", "selector: set it if, and only if"},
	{`rollout: {debounce: 0s}`, []string{`rollout: {debounce: 2h}`, `rollout: {debounce: -1s}`}, "spec.rollout.debounce", "debounce: must be a duration"},
	{`rollout: {minInterval: 24h}`, []string{`rollout: {minInterval: 25h}`}, "spec.rollout.minInterval", "minInterval: must be a duration"},
	{`rollout: {progressDeadline: 10s}`, []string{`rollout: {progressDeadline: 9s}`, `rollout: {progressDeadline: 25h}`},
		"spec.rollout.progressDeadline", "progressDeadline: must be a duration"},
	{`rollout: {window: {schedule: "0 2 * * 1-5", duration: 2h}}`,
		[]string{`rollout: {window: {schedule: "every night", duration: 2h}}`, `rollout: {window: {schedule: "0 2 * * * *", duration: 2h}}`, `rollout: {window: {schedule: "TZ=UTC 0 2 * * *", duration: 2h}}`},
		"spec.rollout.window.schedule", "schedule: must have five fields"},
	{`rollout: {window: {schedule: "*/5 2 * JAN MON", duration: 1m}}`, []string{`rollout: {window: {schedule: "0 2 * * *", duration: 59s}}`},
		"spec.rollout.window.duration", "duration: must be a duration"},
	{`rollout: {window: {schedule: "0 2 * * *", duration: 1m, timeZone: America/Argentina/Salta}}`,
		[]string{`rollout: {window: {schedule: "0 2 * * *", duration: 1m, timeZone: "../etc"}}`, `rollout: {window: {schedule: "0 2 * * *", duration: 1m, timeZone: "+1"}}`},
		"spec.rollout.window.timeZone", "timeZone: must be a name"},
}

func TestRules(t *testing.T) {
	c := newClient(t)
	for _, r := range cases {
		t.Run(r.field+"/"+r.message, func(t *testing.T) {
			if err := try(t, c, object(t, r.accept)); err != nil {
				t.Errorf("%s: rejected: %v", r.accept, err)
			}
			for _, spec := range r.reject {
				switch err := try(t, c, object(t, spec)); {
				case err == nil:
					t.Errorf("%s: accepted", spec)
				case !strings.Contains(err.Error(), r.field+": ") || !strings.Contains(err.Error(), r.message):
					t.Errorf("%s: rejected with %q, want %s: %s", spec, err, r.field, r.message)
				}
			}
		})
	}
}

// TestEveryRuleHasCases finds the rules of the schema that no case above is about, besides those about changes.
func TestEveryRuleHasCases(t *testing.T) {
	walk(schema(t), "", func(path string, s *apiextensionsv1.JSONSchemaProps) {
		for _, rule := range s.XValidations {
			if strings.HasPrefix(rule.Message, "metadata.name:") || strings.Contains(rule.Rule, "oldSelf") {
				continue // TestName, TestChanges
			}
			if !slices.ContainsFunc(cases, func(r ruleCase) bool { return strings.HasPrefix(rule.Message, r.message) }) {
				t.Errorf("%s: no case for the rule %q", path, rule.Message)
			}
		}
	})
}

func TestName(t *testing.T) {
	c := newClient(t)
	for name, ok := range map[string]bool{
		"shop": true, "1shop": true, "a" + strings.Repeat("b", 62): true, "a" + strings.Repeat("b", 63): false, "shop.web": false,
	} {
		u := object(t, "")
		u.SetName(name)
		err := try(t, c, u)
		if (err == nil) != ok {
			t.Errorf("%s: %v", name, err)
		}
		if err != nil && !strings.Contains(err.Error(), "metadata.name: must be a DNS label of at most 63 characters") {
			t.Errorf("%s: rejected with %q", name, err)
		}
	}
}

// TestChanges changes what can be changed, and what can't.
func TestChanges(t *testing.T) {
	c := newClient(t)
	for _, r := range []struct{ before, after, refusal string }{
		{`{target: {name: a}}`, `{application: other, environment: prod, target: {name: a, historyLimit: 0}, config: {B: x}}`, ""},
		{``, `{environment: prod}`, ""},
		{``, `{application: other}`, "target.name, application: the name of what is published can't be changed"},
		{``, `{target: {name: a}}`, "target.name, application: the name of what is published can't be changed"},
		{`{target: {name: a}}`, `{target: {name: b}}`, "target.name, application: the name of what is published can't be changed"},
		{`{target: {name: a}}`, ``, "target.name, application: the name of what is published can't be changed"},
		{``, `{target: {mode: Versioned}}`, "mode: can't be changed"},
	} {
		u := created(t, object(t, r.before))
		u.Object["spec"] = object(t, r.after).Object["spec"]
		err := c.Update(t.Context(), u)
		switch {
		case r.refusal == "" && err != nil:
			t.Errorf("from %q to %q: rejected: %v", r.before, r.after, err)
		case r.refusal != "" && (err == nil || !strings.Contains(err.Error(), r.refusal)):
			t.Errorf("from %q to %q: %v, want %q", r.before, r.after, err, r.refusal)
		}
	}
}
