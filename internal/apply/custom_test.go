package apply

import (
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// routes is a kind that only its CRD describes, with defaults like those of the Gateway API.
func routes() *apiextensionsv1.CustomResourceDefinition {
	text := apiextensionsv1.JSONSchemaProps{Type: "string"}
	kind := apiextensionsv1.JSONSchemaProps{Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"Gateway"`)}}
	weight := apiextensionsv1.JSONSchemaProps{Type: "number", Default: &apiextensionsv1.JSON{Raw: []byte(`1`)}}
	list := func(fields map[string]apiextensionsv1.JSONSchemaProps) apiextensionsv1.JSONSchemaProps {
		return apiextensionsv1.JSONSchemaProps{Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{
			Schema: &apiextensionsv1.JSONSchemaProps{Type: "object", Properties: fields},
		}}
	}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "routes.test.fettle.dev"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "test.fettle.dev",
			Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "routes", Singular: "route", Kind: "Route", ListKind: "RouteList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object",
					Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {
						Type: "object",
						Properties: map[string]apiextensionsv1.JSONSchemaProps{
							"hostnames": {Type: "array", Items: &apiextensionsv1.JSONSchemaPropsOrArray{Schema: &text}},
							"parents":   list(map[string]apiextensionsv1.JSONSchemaProps{"name": text, "kind": kind}),
							"backends":  list(map[string]apiextensionsv1.JSONSchemaProps{"name": text, "weight": weight}),
							"mode":      {Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"all"`)}},
						},
					}},
				}},
			}},
		},
	}
}

func route(namespace string) *unstructured.Unstructured {
	labels := map[string]any{}
	for k, v := range testLabels() {
		labels[k] = v
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "test.fettle.dev/v1", "kind": "Route",
		"metadata": map[string]any{"name": "web", "namespace": namespace, "labels": labels},
		"spec": map[string]any{
			"hostnames": []any{"shop.example.com"},
			"parents":   []any{map[string]any{"name": "public"}},
			"backends":  []any{map[string]any{"name": "web", "weight": 2.0}},
		},
	}}
}

func emptyRoute() *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion("test.fettle.dev/v1")
	u.SetKind("Route")
	return u
}

func TestCustomKind(t *testing.T) {
	f := newFixture(t)
	if _, err := envtest.InstallCRDs(f.config, envtest.CRDInstallOptions{
		CRDs: []*apiextensionsv1.CustomResourceDefinition{routes()},
	}); err != nil {
		t.Fatal(err)
	}
	desired := func() runtime.ApplyConfiguration { return client.ApplyConfigurationFromUnstructured(route(f.name)) }
	const write = "PATCH routes/web"
	f.apply(desired())
	f.expect("creation", write)
	f.apply(desired())
	f.expect("again")
	f.restart()
	f.apply(desired())
	f.expect("after a restart")

	set := func(value any, fields ...string) func(*unstructured.Unstructured) {
		return func(u *unstructured.Unstructured) {
			if err := unstructured.SetNestedField(u.Object, value, fields...); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, tc := range []struct {
		name   string
		change func(*unstructured.Unstructured)
		want   []string
	}{
		{"a foreign label", set("1", "metadata", "labels", "theirs"), nil},
		{"a foreign owner", func(u *unstructured.Unstructured) {
			u.SetOwnerReferences(append(u.GetOwnerReferences(), metav1.OwnerReference{
				APIVersion: "v1", Kind: "ConfigMap", Name: "theirs", UID: "0c7b5d6e-0000-4000-8000-00000000000f",
			}))
		}, nil},
		{"a defaulted field", set("some", "spec", "mode"), nil},
		{"a defaulted field of an item", set([]any{map[string]any{"name": "public", "kind": "Other"}}, "spec", "parents"), nil},
		{"an additional item", set([]any{"shop.example.com", "other.example.com"}, "spec", "hostnames"), []string{write}},
		{"another item", set([]any{"other.example.com"}, "spec", "hostnames"), []string{write}},
		{"a number", set([]any{map[string]any{"name": "web", "weight": 2.5}}, "spec", "backends"), []string{write}},
		{"the owner", func(u *unstructured.Unstructured) { u.SetOwnerReferences(nil) }, []string{write}},
	} {
		f.run(tc.name, func(*testing.T) {
			live := emptyRoute()
			live.SetName("web")
			editAsOther(f, live, tc.change)
			f.apply(desired())
			f.expect("repair", tc.want...)
			f.apply(desired())
			f.expect("afterwards")
		})
	}
	if err := f.Prune(t.Context(), f.owner, route(f.name)); err != nil {
		t.Fatal(err)
	}
	f.expect("removal", "DELETE routes/web")
}
