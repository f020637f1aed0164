package api_test

import (
	"os"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// advanced puts a field into the part of a form that is closed at first.
const advanced = "urn:alm:descriptor:com.tectonic.ui:advanced"

// TestDescriptors_fewAreShown requires forms in the console that a person can survey: of each kind, at most 9 fields are not advanced.
func TestDescriptors_fewAreShown(t *testing.T) {
	text, err := os.ReadFile("../bundle/manifests/fettle.clusterserviceversion.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var csv struct {
		Spec struct {
			CustomResourceDefinitions struct {
				Owned []struct {
					Kind            string
					SpecDescriptors []struct {
						Path        string
						Descriptors []string `json:"x-descriptors"`
					}
				}
			}
		}
	}
	if err := yaml.Unmarshal(text, &csv); err != nil {
		t.Fatal(err)
	}
	kinds := csv.Spec.CustomResourceDefinitions.Owned
	if len(kinds) == 0 {
		t.Fatal("the bundle has no kinds")
	}
	for _, kind := range kinds {
		var shown []string
		for _, d := range kind.SpecDescriptors {
			if !strings.Contains(d.Path, ".") && !slices.Contains(d.Descriptors, advanced) {
				shown = append(shown, d.Path)
			}
		}
		if len(shown) == 0 || len(shown) > 9 {
			t.Errorf("%s: %d fields are shown: %v", kind.Kind, len(shown), shown)
		}
	}
}
