package v1_test

import (
	"os"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
)

// TestEveryFieldIsDocumented looks for the path of each field, in backquotes, in the kind's page.
func TestEveryFieldIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../../../docs/webapp.md")
	if err != nil {
		t.Fatal(err)
	}
	fields := 0
	walk(schemaOf(t, webApp), "", func(path string, _ *apiextensionsv1.JSONSchemaProps) {
		field := strings.TrimPrefix(path, ".")
		if strings.Count(field, ".") == 0 || strings.HasPrefix(field, "metadata") ||
			strings.HasPrefix(field, "status.conditions[]") || strings.HasPrefix(field, "spec.resources.") || strings.HasSuffix(field, "[]") {
			return
		}
		fields++
		if !strings.Contains(string(page), "`"+field+"`") {
			t.Errorf("docs/webapp.md does not mention `%s`", field)
		}
	})
	if fields < 80 {
		t.Errorf("only %d fields found", fields)
	}
}
