package language_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const root = "../.."

// texts are the files that users read, besides the strings in Go.
var texts = []string{
	"*.md", "docs/*.md", "docs/runbooks/*.md", "docs/reference/reasons.md", "docs/reference/codes.md",
	"config/crd/bases/*.yaml", "config/manifests/bases/*.yaml", "config/samples/*.yaml", "config/prometheus/*.yaml", "internal/monitoring/*/*.yaml", "internal/monitoring/*/*.json",
}

// code are the folders whose string literals become messages, logs, metrics and errors.
var code = []string{"api", "controllers", "internal", "main.go"}

// retired is a line of retired.txt.
type retired struct {
	pattern     *regexp.Regexp
	allowed     *regexp.Regexp // contexts in which the pattern is right; may be nil
	replacement string
}

// TestRetiredWords finds no word of retired.txt in what users read.
func TestRetiredWords(t *testing.T) {
	list := readRetired(t)
	counts := map[string]int{}
	for _, pattern := range texts {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			counts[folder(file)] += report(t, list, file, 1, string(text))
		}
	}
	for _, dir := range code {
		for _, file := range goFiles(t, filepath.Join(root, dir)) {
			for _, l := range literals(t, file) {
				counts[folder(file)] += report(t, list, file, l.line, l.text)
			}
		}
	}
	for _, dir := range slices.Sorted(maps.Keys(counts)) {
		t.Logf("%4d retired words in %s", counts[dir], dir)
	}
}

// find returns where the pattern is in a text, outside the contexts that are allowed.
func (r *retired) find(text string) [][]int {
	var allowed [][]int
	if r.allowed != nil {
		allowed = r.allowed.FindAllStringIndex(text, -1)
	}
	return slices.DeleteFunc(r.pattern.FindAllStringIndex(text, -1), func(at []int) bool {
		return slices.ContainsFunc(allowed, func(ok []int) bool { return ok[0] <= at[0] && at[1] <= ok[1] })
	})
}

// report fails the test once for each retired word of a text that starts at a line of a file.
func report(t *testing.T, list []retired, file string, line int, text string) int {
	t.Helper()
	found := 0
	for _, r := range list {
		for _, at := range r.find(text) {
			found++
			name, _ := filepath.Rel(root, file)
			word := strings.Join(strings.Fields(text[at[0]:at[1]]), " ")
			t.Errorf("%s:%d: %q is retired, write: %s", name, line+strings.Count(text[:at[0]], "\n"), word, r.replacement)
		}
	}
	return found
}

// readRetired reads retired.txt.
func readRetired(t *testing.T) []retired {
	t.Helper()
	raw, err := os.ReadFile("retired.txt")
	if err != nil {
		t.Fatal(err)
	}
	var list []retired
	for line := range strings.Lines(string(raw)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		pattern, rest, ok := strings.Cut(line, " -> ")
		if !ok {
			t.Fatalf("retired.txt: %q has no ->", line)
		}
		replacement, allowed, _ := strings.Cut(rest, " | ")
		r := retired{pattern: wholeWords(t, pattern), replacement: replacement}
		if allowed != "" {
			r.allowed = wholeWords(t, allowed)
		}
		list = append(list, r)
	}
	return list
}

func wholeWords(t *testing.T, pattern string) *regexp.Regexp {
	t.Helper()
	compiled, err := regexp.Compile(`(?i)\b(?:` + strings.ReplaceAll(strings.TrimSpace(pattern), " ", `\s+`) + `)\b`)
	if err != nil {
		t.Fatalf("retired.txt: %v", err)
	}
	return compiled
}

// literal is a string in Go, with the strings that are added to it.
type literal struct {
	line int
	text string
}

// literals are the strings of a file that have two words or more. Tags of fields and imports are not texts.
func literals(t *testing.T, file string) []literal {
	t.Helper()
	set := token.NewFileSet()
	parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var all []literal
	ast.Inspect(parsed, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.ImportSpec:
			return false
		case *ast.Field:
			n.Tag = nil
		case *ast.BinaryExpr:
			if text, whole := joined(n); whole {
				all = append(all, literal{line: set.Position(n.Pos()).Line, text: text})
				return false
			}
		case *ast.BasicLit:
			if text, whole := joined(n); whole {
				all = append(all, literal{line: set.Position(n.Pos()).Line, text: text})
			}
		}
		return true
	})
	return slices.DeleteFunc(all, func(l literal) bool { return len(strings.Fields(l.text)) < 2 })
}

// joined is the text of a string literal, or of a sum of string literals.
func joined(e ast.Expr) (string, bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		return text, err == nil && e.Kind == token.STRING
	case *ast.BinaryExpr:
		left, leftOK := joined(e.X)
		right, rightOK := joined(e.Y)
		return left + right, leftOK && rightOK && e.Op == token.ADD
	}
	return "", false
}

// goFiles are the Go files below a path that are shipped: no tests, and no helpers of tests.
func goFiles(t *testing.T, path string) []string {
	t.Helper()
	var files []string
	err := filepath.WalkDir(path, func(file string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "testenv" || entry.Name() == "testdata"):
			return filepath.SkipDir
		case strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") && !strings.HasPrefix(entry.Name(), "zz_"):
			files = append(files, file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func folder(file string) string {
	name, _ := filepath.Rel(root, file)
	return filepath.Dir(name)
}

// TestFind holds the rules of the list itself: whole words, over line breaks, and the contexts that are allowed.
func TestFind(t *testing.T) {
	list := []retired{
		{pattern: wholeWords(t, "stands? still")}, {pattern: wholeWords(t, "authority"), allowed: wholeWords(t, "certificate authority")},
	}
	for text, want := range map[string]int{
		"It Stands\n  still.": 1, "it understands still": 0, "a certificate authority": 0, "another authority": 1,
	} {
		found := 0
		for _, r := range list {
			found += len(r.find(text))
		}
		if found != want {
			t.Errorf("%q: found %d, want %d", text, found, want)
		}
	}
}
