package render

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// schemas are schemas and the expected errors; "" if none.
var schemas = []struct{ schema, problem string }{
	{`{}`, ""},
	{`true`, ""},
	{`{"type": "object", "required": ["A"], "properties": {"A": {"pattern": "^[a-z]+$", "maxLength": 5}}}`, ""},
	{`{"$schema": "http://json-schema.org/draft-07/schema#", "items": [{"type": "string"}], "additionalItems": false}`, ""},
	{`{"$schema": "https://json-schema.org/draft/2020-12/schema", "prefixItems": [{"const": 1e300}], "unevaluatedItems": false}`, ""},
	{`{"$comment": "x", "if": {"minProperties": 1}, "then": {"anyOf": [{}, {"not": {}}]}}`, ""},
	{``, "not valid JSON"},
	{`{"a": 1,}`, "not valid JSON: line 1"},
	{`5`, "not a JSON Schema: /: got number, want boolean or object"},
	{`{"type": "text"}`, "not a JSON Schema: /type: "},
	{`{"pattern": "("}`, "not a JSON Schema: /pattern: "},
	{`{"minLength": -1}`, "not a JSON Schema: /minLength: "},
	{`{"$schema": "http://json-schema.org/draft-04/schema#"}`, "$schema is not one of"},
	{`{"$schema": "https://example.com/schema"}`, "$schema is not one of"},
	{`{"$schema": 5}`, "$schema is not one of"},
	{`{"$ref": "#/$defs/a", "$defs": {"a": {}}}`, "$ref is not available"},
	{`{"items": {"$ref": "https://example.com/a.json"}}`, "$ref is not available"},
	{`{"items": [{"$dynamicRef": "#a"}]}`, "$dynamicRef is not available"},
	{`{"$schema": "https://json-schema.org/draft/2019-09/schema", "$recursiveRef": "#"}`, "$recursiveRef is not available"},
	{`{"$id": "file:///etc/passwd"}`, "$id is not available"},
	{`{"minimum": 1e999999999}`, "a number has an exponent beyond 308"},
	{`{"multipleOf": 1E-999999999}`, "a number has an exponent beyond 308"},
	{`{"const": 1e99999999999999999999}`, "a number has an exponent beyond 308"},
	{`{"const": ` + strings.Repeat("1", 65) + `}`, "a number has more than 64 characters"},
	{`{"description": {"$ref": "#"}}`, "$ref is not available"},
	{`{"pattern": "` + strings.Repeat("(a|b)+", 600) + `"}`, "at most 2000 are allowed"},
	{`{"patternProperties": {"(x{100}){10}y{1000}z{1000}": {}}}`, "at most 2000 are allowed"},
	{strings.Repeat(`{"not":`, 101) + `{}` + strings.Repeat(`}`, 101), "it nests deeper than 100"},
	{`{"title": "` + strings.Repeat("x", maxSchema) + `"}`, "at most 65536 are allowed"},
}

func TestCheckSchema(t *testing.T) {
	for _, c := range schemas {
		err := CheckSchema([]byte(c.schema))
		switch {
		case c.problem == "" && err != nil:
			t.Errorf("%.80s: %v", c.schema, err)
		case c.problem != "" && (err == nil || !strings.HasPrefix(err.Error(), "schema: ") || !strings.Contains(err.Error(), c.problem)):
			t.Errorf("%.80s: %v, want %s", c.schema, err, c.problem)
		case err != nil && (strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), schemaURL)):
			t.Errorf("%.80s: %v", c.schema, err)
		}
	}
}

func validated(out Output, s Schemas) []string {
	err := Validate(out, s)
	if err == nil {
		return nil
	}
	return strings.Split(err.Error(), "; ")
}

