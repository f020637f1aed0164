package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const root = "../.."

func all(t *testing.T) []mutant {
	t.Helper()
	files, err := filepath.Glob("*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	mutants, err := load(files...)
	if err != nil || len(mutants) == 0 {
		t.Fatalf("%d mutants, %v", len(mutants), err)
	}
	return mutants
}

// Every mutant can be built and tried: its text occurs exactly once in its file, and its package has a matching test.
func TestLists_fitTheCode(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range all(t) {
		if _, err := m.mutate(root); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
		if m.Name == "" || m.Rule == "" || m.Old == m.New || seen[m.Name] {
			t.Errorf("%q is there twice, has no name or rule, or changes nothing", m.Name)
		}
		seen[m.Name] = true
		if !slices.ContainsFunc(testsOf(t, filepath.Join(root, m.Package)), regexp.MustCompile(m.Run).MatchString) {
			t.Errorf("%s: no test of %s matches %s", m.Name, m.Package, m.Run)
		}
	}
}

var testName = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)

// testsOf returns the names of the tests in a folder.
func testsOf(t *testing.T, folder string) (names []string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		for _, m := range testName.FindAllStringSubmatch(read(t, file), -1) {
			names = append(names, m[1])
		}
	}
	return names
}

var invariant = regexp.MustCompile(`(?m)^//  ?(\d+)\. `)

// Every invariant in the documentation of these packages has a mutant in the list of that name.
func TestLists_haveEveryInvariant(t *testing.T) {
	for _, pkg := range []string{"postgres/election", "apply", "rollout"} {
		mutants, err := load(filepath.Base(pkg) + ".yaml")
		if err != nil {
			t.Fatal(err)
		}
		invariants := invariant.FindAllStringSubmatch(read(t, filepath.Join(root, "internal", pkg, "doc.go")), -1)
		if len(invariants) < 10 {
			t.Errorf("found only %d invariants in the documentation of %s", len(invariants), pkg)
		}
		for _, i := range invariants {
			if !slices.ContainsFunc(mutants, func(m mutant) bool { return strings.HasPrefix(m.Rule, i[1]+".") }) {
				t.Errorf("no mutant violates invariant %s of %s", i[1], pkg)
			}
		}
	}
}

func read(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
