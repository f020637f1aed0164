package standin

import (
	"path"
	"slices"
	"testing"
)

func TestRecipes_valid(t *testing.T) {
	seen, debian := map[string]bool{}, map[string]bool{}
	for _, r := range Recipes() {
		debian[r.Name] = r.Suite != "" || debian[r.From]
		if seen[r.Name] {
			t.Errorf("duplicate recipe name %s", r.Name)
		}
		if r.From != "" && !seen[r.From] {
			t.Errorf("%s: its base %q does not come before it", r.Name, r.From)
		}
		if len(r.Packages) > 0 && !debian[r.From] {
			t.Errorf("%s installs packages on a base that is not Debian", r.Name)
		}
		seen[r.Name] = true
		for _, pattern := range r.Without {
			if _, err := path.Match(pattern, "/"); err != nil {
				t.Errorf("%s excludes %q: %v", r.Name, pattern, err)
			}
		}
		if _, err := r.ownFiles(); err != nil {
			t.Errorf("%s: %v", r.Name, err)
		}
	}
}

func TestRecipes_uniqueImages(t *testing.T) {
	owner := map[string]string{}
	for _, r := range Recipes() {
		for _, image := range r.Images {
			if owner[image] != "" {
				t.Errorf("%s and %s both replace %s", r.Name, owner[image], image)
			}
			owner[image] = r.Name
		}
	}
}

func TestFind(t *testing.T) {
	for _, name := range []string{"nginx", "docker.io/library/nginx:1.25"} {
		r, ok := Find(name)
		if !ok || r.Name != "nginx" {
			t.Errorf("%s was not found", name)
		}
	}
	if _, ok := Find("docker.io/library/nginx:0.1"); ok {
		t.Error("found a recipe for an unknown image")
	}
}

// An on-demand image is not built by default, but can be built by name.
func TestNames_skipsOnDemand(t *testing.T) {
	if slices.Contains(Names(false), "postgres-18") {
		t.Error("postgres-18 is built by default, from an unreleased version of Debian")
	}
	if _, ok := Find("docker.io/library/postgres:18"); !ok {
		t.Error("postgres-18 was not found")
	}
}

func TestKey_dependsOnAllInputs(t *testing.T) {
	key := func(change func(*Recipe), base string, versions map[string]string) string {
		r := &Recipe{Name: "x", Packages: []string{"nginx"}, Files: []string{"gosu"}}
		change(r)
		got, err := r.key(base, versions)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	same := func(*Recipe) {}
	want := key(same, "base", nil)
	if key(same, "base", nil) != want {
		t.Error("the same recipe has two keys")
	}
	others := map[string]string{
		"package": key(func(r *Recipe) { r.Packages = []string{"nginx-light"} }, "base", nil),
		"script":  key(func(r *Recipe) { r.After = "true" }, "base", nil),
		"files":   key(func(r *Recipe) { r.Files = []string{"redis"} }, "base", nil),
		"config":  key(func(r *Recipe) { r.Config.User = "1" }, "base", nil),
		"base":    key(same, "other", nil),
		"tool":    key(same, "base", map[string]string{"opm/opm": "opm-2"}),
	}
	for what, got := range others {
		if got == want {
			t.Errorf("a changed %s has the same key", what)
		}
	}
}

func TestSkip(t *testing.T) {
	r := &Recipe{Without: []string{"/usr/lib/*/libLLVM*"}}
	for name, want := range map[string]bool{
		"/usr/share/doc/nginx/copyright":          true,
		"/usr/share/doc":                          false,
		"/usr/share/documents":                    false,
		"/usr/lib/x86_64-linux-gnu/libLLVM-14.so": true,
		"/usr/lib/x86_64-linux-gnu/libpq.so":      false,
		"/tmp":                                    false,
		"/etc/resolv.conf":                        true,
	} {
		if got := r.skip(name); got != want {
			t.Errorf("skip(%s) is %t", name, got)
		}
	}
}
