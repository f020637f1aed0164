package apply

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with testdata/name.
func golden(t *testing.T, name string, got map[string]any) {
	t.Helper()
	raw, err := yaml.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, raw, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(raw)); diff != "" {
		t.Errorf("%s (-want +got; -update rewrites it):\n%s", file, diff)
	}
}

func TestRenderGolden(t *testing.T) {
	for _, config := range webChildren(testNamespace) {
		d := mustRender(t, config, testOwner())
		golden(t, filepath.Join("desired", strings.ToLower(d.gvk.Kind)+".yaml"), d.content)
	}
}

// TestStoredGolden records the desired objects as the API server stores them: the property tests need its defaults.
func TestStoredGolden(t *testing.T) {
	f := newFixture(t)
	f.apply(f.children()...)
	for _, config := range f.children() {
		d := f.render(config)
		live := &unstructured.Unstructured{}
		live.SetGroupVersionKind(d.gvk)
		f.get(live)
		for _, volatile := range []string{"uid", "creationTimestamp", "resourceVersion", "managedFields", "ownerReferences"} {
			unstructured.RemoveNestedField(live.Object, "metadata", volatile)
		}
		for _, volatile := range []string{"clusterIP", "clusterIPs"} {
			unstructured.RemoveNestedField(live.Object, "spec", volatile)
		}
		live.SetNamespace(testNamespace)
		// The owner, and therefore the hash, differs in each run.
		ours := mustRender(t, withNamespace(t, d), testOwner())
		annotations := live.GetAnnotations()
		annotations[HashAnnotation] = ours.hash
		live.SetAnnotations(annotations)
		refs, _, _ := unstructured.NestedSlice(ours.content, "metadata", "ownerReferences")
		if err := unstructured.SetNestedSlice(live.Object, refs, "metadata", "ownerReferences"); err != nil {
			t.Fatal(err)
		}
		golden(t, filepath.Join("stored", strings.ToLower(d.gvk.Kind)+".yaml"), live.Object)
	}
}

// withNamespace returns the fixture of d's kind in the namespace of the pure tests.
func withNamespace(t *testing.T, d *desiredObject) runtime.ApplyConfiguration {
	t.Helper()
	for _, config := range webChildren(testNamespace) {
		if mustRender(t, config, testOwner()).gvk == d.gvk {
			return config
		}
	}
	t.Fatalf("no %s", d.gvk.Kind)
	return nil
}

// stored returns the golden form in which the API server stores d.
func stored(tb testing.TB, d *desiredObject) map[string]any {
	tb.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "stored", strings.ToLower(d.gvk.Kind)+".yaml"))
	if err != nil {
		tb.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if raw, err = yaml.YAMLToJSON(raw); err != nil {
		tb.Fatal(err)
	}
	if err := u.UnmarshalJSON(raw); err != nil {
		tb.Fatal(err)
	}
	return u.Object
}
