package appconfig

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/digest"
	"github.com/fettle-dev/fettle/internal/render"
)

func TestRenderInput_laterValuesWin(t *testing.T) {
	cfg := config(func(cfg *configv1.AppConfig) {
		cfg.Spec.Environment = configv1.EnvironmentProd
		cfg.Spec.Values = map[string]string{"b": "spec", "c": "spec"}
		cfg.Spec.Environments = &configv1.AppConfigEnvironments{
			Dev:  &configv1.AppConfigOverrides{Values: map[string]string{"a": "dev"}},
			Prod: &configv1.AppConfigOverrides{Values: map[string]string{"c": "prod"}},
		}
	})
	sourced := map[string]render.Value{"a": {Text: "source", Secret: true}, "b": {Text: "source", Secret: true}}
	want := map[string]render.Value{"a": {Text: "source", Secret: true}, "b": {Text: "spec"}, "c": {Text: "prod"}}
	if diff := cmp.Diff(want, renderInput(cfg, sourced).Values); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
	if len(sourced) != 2 || sourced["b"].Text != "source" {
		t.Errorf("the sources were changed: %v", sourced)
	}
}

func TestRenderAll_reasons(t *testing.T) {
	schemaOf := func(text string) *configv1.AppConfigSchema {
		s := &configv1.AppConfigSchema{Config: &configv1.JSONSchema{}}
		s.Config.Raw = []byte(text)
		return s
	}
	fileSchema := &configv1.AppConfigSchema{Files: map[string]configv1.JSONSchema{"b.json": {}}}
	for name, tc := range map[string]struct {
		config, files map[string]string
		schema        *configv1.AppConfigSchema
		reason        string
		words         []string
	}{
		"missing value":        {map[string]string{"A": "{{ .Values.nothing }}"}, nil, nil, configv1.ReasonTemplateError, []string{"config.A", "nothing"}},
		"no template":          {map[string]string{"A": "{{ if }"}, nil, nil, configv1.ReasonTemplateError, []string{"config.A"}},
		"no function":          {map[string]string{"A": `{{ env "HOME" }}`}, nil, nil, configv1.ReasonTemplateError, []string{"config.A", "env"}},
		"one name twice":       {map[string]string{"A": "1"}, map[string]string{"A": "1"}, nil, configv1.ReasonTemplateError, []string{"A", "rename one"}},
		"no JSON":              {nil, map[string]string{"a.json": "{"}, nil, configv1.ReasonMalformed, []string{"a.json"}},
		"no schema":            {map[string]string{"A": "1"}, nil, schemaOf(`{"type":"nonsense"}`), configv1.ReasonInvalidSchema, []string{"spec.schema.config"}},
		"against the schema":   {map[string]string{"A": "1"}, nil, schemaOf(`{"required":["B"]}`), configv1.ReasonSchemaViolation, []string{"B"}},
		"a schema for no file": {map[string]string{"A": "1"}, nil, fileSchema, configv1.ReasonInvalidSchema, []string{`there is no file "b.json"`}},
	} {
		cfg := config(func(cfg *configv1.AppConfig) {
			cfg.Spec.Config, cfg.Spec.Files, cfg.Spec.Schema = tc.config, tc.files, tc.schema
		})
		out := renderAll(cfg, nil)
		if out.problem == nil || out.problem.Reason != tc.reason {
			t.Errorf("%s: %+v, want %s", name, out.problem, tc.reason)
			continue
		}
		for _, word := range tc.words {
			if !strings.Contains(out.problem.Message, word) {
				t.Errorf("%s: %q does not say %q", name, out.problem.Message, word)
			}
		}
	}
}

// large is a template that renders to more than half of what a ConfigMap holds.
func large() string {
	return `{{ range $k, $v := .Values }}{{ $v }}{{ end }}` + strings.Repeat("x", 60<<10)
}

func TestTooLarge(t *testing.T) {
	cfg := config(func(cfg *configv1.AppConfig) {
		cfg.Spec.Values, cfg.Spec.Config = map[string]string{"v": strings.Repeat("v", 600<<10)}, map[string]string{"A": large(), "B": large()}
	})
	if out := renderAll(cfg, nil); out.problem == nil || out.problem.Reason != fettlev1.ReasonTooLarge {
		t.Errorf("two keys that are too large together: %+v", out.problem)
	}
	cfg.Spec.Config = map[string]string{"A": "{{ .Values.v }}{{ .Values.v }}"}
	if out := renderAll(cfg, nil); out.problem == nil || out.problem.Reason != fettlev1.ReasonTooLarge {
		t.Errorf("one key that is too large: %+v", out.problem)
	}
	cfg.Spec.Config = map[string]string{"A": "{{ nothing of 1048576 bytes }}"}
	if out := renderAll(cfg, nil); out.problem == nil || out.problem.Reason != configv1.ReasonTemplateError {
		t.Errorf("a template that names the limit: %+v", out.problem)
	}
}

