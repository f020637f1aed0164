package v1alpha1_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// cases are, for each rule and bound, specs that it accepts and specs that it rejects.
var cases = []struct {
	accept, reject []string
	// field is the path and message a part of the sentence that the refusal must contain.
	field, message string
}{
	{[]string{`title: "Vote: 100% of us? 🐱"`}, []string{`title: "a\nb"`, `title: "a\tb"`, `title: " "`, `title: "\u00a0"`, `title: "a\u2028b"`},
		"spec.title", "title: must have a visible character, and no line break"},
	{[]string{`title: ` + strings.Repeat("ö", 200)}, []string{`title: ` + strings.Repeat("a", 201)}, "spec.title", "may not be more than 200"},
	{nil, []string{`title: ""`}, "spec.title", "at least 1"},
	{[]string{`resultsTitle: "Who won?"`}, []string{`resultsTitle: "a\rb"`, `resultsTitle: "\u200b"`},
		"spec.resultsTitle", "resultsTitle: must have a visible character, and no line break"},
	{[]string{`resultsTitle: ` + strings.Repeat("a", 200)}, []string{`resultsTitle: ` + strings.Repeat("a", 201)}, "spec.resultsTitle", "may not be more than 200"},
	{nil, []string{`resultsTitle: ""`}, "spec.resultsTitle", "at least 1"},

	{[]string{options(2), options(10)}, []string{options(0), options(1)}, "spec.options", "options in body should have at least 2 items"},
	{nil, []string{options(11)}, "spec.options", "must have at most 10 items"},
	{nil, []string{`options: [{id: a, label: Cats}, {id: a, label: Dogs}]`}, "spec.options[1]", `Duplicate value: {"id":"a"}`},
	{[]string{option("id: z")}, []string{option("id: A"), option(`id: "1"`), option(`id: ""`)}, "spec.options[0].id", "id in body should match '^[a-z]$'"},
	{nil, []string{option("id: ab")}, "spec.options[0].id", "may not be more than 1"},
	{[]string{option(`label: "Cats: 🐈‍⬛ & \"co\" 'x' = $(Y) 100%"`), option("label: " + strings.Repeat("é", 50)), option("label: x")},
		[]string{option(`label: "Cats\nDogs"`), option(`label: "a\u0000b"`), option(`label: "a\u009fb"`), option(`label: "a\u2029b"`), option(`label: "  "`)},
		"spec.options[0].label", "label: must have a visible character, and no line break"},
	{nil, []string{option("label: " + strings.Repeat("é", 51))}, "spec.options[0].label", "may not be more than 50"},
	{nil, []string{option(`label: ""`)}, "spec.options[0].label", "at least 1"},
	{[]string{option(`color: "#FF6B6B"`), option(`color: "#ff6b6b"`)}, []string{option(`color: red`), option(`color: "#FFF"`), option(`color: "#GGGGGG"`), option(`color: ""`)},
		"spec.options[0].color", "color in body should match '^#[0-9A-Fa-f]{6}$'"},
	{nil, []string{option(`color: "#FF6B6B0"`)}, "spec.options[0].color", "may not be more than 7"},

	{[]string{`maxVotesPerUser: 1`, `maxVotesPerUser: 1000000`}, []string{`maxVotesPerUser: 0`, `maxVotesPerUser: -1`},
		"spec.maxVotesPerUser", "greater than or equal to 1"},
	{nil, []string{`maxVotesPerUser: 1000001`}, "spec.maxVotesPerUser", "less than or equal to 1000000"},
	{[]string{`target: {configMapName: my.settings-1}`}, []string{`target: {configMapName: My}`, `target: {configMapName: -a}`, `target: {configMapName: a..b}`},
		"spec.target.configMapName", "should match"},
	{nil, []string{`target: {configMapName: ""}`}, "spec.target.configMapName", "at least 1"},
	{nil, []string{`target: {configMapName: ` + strings.Repeat("a", 254) + `}`}, "spec.target.configMapName", "may not be more than 253"},
	{[]string{`target: {mode: Env}`, `target: {mode: Mount}`, `target: {mode: None}`}, []string{`target: {mode: Reload}`}, "spec.target.mode", "supported values"},
	{[]string{`target: {deployments: [vote, result]}`}, []string{`target: {deployments: [vote, vote]}`}, "spec.target.deployments[1]", "Duplicate value"},
	{nil, []string{`target: {deployments: [""]}`}, "spec.target.deployments[0]", "at least 1"},
	{nil, []string{`target: {deployments: [` + strings.Repeat("a", 254) + `]}`}, "spec.target.deployments[0]", "may not be more than 253"},
	{nil, []string{`target: {deployments: [` + strings.Join(numbered(51), ", ") + `]}`}, "spec.target.deployments", "must have at most 50 items"},
	{[]string{`paused: true`}, []string{`pause: true`}, "spec.pause", "unknown field"},
}

func numbered(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("d%d", i)
	}
	return out
}

// options is a spec of so many options.
func options(n int) string {
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf("{id: %c, label: Option %d}", 'a'+i, i)
	}
	return "options: [" + strings.Join(items, ", ") + "]"
}