func TestValidateConfig(t *testing.T) {
	out := Output{
		Data:   map[string]string{"PORT": "80a", "LEVEL": "loud", "Z": "1", "app.yaml": "x"},
		Secret: map[string]string{"PASSWORD": "S3CRET", "S3": "S3CRET"},
		Files:  []string{"app.yaml"},
	}
	for _, c := range []struct {
		schema string
		want   []string
	}{
		{`{"minProperties": 5, "maxProperties": 5, "required": ["PORT", "PASSWORD"]}`, nil}, // files are not keys
		{`{"properties": {"PORT": {"pattern": "^[0-9]+$"}}}`,
			[]string{"config.PORT: '80a' does not match pattern '^[0-9]+$' (rule /properties/PORT/pattern of its schema)"}},
		{`{"properties": {"PASSWORD": {"pattern": "^[0-9]+$", "maxLength": 2}}}`, []string{
			"config.PASSWORD: breaks the rule /properties/PASSWORD/maxLength of its schema",
			"config.PASSWORD: breaks the rule /properties/PASSWORD/pattern of its schema"}},
		{`{"required": ["HOST"], "properties": {"LEVEL": {"enum": ["info", "debug"]}}}`, []string{
			"config: missing property 'HOST' (rule /required of its schema)",
			"config.LEVEL: value must be one of 'info', 'debug' (rule /properties/LEVEL/enum of its schema)"}},
		{`{"properties": {"PORT": true, "PASSWORD": true}, "additionalProperties": false}`,
			[]string{"config: additional properties 'LEVEL', 'S3', 'Z' not allowed (rule /additionalProperties of its schema)"}},
		{`{"properties": {"PORT": true, "LEVEL": true, "Z": true}, "additionalProperties": {"const": "x"}}`, []string{
			"config.PASSWORD: breaks the rule /additionalProperties/const of its schema",
			"config.S3: breaks the rule /additionalProperties/const of its schema"}},
		{`{"const": {"PASSWORD": "x"}}`, []string{"config: breaks the rule /const of its schema"}},
		{`{"enum": [1, 2]}`, []string{"config: breaks the rule /enum of its schema"}},
		{`{"propertyNames": {"maxLength": 7}}`,
			[]string{"config: invalid propertyName 'PASSWORD' (rule /propertyNames of its schema)"}},
		{`{"anyOf": [{"required": ["A"]}, {"properties": {"S3": {"const": "x"}}}]}`,
			[]string{"config: breaks the rule /anyOf of its schema"}},
		{`{"allOf": [{"required": ["A"]}, {"not": {"required": ["Z"]}}]}`, []string{
			"config: breaks the rule /allOf/1/not of its schema",
			"config: missing property 'A' (rule /allOf/0/required of its schema)"}},
		{`{"dependentRequired": {"Z": ["Y"]}}`,
			[]string{"config: properties 'Y' required, if 'Z' exists (rule /dependentRequired/Z of its schema)"}},
		{`false`, []string{"config: breaks the rule / of its schema"}},
		{`{"type": "x"}`, []string{`schema.config: not a JSON Schema: /type: value must be one of 'array', 'boolean', 'integer', 'null', 'number', 'object', 'string'`}},
	} {
		if diff := cmp.Diff(c.want, validated(out, Schemas{Config: []byte(c.schema)})); diff != "" {
			t.Errorf("%s: -want +got\n%s", c.schema, diff)
		}
	}
}

