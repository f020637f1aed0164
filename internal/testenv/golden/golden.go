// Package golden compares the output of tests with files. `go test PACKAGE -update` writes the files.
package golden

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Cases compares render of each testdata/*.yaml with its *.golden.yaml. There must be as many cases as said.
func Cases[T any](t *testing.T, cases int, render func(*testing.T, T) string) {
	t.Helper()
	paths, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range paths {
		name, golden := strings.CutSuffix(path, ".golden.yaml")
		if golden {
			continue
		}
		cases--
		name = strings.TrimSuffix(name, ".yaml")
		t.Run(filepath.Base(name), func(t *testing.T) {
			got := render(t, Read[T](t, path))
			if diff := cmp.Diff(got, render(t, Read[T](t, path))); diff != "" {
				t.Errorf("the same input gave different output: %s", diff)
			}
			Compare(t, name+".golden.yaml", got)
		})
	}
	if cases != 0 {
		t.Errorf("%d cases fewer than expected in testdata", cases)
	}
}

// Read reads a YAML file and rejects unknown fields.
func Read[T any](t *testing.T, path string) (c T) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.UnmarshalStrict(raw, &c); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return c
}

// YAML returns the objects as YAML documents.
func YAML[T any](t *testing.T, objects []T) string {
	t.Helper()
	docs := make([]string, len(objects))
	for i, o := range objects {
		raw, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		docs[i] = string(raw)
	}
	return strings.Join(docs, "---\n")
}

// Compare compares got with the file.
func Compare(t *testing.T, path, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v: run with -update", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got; -update rewrites it):\n%s", path, diff)
	}
}
