package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestConstants_commentsBecomeTables writes a small api/ and reads the pages of reasons and codes.
func TestConstants_commentsBecomeTables(t *testing.T) {
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("api/meta/v1/a.go", "package v1\n\n// Ready is True when all is well.\nconst Ready = \"Ready\"\n\n"+
		"// Reasons that every kind uses.\nconst (\n\t// ReasonPaused means that spec.paused is true.\n\tReasonPaused = \"Paused\"\n)\n")
	write("api/apps/v1/b.go", "package v1\n\n// Phases of a WebApp.\nconst (\n\tPhaseRunning WebAppPhase = \"Running\" // everything is ready\n)\n\n"+
		"// Reasons of a WebApp's conditions, besides those of all kinds.\nconst (\n"+
		"\t// ReasonFull: a volume is full\n\t// | nearly. Raise spec.storage.\n\tReasonFull = \"Full\"\n)\n")
	write("steps/c.go", "package steps\n\n// Codes of steps.\nconst (\n\t// CodeGone: it is gone.\n\tCodeGone Code = \"Gone\"\n\tother = \"x\"\n)\n")
	reasons, err := reasonsPage(root)
	if err != nil {
		t.Fatal(err)
	}
	codes, err := codesPage(root, []codeDir{{"steps", "Steps"}})
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range []string{
		"| `Ready` | all | True when all is well. |", "| `Paused` | all | spec.paused is true. |  |", "| `Running` | WebApp | Everything is ready |",
		"| `Full` | WebApp | A volume is full \\| nearly. | Raise spec.storage. |", "| `Gone` | It is gone. |  |",
	} {
		if !strings.Contains(reasons+codes, row+"\n") {
			t.Errorf("no row %s in\n%s\n%s", row, reasons, codes)
		}
	}
}
