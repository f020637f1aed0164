package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// mutant is one deliberate bug.
type mutant struct {
	// Name is unique, such as apply/no-hash.
	Name string `json:"name"`
	// Rule is the sentence that the bug violates.
	Rule string `json:"rule"`
	// File is the file to change, from the module's root.
	File string `json:"file"`
	// Old occurs exactly once in File and is replaced by New.
	Old string `json:"old"`
	New string `json:"new"`
	// Package has the tests, such as ./internal/apply; Run selects the tests that must fail.
	Package string `json:"package"`
	Run     string `json:"run"`
	// APIServer means that those tests need an API server.
	APIServer bool `json:"apiServer,omitempty"`
}

func (m mutant) validate() error {
	var missing []string
	for name, v := range map[string]string{
		"name": m.Name, "rule": m.Rule, "file": m.File, "old": m.Old, "package": m.Package, "run": m.Run,
	} {
		if v == "" {
			missing = append(missing, name)
		}
	}
	switch {
	case len(missing) > 0:
		return fmt.Errorf("mutant %q has no %s", m.Name, strings.Join(missing, ", no "))
	case m.Old == m.New:
		return fmt.Errorf("mutant %q changes nothing", m.Name)
	}
	if _, err := regexp.Compile(m.Run); err != nil {
		return fmt.Errorf("mutant %q: run: %w", m.Name, err)
	}
	return nil
}

// mutate returns the text of m's file with the bug.
func (m mutant) mutate(root string) ([]byte, error) {
	raw, err := os.ReadFile(filepath.Join(root, m.File))
	if err != nil {
		return nil, err
	}
	switch n := strings.Count(string(raw), m.Old); n {
	case 1:
		return []byte(strings.Replace(string(raw), m.Old, m.New, 1)), nil
	case 0:
		return nil, fmt.Errorf("%s does not have the text %q", m.File, m.Old)
	default:
		return nil, fmt.Errorf("%s has the text %q %d times", m.File, m.Old, n)
	}
}

// load reads the lists of mutants and keeps those whose name matches.
func load(files []string, pattern *regexp.Regexp) ([]mutant, error) {
	var out []mutant
	seen := map[string]string{}
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
			if err := m.validate(); err != nil {
				return nil, fmt.Errorf("%s: %w", file, err)
			}
			if other, ok := seen[m.Name]; ok {
				return nil, fmt.Errorf("%s: mutant %q is also in %s", file, m.Name, other)
			}
			seen[m.Name] = file
			if pattern.MatchString(m.Name) {
				out = append(out, m)
			}
		}
	}
	if len(out) == 0 {
		return nil, errors.New("no mutant of that name")
	}
	return out, nil
}
