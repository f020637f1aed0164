// Package docs_test holds that the pages are true: manifests are accepted, links lead somewhere, and counts are right.
package docs_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/fettle-dev/fettle/internal/testenv"
)

const root = "../.."

var env *testenv.Env

func TestMain(m *testing.M) {
	testenv.Main(m, &env, testenv.Options{Fast: true})
}

// pages are the pages that people write, by their path in the repository.
func pages(t *testing.T) map[string]string {
	t.Helper()
	all := map[string]string{}
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/*/*.md"} {
		files, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name, err := filepath.Rel(root, file)
			if err != nil {
				t.Fatal(err)
			}
			all[name] = string(text)
		}
	}
	return all
}
