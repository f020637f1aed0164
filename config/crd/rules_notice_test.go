package crd_test

import (
	"slices"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// version is a version that keeps every rule; each test below breaks one.
func version() apiextensionsv1.CustomResourceDefinitionVersion {
	text := func() apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "string", Description: "a text.", MaxLength: new(int64(9))}
	}
	list := func(item apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{
			Type: "array", Description: "a list.", MaxItems: new(int64(9)), XListType: new("atomic"),
			Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &item},
		}
	}
	conditions := list(apiextensionsv1.JSONSchemaProps{Type: "object"})
	conditions.XListType, conditions.XListMapKeys = new("map"), []string{"type"}
	return apiextensionsv1.CustomResourceDefinitionVersion{
		Subresources:             &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
		AdditionalPrinterColumns: slices.Clone(commonColumns),
		Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
			Description: "a kind.",
			Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"spec": {Type: "object", Description: "what to do.", Properties: map[string]apiextensionsv1.JSONSchemaProps{
					"text": text(),
					"list": list(text()),
					"map": {
						Type: "object", Description: "a map.", MaxProperties: new(int64(9)),
						AdditionalProperties: &apiextensionsv1.JSONSchemaPropsOrBool{Schema: new(text())},
					},
				}},
				"status": {Type: "object", Description: "what was seen.", Properties: map[string]apiextensionsv1.JSONSchemaProps{
					"conditions": conditions,
				}},
			},
		}},
	}
}

func TestRulesNoticeWhatBreaksThem(t *testing.T) {
	// change returns a function that changes one field of the spec.
	change := func(name string, f func(*apiextensionsv1.JSONSchemaProps)) func(*apiextensionsv1.CustomResourceDefinitionVersion) {
		return func(v *apiextensionsv1.CustomResourceDefinitionVersion) {
			fields := v.Schema.OpenAPIV3Schema.Properties["spec"].Properties
			schema := fields[name]
			f(&schema)
			fields[name] = schema
		}
	}
	for name, test := range map[string]struct {
		breaks func(*apiextensionsv1.CustomResourceDefinitionVersion)
		want   string // part of the only finding; empty for none
	}{
		"nothing broken": {breaks: func(*apiextensionsv1.CustomResourceDefinitionVersion) {}},
		"enum": {breaks: change("text", func(s *apiextensionsv1.JSONSchemaProps) {
			s.MaxLength, s.Enum = nil, []apiextensionsv1.JSON{{Raw: []byte(`"a"`)}}
		})},
		"no status subresource": {func(v *apiextensionsv1.CustomResourceDefinitionVersion) { v.Subresources = nil }, "not a subresource"},
		"no column Ready":       {func(v *apiextensionsv1.CustomResourceDefinitionVersion) { v.AdditionalPrinterColumns[0].Name = "Age" }, "not Ready, Status and Reason"},
		"Ready only when wide":  {func(v *apiextensionsv1.CustomResourceDefinitionVersion) { v.AdditionalPrinterColumns[0].Priority = 1 }, "not Ready, Status and Reason"},
		"no column Message":     {func(v *apiextensionsv1.CustomResourceDefinitionVersion) { v.AdditionalPrinterColumns[3].Name = "Age" }, "no column Message"},
		"kind undescribed":      {func(v *apiextensionsv1.CustomResourceDefinitionVersion) { v.Schema.OpenAPIV3Schema.Description = "" }, "no description"},
		"conditions without key": {func(v *apiextensionsv1.CustomResourceDefinitionVersion) {
			status := v.Schema.OpenAPIV3Schema.Properties["status"].Properties
			conditions := status["conditions"]
			conditions.XListMapKeys = nil
			status["conditions"] = conditions
		}, "the key type"},
		"field undescribed":      {change("text", func(s *apiextensionsv1.JSONSchemaProps) { s.Description = "" }), "spec.text: has no description"},
		"string unbounded":       {change("text", func(s *apiextensionsv1.JSONSchemaProps) { s.MaxLength = nil }), "spec.text: is a string without"},
		"list unbounded":         {change("list", func(s *apiextensionsv1.JSONSchemaProps) { s.MaxItems = nil }), "spec.list: is a list without a maximum"},
		"list without type":      {change("list", func(s *apiextensionsv1.JSONSchemaProps) { s.XListType = nil }), "spec.list: is a list without a type"},
		"item unbounded":         {change("list", func(s *apiextensionsv1.JSONSchemaProps) { s.Items.Schema.MaxLength = nil }), "spec.list[]: is a string"},
		"map unbounded":          {change("map", func(s *apiextensionsv1.JSONSchemaProps) { s.MaxProperties = nil }), "spec.map: is a map"},
		"unknown fields allowed": {change("map", func(s *apiextensionsv1.JSONSchemaProps) { s.XPreserveUnknownFields = new(true) }), "unknown fields"},
	} {
		t.Run(name, func(t *testing.T) {
			v := version()
			test.breaks(&v)
			w := &walker{kind: "Test", met: map[string]bool{}}
			w.version(v)
			// The conditions' items belong to Kubernetes; in this test they are an empty object.
			switch {
			case test.want == "" && len(w.findings) > 0:
				t.Errorf("findings without a broken rule: %q", w.findings)
			case test.want != "" && (len(w.findings) != 1 || !strings.Contains(w.findings[0], test.want)):
				t.Errorf("findings %q, want one with %q", w.findings, test.want)
			}
		})
	}
}
