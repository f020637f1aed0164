// Package chart_test compares the Helm chart with config/ and with the bundle, without a cluster. It is a separate module, so that the
// operator does not depend on Helm.
package chart_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"helm.sh/helm/v4/pkg/chart/common"
	"helm.sh/helm/v4/pkg/chart/common/util"
	"helm.sh/helm/v4/pkg/chart/v2/loader"
	"helm.sh/helm/v4/pkg/engine"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"
)

const (
	root      = "../.."
	chartDir  = root + "/charts/fettle"
	namespace = "fettle-system"
)

// operator is the Deployment.
const operator = "Deployment/fettle-controller-manager"

// object is a Kubernetes object.
type object map[string]any

// id is the kind and the name.
func (o object) id() string {
	kind, _ := o["kind"].(string)
	name, _ := get(o, "metadata.name").(string)
	return kind + "/" + name
}

// objects are Kubernetes objects by their id.
type objects map[string]object

// read adds the objects of a manifest.
func (all objects) read(t *testing.T, name, manifest string) {
	t.Helper()
	for document := range strings.SplitSeq("\n"+manifest, "\n---\n") {
		o := object{}
		if err := yaml.UnmarshalStrict([]byte(document), &o); err != nil {
			t.Fatalf("%s: %v\n%s", name, err, document)
		}
		if len(o) == 0 {
			continue
		}
		if _, ok := all[o.id()]; ok {
			t.Errorf("%s: a second %s", name, o.id())
		}
		all[o.id()] = o
	}
}

// render returns the files of the chart with values in YAML, like `helm template`.
func render(t *testing.T, in, values string) (map[string]string, error) {
	t.Helper()
	chart, err := loader.LoadDir(chartDir)
	if err != nil {
		t.Fatal(err)
	}
	set := map[string]any{}
	if err := yaml.UnmarshalStrict([]byte(values), &set); err != nil {
		t.Fatalf("%s: %v", values, err)
	}
	options := common.ReleaseOptions{Name: "fettle", Namespace: in, Revision: 1, IsInstall: true}
	all, err := util.ToRenderValues(chart, set, options, common.DefaultCapabilities)
	if err != nil {
		return nil, fmt.Errorf("read values: %w", err)
	}
	return engine.Engine{Strict: true}.RenderWithContext(t.Context(), chart, all)
}

// helm returns the objects of the chart in the namespace fettle-system.
func helm(t *testing.T, values string) objects {
	t.Helper()
	files, err := render(t, namespace, values)
	if err != nil {
		t.Fatalf("%s: %v", values, err)
	}
	all := objects{}
	for name, manifest := range files {
		if filepath.Ext(name) == ".yaml" {
			all.read(t, name, manifest)
		}
	}
	return all
}

// kustomize returns the objects of a folder of config/, without the namespace: a chart has none.
func kustomize(t *testing.T, folder string) objects {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(root, "config", folder))
	if err != nil {
		t.Fatal(err)
	}
	manifest, err := built.AsYaml()
	if err != nil {
		t.Fatal(err)
	}
	all := objects{}
	all.read(t, folder, string(manifest))
	delete(all, "Namespace/"+namespace)
	return all
}

// get returns a field by a path such as spec.containers.0.args, and nil if there is none.
func get(from any, path string) any {
	for key := range strings.SplitSeq(path, ".") {
		switch node := from.(type) {
		case object:
			from = node[key]
		case map[string]any:
			from = node[key]
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i >= len(node) {
				return nil
			}
			from = node[i]
		default:
			return nil
		}
	}
	return from
}

// container is the path of the operator's container.
const container = "spec.template.spec.containers.0"

// args are the arguments of the operator.
func args(t *testing.T, all objects) []string {
	t.Helper()
	list, ok := get(all[operator], container+".args").([]any)
	if !ok {
		t.Fatalf("%s has no arguments", operator)
	}
	var texts []string
	for _, arg := range list {
		texts = append(texts, fmt.Sprint(arg))
	}
	return texts
}

// flagDefaults are the defaults of the flags in docs/configure.md. A test of internal/cmd compares the page with the flags.
func flagDefaults(t *testing.T) map[string]string {
	t.Helper()
	defaults := map[string]string{}
	for line := range bytes.Lines(readFile(t, "docs/configure.md")) {
		if cells := strings.Split(string(line), "|"); len(cells) > 3 && strings.HasPrefix(cells[1], " `--") {
			defaults[strings.Trim(cells[1], " `")] = strings.Trim(cells[2], " `")
		}
	}
	return defaults
}

// normalize removes what the chart adds to config/: Helm's labels and annotation, and flags that have the default value.
func (all objects) normalize(t *testing.T, defaults map[string]string) {
	t.Helper()
	for _, o := range all {
		metadata, _ := o["metadata"].(map[string]any)
		labels, _ := metadata["labels"].(map[string]any)
		for _, label := range []string{"helm.sh/chart", "app.kubernetes.io/instance", "app.kubernetes.io/version", "app.kubernetes.io/managed-by"} {
			delete(labels, label)
		}
		if len(labels) == 0 {
			delete(metadata, "labels")
		}
		annotations, _ := metadata["annotations"].(map[string]any)
		delete(annotations, "helm.sh/resource-policy")
	}
	if all[operator] == nil {
		return
	}
	kept := slices.DeleteFunc(args(t, all), func(arg string) bool {
		flag, value, found := strings.Cut(arg, "=")
		usual, known := defaults[flag]
		return found && known && value == usual
	})
	slices.Sort(kept)
	c, _ := get(all[operator], container).(map[string]any)
	c["args"] = strings.Join(kept, " ")
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// readYAML reads a file into a value.
func readYAML(t *testing.T, name string, into any) {
	t.Helper()
	if err := yaml.Unmarshal(readFile(t, name), into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}