func TestWarnings(t *testing.T) {
	got := warnings(content{
		data: map[string]string{
			"DB_PASSWORD": "x", "db-passwd": "x", "API_KEY": "x", "apikey": "x", "authToken": "x", "clientSecret": "x",
			"LOG_LEVEL": "x", "EMPTY_TOKEN": "", "KEYBOARD": "x",
		},
		secret: map[string]string{"ROOT_PASSWORD": "x"},
	})
	if len(got) != 6 {
		t.Errorf("%d warnings: %q", len(got), got)
	}
	for _, w := range got {
		if strings.Contains(w, "ROOT_PASSWORD") || strings.Contains(w, "LOG_LEVEL") || strings.Contains(w, "EMPTY") {
			t.Errorf("needless: %s", w)
		}
	}
	many := content{data: map[string]string{}}
	for _, r := range "abcdefghijklmnopqrstuvwxyz" {
		many.data["token-"+string(r)] = "x"
	}
	if n := len(warnings(many)); n != maxWarnings {
		t.Errorf("%d warnings, at most %d are allowed", n, maxWarnings)
	}
}

func TestHashes(t *testing.T) {
	hash := func(owner string, c content) string { return contentHash(testKey, types.UID(owner), c) }
	base := content{data: map[string]string{"a": "1", "b": "2"}, secret: map[string]string{"c": "3"}}
	seen := map[string]string{hash("u1", base): "base"}
	for name, c := range map[string]content{
		"value":          {data: map[string]string{"a": "1", "b": "3"}, secret: base.secret},
		"key":            {data: map[string]string{"a": "1", "d": "2"}, secret: base.secret},
		"boundary":       {data: map[string]string{"a": "1", "b2": ""}, secret: base.secret},
		"secret value":   {data: base.data, secret: map[string]string{"c": "4"}},
		"no secret":      {data: base.data},
		"not secret now": {data: map[string]string{"a": "1", "b": "2", "c": "3"}},
	} {
		got := hash("u1", c)
		if other, twice := seen[got]; twice {
			t.Errorf("%s and %s have one hash", name, other)
		}
		seen[got] = name
	}
	if hash("u1", base) != hash("u1", content{data: map[string]string{"b": "2", "a": "1"}, secret: map[string]string{"c": "3"}}) {
		t.Error("the order counts")
	}
	if hash("u1", base) == hash("u2", base) {
		t.Error("two AppConfigs with the same secret can be seen to have it")
	}
	if contentHash(digest.Key("another key"), "u1", base) == hash("u1", base) {
		t.Error("the digest of secret values has no key")
	}
	if contentHash(nil, "u1", content{data: base.data}) != hash("u1", content{data: base.data}) {
		t.Error("a content without secret values depends on the key")
	}
}

// Neither an upgrade from a release without keys nor the loss of the key makes a new revision.
func TestHashOfKept_namesTheSameContents(t *testing.T) {
	c := content{data: map[string]string{"a": "1"}, secret: map[string]string{"b": "2"}}
	found := existing{kept: []revision{
		{content: content{data: map[string]string{"a": "1"}}, hash: "without the secret", complete: true}, {content: c, hash: "incomplete"},
		{content: c, hash: "of another key", complete: true},
	}}
	if got := found.hashOfKept(c); got != "of another key" {
		t.Errorf("kept as %q", got)
	}
	edited := existing{target: &revision{content: c, hash: "edited", complete: true}}
	if got := edited.hashOfKept(c); got != "" {
		t.Errorf("what is published and may have been edited counts: %q", got)
	}
}

func TestInputsKey(t *testing.T) {
	sources := []source{{kind: kindSecret, name: "a", version: "u/1"}}
	base := config(func(cfg *configv1.AppConfig) { cfg.Spec.Config = map[string]string{"A": "1"} })
	key := inputsKey(base, sources)
	for name, change := range map[string]func(*configv1.AppConfig){
		"config":      func(cfg *configv1.AppConfig) { cfg.Spec.Config["A"] = "2" },
		"files":       func(cfg *configv1.AppConfig) { cfg.Spec.Files = map[string]string{"B": "2"} },
		"values":      func(cfg *configv1.AppConfig) { cfg.Spec.Values = map[string]string{"B": "2"} },
		"environment": func(cfg *configv1.AppConfig) { cfg.Spec.Environment = configv1.EnvironmentProd },
		"schema":      func(cfg *configv1.AppConfig) { cfg.Spec.Schema = &configv1.AppConfigSchema{} },
		"sources": func(cfg *configv1.AppConfig) {
			cfg.Spec.ValuesFrom = []configv1.AppConfigValuesSource{{Prefix: "x"}}
		},
	} {
		cfg := base.DeepCopy()
		change(cfg)
		if inputsKey(cfg, sources) == key {
			t.Errorf("%s: a change is not noticed", name)
		}
	}
	if inputsKey(base, []source{{kind: kindSecret, name: "a", version: "u/2"}}) == key {
		t.Error("another version is not noticed")
	}
	paused := base.DeepCopy()
	paused.Spec.Rollout.MaxConcurrent, paused.Generation = 7, 9
	if inputsKey(paused, sources) != key {
		t.Error("what is not rendered counts")
	}
}
