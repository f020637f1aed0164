package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/fettle-dev/fettle/hack/cluster/internal/kube"
)

const olmModule = "github.com/operator-framework/operator-lifecycle-manager"

// Names that OLM's own manifests use upstream.
const (
	olmNamespace      = "olm"
	operatorNamespace = "operators"
)

var clusterServiceVersion = schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "ClusterServiceVersion"}

// installOLM applies OLM's chart and waits until its package server answers.
func (u *upRun) installOLM(ctx context.Context, say note) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	module, err := goModule(ctx, "olm", olmModule)
	if err != nil {
		return "", err
	}
	objects, err := olmObjects(module)
	if err != nil {
		return "", err
	}
	say("its manifests to be applied")
	did, err := u.applyOnce(ctx, "olm", objects)
	if err != nil {
		return "", err
	}
	if err := u.waitOLM(ctx, say); err != nil {
		return "", fmt.Errorf("OLM is not up (see kubectl -n %s get pods,csv): %w", olmNamespace, err)
	}
	if did {
		return module.Version + " applied, its package server answers", nil
	}
	return module.Version + " there, its package server answers", nil
}

// waitOLM wants the package server to answer and its ClusterServiceVersion to be Succeeded. What the object says may date
// from before a reboot, so the answer counts too.
//
// OLM looks at a ClusterServiceVersion when it changes. When the package server gets ready just after such a look, the
// next one is minutes later; so it is changed, by an annotation, while it lags behind.
func (u *upRun) waitOLM(ctx context.Context, say note) error {
	nudge := time.Now().Add(olmNudge)
	return kube.Poll(ctx, 500*time.Millisecond, func(ctx context.Context) (bool, error) {
		lags, err := u.askOLM(ctx)
		if err == nil {
			return true, nil
		}
		say("its package server: %s", err)
		if lags && time.Now().After(nudge) {
			nudge = time.Now().Add(olmNudge)
			err = errors.Join(err, u.client.Annotate(ctx, clusterServiceVersion, olmNamespace, "packageserver",
				"fettle.dev/cluster-looked", time.Now().UTC().Format(time.RFC3339)))
		}
		return false, err
	})
}

// olmNudge is how often the ClusterServiceVersion is changed.
const olmNudge = 3 * time.Second

// askOLM is nil when OLM is up, or else says what is missing; lags when that is only OLM's notice of the package server.
func (u *upRun) askOLM(ctx context.Context) (lags bool, err error) {
	csv, err := u.client.Get(ctx, clusterServiceVersion, olmNamespace, "packageserver")
	if err != nil {
		return false, err
	}
	if csv == nil {
		return false, errors.New("there is no ClusterServiceVersion packageserver yet")
	}
	if _, err := u.client.Discovery().ServerResourcesForGroupVersion("packages.operators.coreos.com/v1"); err != nil {
		return false, fmt.Errorf("its API does not answer: %w", err)
	}
	if phase, _, _ := unstructured.NestedString(csv.Object, "status", "phase"); phase != "Succeeded" {
		return true, fmt.Errorf("its ClusterServiceVersion is %q", phase)
	}
	return false, nil
}

// module is a Go module whose files are in Dir.
type module struct {
	Version, Dir string
}

// goModule finds a module at the version that a family of hack/tools pins.
func goModule(ctx context.Context, family, path string) (module, error) {
	var m module
	hack, err := checkout()
	if err != nil {
		return m, err
	}
	for _, args := range [][]string{{"mod", "download", path}, {"list", "-m", "-json", path}} {
		cmd := exec.CommandContext(ctx, "go", append([]string{"-C", filepath.Join(hack, "tools", family)}, args...)...)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			return m, fmt.Errorf("find the module %s: %w: %s", path, err, stderr.String())
		}
		if args[0] == "list" {
			if err := json.Unmarshal(out, &m); err != nil {
				return m, fmt.Errorf("find the module %s: %w", path, err)
			}
		}
	}
	return m, nil
}

// olmValues are the chart's values: upstream's names, and images that the local registry has.
func olmValues(version string) map[string]any {
	image := map[string]any{"ref": "quay.io/operator-framework/olm:" + version, "pullPolicy": "IfNotPresent"}
	return map[string]any{
		"namespace":          olmNamespace,
		"catalog_namespace":  olmNamespace,
		"operator_namespace": operatorNamespace,
		"olm":                map[string]any{"image": image},
		"catalog": map[string]any{
			"image":        image,
			"opmImageArgs": "--opmImage=quay.io/operator-framework/opm:latest",
		},
		"package": map[string]any{"image": image, "replicaCount": 1},
	}
}

// olmObjects renders OLM's chart, without the catalog of operatorhub.io, which needs the internet.
func olmObjects(m module) ([]*unstructured.Unstructured, error) {
	chart, err := loader.Load(filepath.Join(m.Dir, "deploy", "chart"))
	if err != nil {
		return nil, fmt.Errorf("load OLM's chart: %w", err)
	}
	values, err := chartutil.ToRenderValues(chart, olmValues(m.Version), chartutil.ReleaseOptions{Name: "olm", Namespace: olmNamespace}, chartutil.DefaultCapabilities)
	if err != nil {
		return nil, fmt.Errorf("prepare the values of OLM's chart: %w", err)
	}
	rendered, err := engine.Render(chart, values)
	if err != nil {
		return nil, fmt.Errorf("render OLM's chart: %w", err)
	}
	var stream strings.Builder
	for _, crd := range chart.CRDObjects() {
		fmt.Fprintf(&stream, "---\n%s\n", crd.File.Data)
	}
	for _, name := range sortedKeys(rendered) {
		if strings.HasSuffix(name, ".yaml") && !strings.HasPrefix(filepath.Base(name), "_") {
			fmt.Fprintf(&stream, "---\n%s\n", rendered[name])
		}
	}
	objects, err := kube.Parse([]byte(stream.String()))
	if err != nil {
		return nil, err
	}
	kept := objects[:0]
	for _, o := range objects {
		if o.GetKind() != "CatalogSource" {
			kept = append(kept, o)
		}
	}
	return kept, nil
}
