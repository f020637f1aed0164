package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// mutant is one deliberate bug.
type mutant struct {
	// Name is unique, such as apply/no-hash.
	Name string `json:"name"`
	// Rule is the sentence that the bug violates. It begins with the number of the invariant in the package documentation, if it has one.
	Rule string `json:"rule"`
	// File is the file to change, from the root of the repository.
	File string `json:"file"`
	// Old occurs exactly once in File and is replaced by New.
	Old string `json:"old"`
	New string `json:"new"`
	// Package has the tests. The default is the package of File.
	Package string `json:"package"`
	// Run selects the tests that must fail.
	Run string `json:"run"`
}

// load reads lists of mutants.
func load(files ...string) (mutants []mutant, _ error) {
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var list []mutant
		if err := yaml.UnmarshalStrict(raw, &list); err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, m := range list {
			if m.Package == "" {
				m.Package = "./" + filepath.Dir(m.File)
			}
			mutants = append(mutants, m)
		}
	}
	return mutants, nil
}

// baselines returns, for each package of the mutants, all its tests without a mutant.
func baselines(mutants []mutant) (out []mutant) {
	for _, m := range mutants {
		i := slices.IndexFunc(out, func(o mutant) bool { return o.Package == m.Package })
		if i < 0 {
			out = append(out, mutant{Name: m.Package, Rule: "its tests pass without a mutant", Package: m.Package, Run: m.Run})
		} else {
			out[i].Run += "|" + m.Run
		}
	}
	return out
}

func (m mutant) baseline() bool { return m.File == "" }

// mutate returns the text of m's file with the bug.
func (m mutant) mutate(root string) ([]byte, error) {
	raw, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return nil, err
	}
	if n := strings.Count(string(raw), m.Old); n != 1 {
		return nil, fmt.Errorf("%s has the text %q %d times", m.File, m.Old, n)
	}
	return []byte(strings.Replace(string(raw), m.Old, m.New, 1)), nil
}

// overlay writes the changed file, and returns a file for go test -overlay.
func (m mutant) overlay(dir string) (string, error) {
	changed, err := m.mutate(".")
	if err != nil {
		return "", err
	}
	original, err := filepath.Abs(m.File)
	if err != nil {
		return "", err
	}
	source := filepath.Join(dir, filepath.Base(m.File))
	content, err := json.Marshal(map[string]map[string]string{"Replace": {original: source}})
	if err != nil {
		return "", err
	}
	file := filepath.Join(dir, "overlay.json")
	return file, errors.Join(os.WriteFile(source, changed, 0o600), os.WriteFile(file, content, 0o600))
}

var failed = regexp.MustCompile(`(?m)^\s*--- FAIL: (\S+)`)

// try runs m's tests with its bug. They must fail then, or pass if m is no mutant.
func (m mutant) try(ctx context.Context) (message string, ok bool) {
	args := []string{"test", "-count=1", "-failfast", "-vet=off", "-ldflags=-s -w", "-run", m.Run} // halves the link time
	if !m.baseline() {
		dir, err := os.MkdirTemp("", "mutant-")
		if err != nil {
			return err.Error(), false
		}
		defer os.RemoveAll(dir) //nolint:errcheck // a temporary directory
		file, err := m.overlay(dir)
		if err != nil {
			return err.Error(), false
		}
		args = append(args, "-overlay", file, "-timeout=2m")
	}
	output, err := exec.CommandContext(ctx, "go", append(args, m.Package)...).CombinedOutput()
	text := string(output)
	found := failed.FindStringSubmatch(text)
	switch {
	case err == nil && m.baseline():
		return "passes", !strings.Contains(text, "no tests to run")
	case err == nil:
		return "MISSED by " + m.Run, false
	case m.baseline() || found == nil && !strings.Contains(text, "panic:"):
		return fmt.Sprintf("ERROR %v\n%s", err, text), false
	case found == nil:
		return "caught by a crash or the time limit", true
	default:
		return "caught by " + found[1], true
	}
}
