package ecommerceplatform

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	platformv1 "github.com/fettle-dev/fettle/api/platform/v1"
	"github.com/fettle-dev/fettle/internal/stack/ecommerce"
)

// desired is the AppStack of p as it is sent.
func desired(t *testing.T, p *platformv1.EcommercePlatform) map[string]any {
	t.Helper()
	spec, errs := ecommerce.Stack(p, false)
	if len(errs) > 0 {
		t.Fatal(errs.ToAggregate())
	}
	text, err := json.Marshal(appStack(p, spec))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(text); err != nil {
		t.Fatal(err)
	}
	return u.Object
}

func TestAppStack(t *testing.T) {
	p := shop()
	p.Spec.Environment, p.Spec.Cache.Enabled = platformv1.Staging, new(false)
	p.Spec.InheritedMetadata = &fettlev1.InheritedMetadata{
		Labels:      map[string]string{"team": "retail", "app.kubernetes.io/part-of": "retail"},
		Annotations: map[string]string{"example.com/a": "b"},
	}
	inherited := map[string]any{"platform": "shop", "team": "retail", "app.kubernetes.io/part-of": "retail"}
	want := map[string]any{
		"apiVersion": "platform.fettle.dev/v1", "kind": "AppStack",
		"metadata": map[string]any{
			"name": "shop", "namespace": "default",
			"labels": map[string]any{
				"platform": "shop", "team": "retail", "app.kubernetes.io/part-of": "retail",
				"app.kubernetes.io/name": "shop", "app.kubernetes.io/instance": "shop",
				"app.kubernetes.io/component": "ecommerceplatform", "app.kubernetes.io/managed-by": "fettle",
				"fettle.dev/owner-kind": "EcommercePlatform", "fettle.dev/owner-name": "shop",
			},
			"annotations": map[string]any{"example.com/a": "b"},
		},
		"spec": map[string]any{
			"environment": "staging",
			"components": []any{
				map[string]any{"name": "db", "postgreSQL": map[string]any{"version": "17"}},
				map[string]any{"name": "backend", "webApp": map[string]any{"image": "backend"}, "dependsOn": []any{"db"}},
				map[string]any{"name": "frontend", "webApp": map[string]any{"image": "frontend"}, "dependsOn": []any{"backend"}},
			},
			"inheritedMetadata": map[string]any{"labels": inherited, "annotations": map[string]any{"example.com/a": "b"}},
		},
	}
	if diff := cmp.Diff(want, desired(t, p)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
