package apply

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

	"github.com/fettle-dev/fettle/internal/testenv/golden"
)

// TestStoredGolden records the desired objects as the API server stores them: the property tests need its defaults. The hash in them holds the
// desired form too: a change of it would write every child once after an upgrade.
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
		annotations[hashAnnotation] = ours.hash
		live.SetAnnotations(annotations)
		refs, _, _ := unstructured.NestedSlice(ours.content, "metadata", "ownerReferences")
		if err := unstructured.SetNestedSlice(live.Object, refs, "metadata", "ownerReferences"); err != nil {
			t.Fatal(err)
		}
		raw, err := yaml.Marshal(live.Object)
		if err != nil {
			t.Fatal(err)
		}
		golden.Compare(t, storedFile(d), string(raw))
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

func storedFile(d *desiredObject) string {
	return filepath.Join("testdata", "stored", strings.ToLower(d.gvk.Kind)+".yaml")
}

// stored returns the golden form in which the API server stores d.
func stored(t *testing.T, d *desiredObject) map[string]any {
	t.Helper()
	raw, err := os.ReadFile(storedFile(d))
	if err != nil {
		t.Fatal(err)
	}
	u := &unstructured.Unstructured{}
	if raw, err = yaml.YAMLToJSON(raw); err != nil {
		t.Fatal(err)
	}
	if err := u.UnmarshalJSON(raw); err != nil {
		t.Fatal(err)
	}
	return u.Object
}
