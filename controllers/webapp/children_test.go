package webapp

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	appsv1 "github.com/fettle-dev/fettle/api/apps/v1"
	"github.com/fettle-dev/fettle/internal/apply"
	"github.com/fettle-dev/fettle/internal/podsecurity"
)

var update = flag.Bool("update", false, "write the golden files again")

// testCase is a testdata/*.yaml: a WebApp as the API server returns it, and what else decides its children.
type testCase struct {
	App             appsv1.WebApp     `json:"app"`
	NamespaceLabels map[string]string `json:"namespaceLabels"`
	Missing         []string          `json:"missing"`
	// Config tells for each of spec.configRefs whether the object exists.
	Config []bool `json:"config"`
}

func (c testCase) inputs() inputs {
	in := inputs{namespaceLabels: c.NamespaceLabels, missing: map[string]bool{}}
	for _, kind := range c.Missing {
		in.missing[kind] = true
	}
	for i, found := range c.Config {
		in.config = append(in.config, refState{ref: c.App.Spec.ConfigRefs[i], found: found})
	}
	return in
}

func readCase(t *testing.T, path string) testCase {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var c testCase
	if err := yaml.UnmarshalStrict(raw, &c); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return c
}

func render(t *testing.T, p plan) string {
	t.Helper()
	var docs []string
	for _, o := range p.objects {
		raw, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		docs = append(docs, string(raw))
	}
	return strings.Join(docs, "---\n")
}

// TestDesired compares what would be sent with testdata/*.golden.yaml; `go test ./controllers/webapp -update` writes them.
func TestDesired(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	cases := 0
	for _, path := range paths {
		if strings.HasSuffix(path, ".golden.yaml") {
			continue
		}
		cases++
		t.Run(strings.TrimSuffix(filepath.Base(path), ".yaml"), func(t *testing.T) {
			c := readCase(t, path)
			got := render(t, desired(&c.App, c.inputs()))
			if again := render(t, desired(&c.App, c.inputs())); again != got {
				t.Errorf("the same input gave different output: %s", cmp.Diff(got, again))
			}
			golden := strings.TrimSuffix(path, ".yaml") + ".golden.yaml"
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Errorf("desired objects differ from %s (-want +got):\n%s", golden, diff)
			}
		})
	}
	if cases == 0 {
		t.Fatal("no case in testdata")
	}
}

// TestProfiles checks that the pods under a profile have no violation of it.
func TestProfiles(t *testing.T) {
	for _, name := range []string{"minimal", "everything", "restricted"} {
		c := readCase(t, "testdata/"+name+".yaml")
		c.App.Spec.PodSecurityContext, c.App.Spec.SecurityContext = nil, nil
		for _, profile := range []appsv1.SecurityProfile{appsv1.ProfileBaseline, appsv1.ProfileRestricted} {
			c.App.Spec.SecurityProfile = profile
			pod := apply.Convert[corev1.PodSpec](podTemplate(&c.App, c.inputs()).Spec)
			if got, err := podsecurity.Violations(pod, profile); err != nil || len(got) > 0 {
				t.Errorf("%s under %s: %v, %v", name, profile, got, err)
			}
		}
	}
}
