package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// writer returns a function that writes files below root.
func writer(t *testing.T, root string) func(name, text string) {
	return func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFigures_fillPages fills a page from a record, twice, and from two records with a pattern.
func TestFigures_fillPages(t *testing.T) {
	root := t.TempDir()
	write := writer(t, root)
	write("docs/figures/a.json", `{"command":"make a","commit":"c1","date":"d1","machine":"2 cores","conditions":["Replicas 0."],"columns":["X"],"rows":[["1 s"]]}`)
	write("docs/figures/time-a.json", `{"commit":"c2","date":"d2","machine":"2 cores","columns":["Target"],"rows":[["a"]]}`)
	write("docs/figures/time-b.json", `{"commit":"c3","date":"d3","machine":"4 cores","columns":["Target"],"rows":[["b"]]}`)
	write("docs/p.md", "before\n<!-- figures: a -->\nold\n<!-- end of figures -->\nafter\n<!-- figures: time-* -->\n<!-- end of figures -->\n")
	want := "before\n<!-- figures: a -->\n\n| X |\n| --- |\n| 1 s |\n\nMeasured on d1 at commit c1 with 2 cores.\n\n```sh\nmake a\n```\n\n- Replicas 0.\n\n<!-- end of figures -->\n" +
		"after\n<!-- figures: time-* -->\n\n| Target | Conditions | Commit | Date |\n| --- | --- | --- | --- |\n| a | 2 cores. | c2 | d2 |\n| b | 4 cores. | c3 | d3 |\n\n<!-- end of figures -->\n"
	for range 2 {
		if err := fillFigures(root); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(filepath.Join(root, "docs", "p.md"))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Fatalf("%s\nwant\n%s", got, want)
		}
	}
	write("docs/p.md", "<!-- figures: none -->\n<!-- end of figures -->\n")
	if fillFigures(root) == nil {
		t.Error("a table without a record is accepted")
	}
}

// TestConstants_commentsBecomeTables writes a small api/ and reads the pages of reasons and codes.
func TestConstants_commentsBecomeTables(t *testing.T) {
	root := t.TempDir()
	write := writer(t, root)
	write("api/meta/v1/a.go", "package v1\n\n// Ready is True when all is well.\nconst Ready = \"Ready\"\n\n"+
		"// Reasons that every kind uses.\nconst (\n\t// ReasonPaused means that spec.paused is true.\n\tReasonPaused = \"Paused\"\n)\n")
	write("api/apps/v1/b.go", "package v1\n\n// Phases of a WebApp or Run.\nconst (\n\tPhaseRunning WebAppPhase = \"Running\" // everything is ready\n)\n\n"+
		"// Reasons of a WebApp's conditions, besides those of all kinds.\nconst (\n"+
		"\t// ReasonFull: a volume is full\n\t// | nearly. Raise spec.storage.\n\tReasonFull = \"Full\"\n)\n")
	write("steps/c.go", "package steps\n\n// Codes of steps.\nconst (\n\t// CodeGone: it is gone.\n\tCodeGone Code = \"Gone\"\n\tother = \"x\"\n)\n")
	reasons, err := reasonsPage(root, []string{"Run", "WebApp"})
	if err != nil {
		t.Fatal(err)
	}
	codes, err := codesPage(root, []codeDir{{"steps", "Steps"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		"| `Ready` | all | True when all is well. |", "| `Paused` | all | spec.paused is true. |  |", "| `Running` | WebApp, Run | Everything is ready |",
		"| `Full` | WebApp | A volume is full \\| nearly. | Raise spec.storage. |", "| `Gone` | It is gone. |  |",
	} {
		if !strings.Contains(reasons+codes, row+"\n") {
			t.Errorf("no row %s in\n%s\n%s", row, reasons, codes)
		}
	}
}
