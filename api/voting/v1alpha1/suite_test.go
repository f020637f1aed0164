package v1alpha1_test

import (
	"maps"
	"os"
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

const twoOptions = `options: [{id: a, label: Cats}, {id: b, label: Dogs}]`

// object is a VoteConfig of that spec, with two options unless it says which.
func object(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	content := map[string]any{}
	for _, text := range []string{twoOptions, spec} {
		var changes map[string]any
		if err := yaml.Unmarshal([]byte(text), &changes); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
		maps.Copy(content, changes)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": content}}
	u.SetAPIVersion("voting.fettle.dev/v1alpha1")
	u.SetKind("VoteConfig")
	u.SetNamespace("default")
	u.SetName("vote")
	return u
}

// try makes the API server validate a manifest without storing it.
func try(t *testing.T, c client.Client, u *unstructured.Unstructured) error {
	t.Helper()
	content, err := u.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	sent := &unstructured.Unstructured{}
	if err := sent.UnmarshalJSON(content); err != nil { // numbers as they come from a file
		t.Fatal(err)
	}
	return c.Create(t.Context(), sent, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
}

func schemaOf(t *testing.T) *apiextensionsv1.JSONSchemaProps {
	t.Helper()
	text, err := os.ReadFile("../../../config/crd/bases/voting.fettle.dev_voteconfigs.yaml")
	if err != nil {
		t.Fatal(err)
	}
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict(text, crd); err != nil {
		t.Fatal(err)
	}
	return crd.Spec.Versions[0].Schema.OpenAPIV3Schema
}