// option is a spec whose first option has that field, and else nothing wrong.
func option(field string) string {
	name, _, _ := strings.Cut(field, ":")
	for _, required := range []string{"id: c", "label: Birds"} {
		if !strings.HasPrefix(required, name+":") {
			field += ", " + required
		}
	}
	return "options: [{" + field + "}, {id: b, label: Dogs}]"
}

func TestSchema(t *testing.T) {
	c := newClient(t)
	for _, r := range cases {
		t.Run(r.field+" "+r.message, func(t *testing.T) {
			for _, spec := range r.accept {
				if err := try(t, c, object(t, spec)); err != nil {
					t.Errorf("%s: rejected: %v", spec, err)
				}
			}
			for _, spec := range r.reject {
				switch err := try(t, c, object(t, spec)); {
				case err == nil:
					t.Errorf("%s: accepted", spec)
				case !strings.Contains(err.Error(), r.field) || !strings.Contains(err.Error(), r.message):
					t.Errorf("%s: rejected with %q, want %s: %s", spec, err, r.field, r.message)
				}
			}
		})
	}
}

func TestRequired(t *testing.T) {
	c := newClient(t)
	for path, spec := range map[string]string{
		"spec.options":          "options: null",
		"spec.options[0].id":    "options: [{label: Cats}, {id: b, label: Dogs}]",
		"spec.options[0].label": "options: [{id: a}, {id: b, label: Dogs}]",
	} {
		u := object(t, spec)
		if path == "spec.options" {
			unstructured.RemoveNestedField(u.Object, "spec", "options")
		}
		if err := try(t, c, u); err == nil || !strings.Contains(err.Error(), path+": Required value") {
			t.Errorf("without %s: %v", path, err)
		}
	}
	u := object(t, "")
	delete(u.Object, "spec")
	if err := try(t, c, u); err == nil || !strings.Contains(err.Error(), "spec: Required value") {
		t.Errorf("without spec: %v", err)
	}
}

// TestEverythingWrongAtOnce wants one refusal to name all that is wrong, as people who learn expect it.
func TestEverythingWrongAtOnce(t *testing.T) {
	err := try(t, newClient(t), object(t, `options: [{id: AB, label: `+strings.Repeat("x", 51)+`, color: red}]`))
	if err == nil {
		t.Fatal("accepted")
	}
	for _, want := range []string{"spec.options[0].id", "spec.options[0].label", "spec.options[0].color", "at least 2 items"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the refusal does not mention %s: %v", want, err)
		}
	}
}

// rootRules are the rules that have tests of their own below.
var rootRules = []string{"metadata.name:", "target.configMapName: can't be changed"}

func TestEveryRuleHasCases(t *testing.T) {
	rules := 0
	walk(schemaOf(t), "", func(path string, s *apiextensionsv1.JSONSchemaProps) {
		for _, rule := range s.XValidations {
			rules++
			if path == "" && slices.ContainsFunc(rootRules, func(r string) bool { return strings.HasPrefix(rule.Message, r) }) {
				continue
			}
			if !slices.ContainsFunc(cases, func(r struct {
				accept, reject []string
				field, message string
			}) bool {
				return strings.HasPrefix(rule.Message, r.message) && len(r.accept) > 0
			}) {
				t.Errorf("%s: no case for the rule %q", path, rule.Message)
			}
		}
	})
	if rules != 5 {
		t.Errorf("%d rules found, 5 are known", rules)
	}
}

// walk visits all that is below a schema, with paths such as .spec.options[].id.
func walk(s *apiextensionsv1.JSONSchemaProps, path string, visit func(string, *apiextensionsv1.JSONSchemaProps)) {
	visit(path, s)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		walk(&property, path+"."+name, visit)
	}
	if s.Items != nil {
		walk(s.Items.Schema, path+"[]", visit)
	}
}

func TestName(t *testing.T) {
	c := newClient(t)
	for name, ok := range map[string]bool{"cats-vs-dogs": true, "2": true, "v2.vote": false, strings.Repeat("a", 63): true, strings.Repeat("a", 64): false} {
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

func TestTheConfigMapKeepsItsName(t *testing.T) {
	c := newClient(t)
	for _, tc := range []struct {
		before, after string
		ok            bool
	}{
		{"", "target: {configMapName: vote-config}", true},
		{"target: {configMapName: vote-config}", "target: {mode: Mount}", true},
		{"target: {configMapName: other}", "target: {configMapName: other, mode: None}", true},
		{"", "target: {configMapName: other}", false},
		{"target: {configMapName: other}", "target: {}", false},
		{"target: {configMapName: other}", "target: {configMapName: another}", false},
	} {
		u := object(t, tc.before)
		u.SetNamespace(env.Namespace(t))
		if err := c.Create(t.Context(), u); err != nil {
			t.Fatal(err)
		}
		u.Object["spec"] = object(t, tc.after).Object["spec"]
		err := c.Update(t.Context(), u, client.DryRunAll)
		if (err == nil) != tc.ok {
			t.Errorf("%q to %q: %v", tc.before, tc.after, err)
		}
		if err != nil && !strings.Contains(err.Error(), "target.configMapName: can't be changed") {
			t.Errorf("%q to %q: rejected with %q", tc.before, tc.after, err)
		}
	}
}
