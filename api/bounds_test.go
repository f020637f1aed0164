package api_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// parents is what else an object must have for a field below it to be validated.
var parents = map[string]any{
	".spec.autoscaling":                  map[string]any{"maxReplicas": 10000, "targetCPUUtilizationPercentage": 50},
	".spec.configRefs[]":                 map[string]any{"kind": "ConfigMap", "name": "a"},
	".spec.env[]":                        map[string]any{"name": "A"},
	".spec.envFrom[]":                    map[string]any{"configMapRef": map[string]any{"name": "a"}},
	".spec.gateway":                      map[string]any{"parentRefs": []any{map[string]any{"name": "a"}}},
	".spec.gateway.parentRefs[]":         map[string]any{"name": "a"},
	".spec.imagePullSecrets[]":           map[string]any{"name": "a"},
	".spec.ingress":                      map[string]any{"host": "a"},
	".spec.ingress.certIssuer":           map[string]any{"name": "a"},
	".spec.ingress.extraHosts[]":         map[string]any{"host": "b"},
	".spec.ingress.extraHosts[].paths[]": map[string]any{"path": "/b"},
	".spec.ingress.extraPaths[]":         map[string]any{"path": "/b"},
	".spec.service.extraPorts[]":         map[string]any{"name": "a", "port": 8080},
	".spec.volumes[]":                    map[string]any{"name": "a", "emptyDir": map[string]any{}},
	".spec.volumeMounts[]":               map[string]any{"name": "a", "mountPath": "/a"},
	".spec.tolerations[]":                map[string]any{"operator": "Exists"},
	".spec.networkPolicy.from[]":         map[string]any{"podSelector": map[string]any{}},
}

// at returns a manifest of the kind with value at path.
func at(t *testing.T, k kind, path string, value any) *unstructured.Unstructured {
	t.Helper()
	u := object(t, k, "")
	if k.name == "WebApp" {
		u.Object["spec"].(map[string]any)["resources"] = map[string]any{"requests": map[string]any{"cpu": "1", "memory": "1Gi"}}
	}
	put(u.Object, "", strings.Split(strings.TrimPrefix(strings.ReplaceAll(path, "[]", ".[]"), "."), "."), value)
	return u
}

func put(in map[string]any, path string, rest []string, value any) {
	name := rest[0]
	path += "." + name
	if len(rest) == 1 {
		in[name] = value
		return
	}
	if rest[1] == "[]" {
		if len(rest) == 2 {
			in[name] = []any{value}
			return
		}
		item := parent(path + "[]")
		put(item, path+"[]", rest[2:], value)
		in[name] = []any{item}
		return
	}
	child, ok := in[name].(map[string]any)
	if !ok {
		child = parent(path)
	}
	put(child, path, rest[1:], value)
	in[name] = child
}

func parent(path string) map[string]any {
	if p, ok := parents[path].(map[string]any); ok {
		return maps.Clone(p)
	}
	return map[string]any{}
}

// bad are values that a field's schema rejects, by the text that the error must have.
func bad(path string, s *apiextensionsv1.JSONSchemaProps) map[string]any {
	values := map[string]any{}
	if len(s.Enum) > 0 {
		values["supported values"] = "Nonsense"
	}
	if s.Minimum != nil {
		values["greater than or equal to"] = int64(*s.Minimum) - 1
	}
	if s.Maximum != nil {
		values["less than or equal to"] = int64(*s.Maximum) + 1
	}
	badText(s, values)
	badSize(path, s, values)
	return values
}

func badText(s *apiextensionsv1.JSONSchemaProps, values map[string]any) {
	if s.MinLength != nil && *s.MinLength > 0 {
		values["at least"] = ""
	}
	if s.MaxLength != nil {
		values["may not be more than"] = strings.Repeat("a", int(*s.MaxLength)+1)
	}
	if s.Pattern != "" && s.Format == "" {
		values["should match"] = " "
	}
}

func badSize(path string, s *apiextensionsv1.JSONSchemaProps, values map[string]any) {
	if s.MinItems != nil && *s.MinItems > 0 {
		values["should have at least"] = []any{}
	}
	if s.MaxItems != nil {
		values["must have at most"] = slices.Repeat([]any{itemOf(path, s)}, int(*s.MaxItems)+1)
	}
	if s.MaxProperties != nil {
		m := map[string]any{}
		for i := range *s.MaxProperties + 1 {
			m[fmt.Sprintf("k%d", i)] = "v"
		}
		values["must have at most"] = m
	}
}

func itemOf(path string, s *apiextensionsv1.JSONSchemaProps) any {
	if s.Items.Schema.Type == "string" {
		return "a/"
	}
	return parent(path + "[]")
}

// good are values at the edge of what a field's schema accepts.
func good(path string, s *apiextensionsv1.JSONSchemaProps) []any {
	var values []any
	for _, e := range s.Enum {
		var text string
		if strings.HasPrefix(path, ".spec.probes.") && string(e.Raw) == `"HTTP"` {
			continue // needs a path: TestRules
		}
		if json.Unmarshal(e.Raw, &text) == nil {
			values = append(values, text)
		}
	}
	for _, bound := range []*float64{s.Minimum, s.Maximum} {
		if bound != nil {
			values = append(values, int64(*bound))
		}
	}
	return values
}

func TestBounds(t *testing.T) {
	c := newClient(t)
	rejected, accepted := 0, 0
	for _, k := range kinds[:2] {
		walk(t, k, func(path string, s *apiextensionsv1.JSONSchemaProps) {
			field := strings.ReplaceAll(strings.TrimPrefix(path, "."), "[]", "[0]")
			for words, value := range bad(path, s) {
				rejected++
				err := try(t, c, at(t, k, path, value))
				if err == nil || !strings.Contains(err.Error(), field) || !strings.Contains(err.Error(), words) {
					t.Errorf("%s%s = %.40v: %.300v, want a refusal with %q", k.name, path, value, err, words)
				}
			}
			for _, value := range good(path, s) {
				accepted++
				if err := try(t, c, at(t, k, path, value)); err != nil {
					t.Errorf("%s%s = %v: rejected: %v", k.name, path, value, err)
				}
			}
		})
	}
	t.Logf("%d rejections, %d acceptances", rejected, accepted)
	if rejected < 100 || accepted < 50 {
		t.Error("too few: does walk see the whole schema?")
	}
}

func TestRequired(t *testing.T) {
	c := newClient(t)
	for _, k := range kinds {
		walk(t, k, func(path string, s *apiextensionsv1.JSONSchemaProps) {
			for _, name := range s.Required {
				err := try(t, c, at(t, k, path, map[string]any{}))
				if err == nil || !strings.Contains(err.Error(), "."+name+": Required value") {
					t.Errorf("%s%s without %s: %v", k.name, path, name, err)
				}
			}
		})
		u := object(t, k, "")
		delete(u.Object, "spec")
		if err := try(t, c, u); err == nil || !strings.Contains(err.Error(), "spec: Required value") {
			t.Errorf("%s without spec: %v", k.name, err)
		}
	}
}