func TestValidateFiles(t *testing.T) {
	const schema = `{"properties": {"users": {"items": {"properties": {"age": {"type": "integer", "maximum": 150}}, "required": ["name"]}}}, "additionalProperties": false}`
	const document = "users: [{age: S3CRET}, {age: 200, name: S3CRET}]\nS3CRET: 1\n"
	files := map[string][]byte{"a.yaml": []byte(schema)}
	open := Output{Data: map[string]string{"a.yaml": document}, Files: []string{"a.yaml"}}
	want := []string{
		"files[a.yaml]: /users/0/age: got string, want integer (rule /properties/users/items/properties/age/type of its schema)",
		"files[a.yaml]: /users/0: missing property 'name' (rule /properties/users/items/required of its schema)",
		"files[a.yaml]: /users/1/age: maximum: got 200, want 150 (rule /properties/users/items/properties/age/maximum of its schema)",
		"files[a.yaml]: additional properties 'S3CRET' not allowed (rule /additionalProperties of its schema)",
	}
	if diff := cmp.Diff(want, validated(open, Schemas{Files: files})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	hidden := Output{Secret: map[string]string{"a.yaml": document}, Files: []string{"a.yaml"}}
	want = []string{
		"files[a.yaml]: breaks the rule /additionalProperties of its schema",
		"files[a.yaml]: breaks the rule /properties/users/items/properties/age/maximum of its schema",
		"files[a.yaml]: breaks the rule /properties/users/items/properties/age/type of its schema",
		"files[a.yaml]: breaks the rule /properties/users/items/required of its schema",
	}
	if diff := cmp.Diff(want, validated(hidden, Schemas{Files: files})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	for _, c := range []struct{ name, text, want string }{
		{"a.yaml", "users: [{name: x, age: 5}]", ""},
		{"a.json", `{"users": [{"name": "x", "age": 5}]}`, ""},
		{"a.json", `{"users": [`, "files[a.json] line 1: not valid JSON: unexpected end of JSON input"},
		{"a.json", `{"users": 1e999999999}`, "files[a.json]: a number has an exponent beyond 308"},
		{"a.conf", `x`, "files[a.conf]: not valid for a schema: its name must end in .json, .yaml or .yml"},
	} {
		out := Output{Data: map[string]string{c.name: c.text}, Files: []string{c.name}}
		got := strings.Join(validated(out, Schemas{Files: map[string][]byte{c.name: []byte(schema)}}), "; ")
		if got != c.want {
			t.Errorf("%s: %s: %s", c.name, c.text, got)
		}
	}
	if got := validated(Output{}, Schemas{Files: files}); len(got) != 1 || got[0] != "schema.files[a.yaml]: there is no file of that name" {
		t.Errorf("%q", got)
	}
}

// TestValidate_isBounded validates expensive combinations: large times large, and patterns that read a whole text many times.
func TestValidate_isBounded(t *testing.T) {
	list := "[" + strings.Repeat(`"x",`, 5000) + `"x"]`
	rules := `{"items": {"allOf": [` + strings.Repeat(`{"type": "integer"},`, 400) + `{}]}}`
	text := strings.Repeat("a", 100000)
	patterns := `{"allOf": [` + strings.Repeat(`{"pattern": "^(a|aa)+$"},`, 200) + `{}]}`
	for _, c := range []struct{ document, schema, want string }{
		{list, rules, "5002 parts are too many for a schema of 804: their product is at most 1000000"},
		{`"` + text + `"`, patterns, "the patterns of its schema take too long"},
	} {
		out := Output{Data: map[string]string{"a.json": c.document}, Files: []string{"a.json"}}
		got := validated(out, Schemas{Files: map[string][]byte{"a.json": []byte(c.schema)}})
		if len(got) == 0 || !strings.Contains(got[0], c.want) {
			t.Errorf("%.200q", got)
		}
	}
	// Annotations of a schema are not rules.
	words := `{"title": "` + strings.Repeat("x", 60000) + `", "examples": [` + strings.Repeat("1,", 1000) + `1], "type": "array"}`
	out := Output{Data: map[string]string{"a.json": list}, Files: []string{"a.json"}}
	if got := validated(out, Schemas{Files: map[string][]byte{"a.json": []byte(words)}}); got != nil {
		t.Errorf("%.200q", got)
	}
}

func TestValidate_reportsManyFaults(t *testing.T) {
	out := Output{Data: map[string]string{}}
	for i := range 100 {
		out.Data[fmt.Sprintf("KEY_%02d", i)] = "x"
	}
	got := validated(out, Schemas{Config: []byte(`{"additionalProperties": {"minLength": 2}}`)})
	if len(got) != maxFaults+1 || got[maxFaults] != "and 80 more" || !strings.HasPrefix(got[0], "config.KEY_00: ") {
		t.Errorf("%q", got)
	}
}
