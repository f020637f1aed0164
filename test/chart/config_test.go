package chart_test

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"helm.sh/helm/v4/pkg/chart/v2/lint"
	"helm.sh/helm/v4/pkg/chart/v2/lint/support"
)

// TestChart_passesLint is `helm lint --strict`.
func TestChart_passesLint(t *testing.T) {
	for _, message := range lint.RunAll(chartDir, nil, namespace).Messages {
		if message.Severity >= support.InfoSev {
			t.Error(message)
		}
	}
}

// TestChart_hasVersionOfOperator compares the versions of the chart with VERSION. make release sets all three.
func TestChart_hasVersionOfOperator(t *testing.T) {
	chart := struct{ Version, AppVersion string }{}
	readYAML(t, "charts/fettle/Chart.yaml", &chart)
	if want := "\nVERSION ?= " + chart.Version + "\n"; chart.AppVersion != chart.Version || !strings.Contains(string(readFile(t, "Makefile")), want) {
		t.Errorf("Chart.yaml has version %s and appVersion %s, and the Makefile another VERSION", chart.Version, chart.AppVersion)
	}
}

// TestChart_equalsConfig compares each object of the chart with the object of a folder of config/.
func TestChart_equalsConfig(t *testing.T) {
	all, defaults := "{metrics: {serviceMonitor: {enabled: true}, prometheusRule: {enabled: true}}, networkPolicy: {enabled: true}}", flagDefaults(t)
	for _, c := range []struct {
		values  string
		folders []string
	}{
		{"", []string{"default"}},
		{"webhook: {certManager: {enabled: true}}", []string{"certmanager"}},
		{all, []string{"default", "prometheus", "network-policy"}},
	} {
		got, want := helm(t, c.values), objects{}
		for _, folder := range c.folders {
			maps.Copy(want, kustomize(t, folder))
		}
		got.normalize(t, defaults)
		want.normalize(t, defaults)
		if len(want) < 30 {
			t.Errorf("config/%s has %d objects", c.folders[0], len(want))
		}
		for _, id := range slices.Sorted(maps.Keys(got)) {
			if want[id] == nil {
				t.Errorf("%s is only in the chart, not in config/%v", id, c.folders)
			}
		}
		for _, id := range slices.Sorted(maps.Keys(want)) {
			if diff := cmp.Diff(want[id], got[id]); diff != "" {
				t.Errorf("%s differs from config/%v (-config +chart); run `make chart` if its template is generated:\n%s", id, c.folders, diff)
			}
		}
	}
}

// TestChart_hasHelmLabels holds that each object has the labels that Helm's documentation recommends.
func TestChart_hasHelmLabels(t *testing.T) {
	for id, o := range helm(t, "") {
		labels, _ := get(o, "metadata.labels").(map[string]any)
		if labels["app.kubernetes.io/managed-by"] != "Helm" || labels["app.kubernetes.io/instance"] != "fettle" {
			t.Errorf("%s has the labels %v", id, labels)
		}
	}
}

// TestChart_installsIntoAnyNamespace finds no other namespace in the objects.
func TestChart_installsIntoAnyNamespace(t *testing.T) {
	for _, values := range []string{"{metrics: {prometheusRule: {enabled: true}}}", "webhook: {certManager: {enabled: true}}"} {
		files, err := render(t, "elsewhere", values)
		if err != nil {
			t.Fatal(err)
		}
		for name, manifest := range files {
			if strings.Contains(manifest, namespace) {
				t.Errorf("%s names the namespace %s", name, namespace)
			}
		}
	}
}

// TestRules_equalBundle compares the rules of the operator's ServiceAccount with those that OLM grants. OLM creates the certificate of the
// webhooks, so the bundle has no rules for certificates.
func TestRules_equalBundle(t *testing.T) {
	type permissions []struct {
		Rules []any `json:"rules"`
	}
	csv := struct {
		Spec struct {
			Install struct {
				Spec struct {
					ClusterPermissions permissions `json:"clusterPermissions"`
					Permissions        permissions `json:"permissions"`
				} `json:"spec"`
			} `json:"install"`
		} `json:"spec"`
	}{}
	readYAML(t, "bundle/manifests/fettle.clusterserviceversion.yaml", &csv)
	chart := helm(t, "webhook: {certManager: {enabled: true}}")
	for role, granted := range map[string]permissions{
		"ClusterRole": csv.Spec.Install.Spec.ClusterPermissions, "Role": csv.Spec.Install.Spec.Permissions,
	} {
		var want []any
		for _, p := range granted {
			want = append(want, p.Rules...)
		}
		if diff := cmp.Diff(sorted(t, want), sorted(t, rules(chart, role))); diff != "" || len(want) == 0 {
			t.Errorf("rules of %ss (-bundle +chart):\n%s", role, diff)
		}
	}
	for id, want := range bundledRoles(t) {
		if diff := cmp.Diff(get(want, "rules"), get(chart[id], "rules")); diff != "" {
			t.Errorf("%s (-bundle +chart):\n%s", id, diff)
		}
	}
}

// rules are the rules of all Roles or ClusterRoles that are bound to the operator's ServiceAccount.
func rules(all objects, role string) []any {
	var bound []any
	for id, o := range all {
		if strings.HasPrefix(id, role+"Binding/") && get(o, "subjects.0.name") == "fettle-controller-manager" {
			name, _ := get(o, "roleRef.name").(string)
			list, _ := get(all[role+"/"+name], "rules").([]any)
			bound = append(bound, list...)
		}
	}
	return bound
}

// bundledRoles are the roles of the bundle that are not the operator's.
func bundledRoles(t *testing.T) objects {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "bundle/manifests/*role.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("the bundle has no roles (%v)", err)
	}
	all := objects{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.read(t, file, string(text))
	}
	return all
}

// sorted are rules as JSON.
func sorted(t *testing.T, list []any) []string {
	t.Helper()
	texts := make([]string, 0, len(list))
	for _, rule := range list {
		texts = append(texts, toJSON(t, rule))
	}
	slices.Sort(texts)
	return texts
}

func toJSON(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// TestRelease_fitsIntoSecret compresses what Helm stores of a release: the chart, in JSON and so in base64, and the manifest. A Secret has
// at most 1 MiB.
func TestRelease_fitsIntoSecret(t *testing.T) {
	const most = 700_000
	stored := struct {
		Templates map[string][]byte
		Manifest  string
	}{Templates: map[string][]byte{}}
	err := filepath.WalkDir(chartDir, func(path string, entry os.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		stored.Templates[path], err = os.ReadFile(path)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	files, err := render(t, namespace, "")
	if err != nil {
		t.Fatal(err)
	}
	stored.Manifest = strings.Join(slices.Collect(maps.Values(files)), "")
	var compressed bytes.Buffer
	w, err := gzip.NewWriterLevel(&compressed, gzip.BestCompression)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.NewEncoder(w).Encode(stored); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	size := base64.StdEncoding.EncodedLen(compressed.Len())
	if t.Logf("%d bytes", size); size > most {
		t.Errorf("a release needs a Secret of about %d bytes, want at most %d", size, most)
	}
}
