package v1alpha1_test

import (
	"maps"
	"os"
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
	content := map[string]any{"version": "16", "storage": "1Gi"}
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
	u.SetAPIVersion("database.fettle.dev/v1alpha1")
	u.SetKind("PostgreSQL")
	u.SetName("demo")
	u.SetNamespace("default")
	return u
}

// try has the API server judge a manifest without storing it.
func try(t *testing.T, c client.Client, u *unstructured.Unstructured) error {
	t.Helper()
	return c.Create(t.Context(), plain(t, u), client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
}

// plain has numbers as they come from a file.
func plain(t *testing.T, u *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	content, err := yaml.Marshal(u.Object)
	if err != nil {
		t.Fatal(err)
	}
	sent := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(content, &sent.Object); err != nil {
		t.Fatal(err)
	}
	return sent
}

func schema(t *testing.T) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	text, err := os.ReadFile("../../../config/crd/bases/database.fettle.dev_postgresqls.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		t.Fatal(err)
	}
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}

// kubernetesTypes are the fields below which the schema is Kubernetes' own.
var kubernetesTypes = []string{
	".spec.affinity", ".spec.tolerations[]", ".spec.topologySpreadConstraints[]", ".spec.resources.claims", ".spec.resources.limits", ".spec.resources.requests",
}

// walk visits all that is ours below a schema, with paths such as .spec.roles[].name.
func walk(s *apiextensionsv1.JSONSchemaProps, path string, visit func(string, *apiextensionsv1.JSONSchemaProps)) {
	visit(path, s)
	if slices.Contains(kubernetesTypes, path) {
		return
	}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		walk(&property, path+"."+name, visit)
	}
	if s.Items != nil {
		walk(s.Items.Schema, path+"[]", visit)
	}
	if s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil {
		walk(s.AdditionalProperties.Schema, path+"{}", visit)
	}
}
