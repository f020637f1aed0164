package cluster

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// This test renders a chart with the structure of OLM's chart.
func TestOLMObjects(t *testing.T) {
	dir := t.TempDir()
	for file, content := range map[string]string{
		"Chart.yaml":  "apiVersion: v1\nname: olm\nversion: 0.0.1\n",
		"values.yaml": "namespace: other\ncatalog: {opmImageArgs: other, image: {ref: other}}\n",
		"crds/one.yaml": `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: csvs}
`,
		"templates/_helpers.tpl":   `{{ define "name" }}catalog-operator{{ end }}`,
		"templates/_part.yaml":     "kind: Part\nmetadata: {name: not-an-object}\n",
		"templates/empty.yaml":     "{{ if .Values.none }}kind: None{{ end }}\n",
		"templates/catalog.yaml":   "kind: CatalogSource\nmetadata: {name: operatorhubio-catalog}\n",
		"templates/operators.yaml": "kind: Deployment\nmetadata: {name: {{ include \"name\" . }}, namespace: {{ .Values.namespace }}, annotations: {image: \"{{ .Values.catalog.image.ref }}\", opm: \"{{ .Values.catalog.opmImageArgs }}\"}}\n",
	} {
		path := filepath.Join(dir, "deploy", "chart", file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	objects, err := olmObjects(module{Version: "v1.2.3", Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, o := range objects {
		got = append(got, o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName())
	}
	want := []string{"CustomResourceDefinition /csvs", "Deployment olm/catalog-operator"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	annotations := map[string]string{
		"image": "quay.io/operator-framework/olm:v1.2.3",
		"opm":   "--opmImage=quay.io/operator-framework/opm:latest",
	}
	if diff := cmp.Diff(annotations, objects[1].GetAnnotations()); diff != "" {
		t.Error(diff)
	}
}

func TestReadManifests(t *testing.T) {
	for _, pattern := range []string{"coredns*.yaml", "storage*.yaml"} {
		if data, err := readManifests(pattern); err != nil || len(data) == 0 {
			t.Errorf("%s: %v", pattern, err)
		}
	}
	if _, err := readManifests("none*.yaml"); err == nil {
		t.Error("a pattern without a match returned no error")
	}
}
