package appconfig

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	configv1 "github.com/fettle-dev/fettle/api/config/v1"
	"github.com/fettle-dev/fettle/internal/render"
	"github.com/fettle-dev/fettle/internal/rollout"
	"github.com/fettle-dev/fettle/internal/testenv/golden"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// testCase is a testdata/*.yaml: an AppConfig as the API server returns it, and the values that it takes from others.
type testCase struct {
	App     configv1.AppConfig `json:"app"`
	Values  map[string]string  `json:"values"`
	Secrets map[string]string  `json:"secrets"`
}

func readCase(t *testing.T, name string) testCase {
	t.Helper()
	return golden.Read[testCase](t, filepath.Join("testdata", name+".yaml"))
}

// out renders the case.
func (c *testCase) out(t *testing.T) rendered {
	t.Helper()
	values := map[string]render.Value{}
	for k, v := range c.Values {
		values[k] = render.Value{Text: v}
	}
	for k, v := range c.Secrets {
		values[k] = render.Value{Text: v, Secret: true}
	}
	out := renderAll(&c.App, values)
	if out.problem != nil {
		t.Fatal(out.problem.Message)
	}
	out.hash = contentHash(testKey, c.App.UID, out.content)
	return out
}

// TestDesired compares what would be sent with testdata/*.golden.yaml; `go test ./controllers/appconfig -update` writes them.
func TestDesired(t *testing.T) {
	golden.Cases(t, 4, func(t *testing.T, c testCase) string {
		t.Helper()
		return golden.YAML(t, desired(&c.App, choose(&c.App, c.out(t), existing{}), existing{}, now).objects)
	})
}

// after is what is found when the plan was carried out.
func after(cfg *configv1.AppConfig, p plan) existing {
	var e existing
	r := *p.revision
	for _, o := range p.published {
		switch o.Kind {
		case rollout.ConfigMap:
			r.stamp = o.PublishedAt
		case rollout.Secret:
			r.secretStamp = o.PublishedAt
		}
	}
	r.name = targetName(cfg)
	if !versioned(cfg) {
		e.target = &r
	}
	if versioned(cfg) || historyLimit(cfg) > 0 {
		kept := r
		kept.name = copyName(cfg, r.hash)
		if !versioned(cfg) {
			kept.stamp, kept.secretStamp = "", ""
		}
		e.kept = []revision{kept}
	}
	return e
}

// What was just published is neither published again nor changed, whatever the time.
func TestDesired_idempotent(t *testing.T) {
	for _, name := range []string{"minimal", "secrets", "versioned", "no-history"} {
		c := readCase(t, name)
		first := desired(&c.App, choose(&c.App, c.out(t), existing{}), existing{}, now)
		found := after(&c.App, first)
		second := desired(&c.App, choose(&c.App, c.out(t), found), found, now.Add(time.Hour))
		if second.changes {
			t.Errorf("%s: something changes", name)
		}
		if diff := cmp.Diff(golden.YAML(t, first.objects), golden.YAML(t, second.objects)); diff != "" {
			t.Errorf("%s: the second pass differs (-first +second):\n%s", name, diff)
		}
		if !first.changes {
			t.Errorf("%s: the first publication changes nothing", name)
		}
	}
}

// Each half has the time of its own last change: a change of the ConfigMap says nothing of the Secret.
func TestStamps(t *testing.T) {
	c := readCase(t, "secrets")
	first := desired(&c.App, choose(&c.App, c.out(t), existing{}), existing{}, now)
	found := after(&c.App, first)
	c.App.Spec.Config["LOG_LEVEL"] = "info"
	later := now.Add(time.Minute)
	second := desired(&c.App, choose(&c.App, c.out(t), found), found, later)
	if !second.changes {
		t.Fatal("nothing changes")
	}
	for _, o := range second.published {
		want := map[string]string{rollout.ConfigMap: "2026-01-02T03:05:05Z", rollout.Secret: "2026-01-02T03:04:05Z first"}[o.Kind]
		if o.PublishedAt != want {
			t.Errorf("the stamp of the %s is %q, want %q", o.Kind, o.PublishedAt, want)
		}
	}
}

func TestDesired_secretsStayInSecrets(t *testing.T) {
	for _, name := range []string{"secrets", "versioned"} {
		c := readCase(t, name)
		p := desired(&c.App, choose(&c.App, c.out(t), existing{}), existing{}, now)
		for doc := range strings.SplitSeq(golden.YAML(t, p.objects), "---\n") {
			if strings.Contains(doc, "hunter2") || (strings.Contains(doc, "kind: ConfigMap") && strings.Contains(doc, "aHVudGVyMg")) {
				t.Errorf("%s: the value of a Secret is in\n%s", name, doc)
			}
		}
	}
}

func TestObjectsOf_configMapAndSecret(t *testing.T) {
	c := readCase(t, "versioned")
	p := desired(&c.App, choose(&c.App, c.out(t), existing{}), existing{}, now)
	if len(p.published) != 2 {
		t.Fatalf("%d objects", len(p.published))
	}
	name := copyName(&c.App, p.revision.hash)
	for _, o := range p.published {
		o.Data, o.PublishedAt = nil, ""
		want := rollout.Object{Kind: o.Kind, Target: "shop-config", Versioned: true, Name: name, Versions: []string{name}, Exists: true}
		if diff := cmp.Diff(want, o); diff != "" {
			t.Errorf("what is published (-want +got):\n%s", diff)
		}
	}
	for _, o := range objectsOf(&c.App, nil, existing{}) {
		if diff := cmp.Diff(rollout.Object{Kind: o.Kind, Target: "shop-config", Versioned: true, Name: "shop-config"}, o); diff != "" {
			t.Errorf("nothing (-want +got):\n%s", diff)
		}
	}
}
