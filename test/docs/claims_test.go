package docs_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestReadmeLinksKinds holds that README.md links the page of each kind.
func TestReadmeLinksKinds(t *testing.T) {
	readme := pages(t)["README.md"]
	for _, kind := range kinds(t) {
		if page := "docs/" + strings.ToLower(kind) + ".md"; !strings.Contains(readme, "[`"+kind+"`]("+page+")") {
			t.Errorf("README.md does not link %s to %s", kind, page)
		}
	}
}

// TestLayoutNamesPackages holds that the layout in docs/development.md names each folder of internal/.
func TestLayoutNamesPackages(t *testing.T) {
	folders, err := os.ReadDir(filepath.Join(root, "internal"))
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range folders {
		if !strings.Contains(pages(t)["docs/development.md"], "`internal/"+folder.Name()+"`") {
			t.Errorf("docs/development.md does not name internal/%s", folder.Name())
		}
	}
}

func kinds(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "PROJECT"))
	if err != nil {
		t.Fatal(err)
	}
	project := struct {
		Resources []struct{ Kind string }
	}{}
	if err := yaml.Unmarshal(text, &project); err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, r := range project.Resources {
		all = append(all, r.Kind)
	}
	return all
}
