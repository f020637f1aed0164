package v1_test

import (
	"os"
	"path/filepath"
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

// The kinds of this group.
const (
	webApp       = "WebApp"
	webAppPolicy = "WebAppPolicy"
)

// crdFiles are the generated definitions, which the API server of the tests serves.
var crdFiles = map[string]string{webApp: "webapps", webAppPolicy: "webapppolicies"}

func newClient(t *testing.T) client.Client {
	t.Helper()
	c, err := client.New(env.Admin, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// object is a manifest of the kind: spec is what to change in the smallest one that is accepted, by YAML; a null removes.
func object(t *testing.T, kind, spec string) *unstructured.Unstructured {
	t.Helper()
	content := smallest(kind)
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
	u.SetAPIVersion("apps.fettle.dev/v1")
	u.SetKind(kind)
	u.SetName("web")
	if kind == webApp {
		u.SetNamespace("default")
	}
	return u
}

func smallest(kind string) map[string]any {
	if kind == webAppPolicy {
		return map[string]any{"namespaceSelector": map[string]any{}, "maxReplicas": int64(10)}
	}
	return map[string]any{"image": "nginx"}
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

func schemaOf(t *testing.T, kind string) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "..", "config", "crd", "bases", "apps.fettle.dev_"+crdFiles[kind]+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		t.Fatal(err)
	}
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}
