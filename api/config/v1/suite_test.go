package v1_test

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/fettle-dev/fettle/internal/testenv"
)

var env *testenv.Env

func TestMain(m *testing.M) {
	testenv.Main(m, &env, testenv.Options{Fast: true})
}

func newClient(t *testing.T) client.Client {
	t.Helper()
	c, err := client.New(env.Admin, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// object is a manifest: spec is what to change in the smallest one that is accepted, by YAML; a null removes.
func object(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	content := map[string]any{"application": "shop", "environment": "dev", "config": map[string]any{"A": "1"}}
	var changes map[string]any
	if err := yaml.Unmarshal([]byte(spec), &changes); err != nil {
		t.Fatalf("%s: %v", spec, err)
	}
	for key, value := range changes {
		content[key] = value
		if value == nil {
			delete(content, key)
		}
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": content}}
	u.SetAPIVersion("config.fettle.dev/v1")
	u.SetKind("AppConfig")
	u.SetNamespace("default")
	u.SetName("shop")
	return u
}

// try makes the API server validate a manifest without storing it.
func try(t *testing.T, c client.Client, u *unstructured.Unstructured) error {
	t.Helper()
	content, err := yaml.Marshal(u.Object) // numbers as they come from a file
	if err != nil {
		t.Fatal(err)
	}
	sent := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(content, &sent.Object); err != nil {
		t.Fatal(err)
	}
	return c.Create(t.Context(), sent, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
}

// created stores a manifest in a new namespace.
func created(t *testing.T, u *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	u.SetNamespace(env.Namespace(t))
	if err := newClient(t).Create(t.Context(), u); err != nil {
		t.Fatal(err)
	}
	return u
}

func schema(t *testing.T) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "crd", "bases", "config.fettle.dev_appconfigs.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		t.Fatal(err)
	}
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// walk visits all that is ours below a schema, with paths such as .spec.rollout.targets[].name.
func walk(s *apiextensionsv1.JSONSchemaProps, path string, visit func(string, *apiextensionsv1.JSONSchemaProps)) {
	visit(path, s)
	if path == ".spec.rollout.selector" || path == ".status.conditions[]" {
		return // Kubernetes' own
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		walk(&property, path+"."+name, visit)
	}
	if s.Items != nil {
		walk(s.Items.Schema, path+"[]", visit)
	}
}
