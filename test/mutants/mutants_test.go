package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every mutant of the lists can be built and tried: its text occurs exactly once in its file, and its package has a matching test.
func TestLists_fitTheCode(t *testing.T) {
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	mutants, err := load(files, regexp.MustCompile(""))
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range mutants {
		if _, err := m.mutate(root); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
		first, _, _ := strings.Cut(m.Run, "/")
		if !slices.ContainsFunc(testsOf(t, filepath.Join(root, m.Package)), regexp.MustCompile(first).MatchString) {
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
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testName.FindAllStringSubmatch(string(text), -1) {
			names = append(names, m[1])
		}
	}
	return names
}

func TestLoad_validatesLists(t *testing.T) {
	valid := `
- {name: a, rule: r, file: code.txt, old: one, new: two, package: ./x, run: ^TestX$}
`
	for name, tc := range map[string]struct{ list, want string }{
		"valid":            {valid, ""},
		"twice":            {valid + valid, `mutant "a" is also in`},
		"unknown field":    {strings.Replace(valid, "rule:", "rules:", 1), "unknown field"},
		"no rule":          {strings.Replace(valid, "rule: r, ", "", 1), `mutant "a" has no rule`},
		"no change":        {strings.Replace(valid, "two", "one", 1), `mutant "a" changes nothing`},
		"bad expression":   {strings.Replace(valid, "^TestX$", `"("`, 1), `mutant "a": run`},
		"none by the name": {strings.Replace(valid, "name: a", "name: z", 1), "no mutant of that name"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "list.yaml")
			if err := os.WriteFile(file, []byte(tc.list), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := load([]string{file}, regexp.MustCompile("^a$"))
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}

func TestMutate(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "code.txt"), []byte("one two two"), 0o600); err != nil {
		t.Fatal(err)
	}
	for old, want := range map[string]string{"one": "", "two": "2 times", "three": "does not have"} {
		got, err := mutant{File: "code.txt", Old: old, New: "1"}.mutate(root)
		switch {
		case want == "" && (err != nil || string(got) != "1 two two"):
			t.Errorf("%s: %q, %v", old, got, err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: error %v, want %q", old, err, want)
		}
	}
}
