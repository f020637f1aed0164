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

// Namespaces of the upstream OLM manifests.
const (
	olmNamespace      = "olm"
	operatorNamespace = "operators"
)

var clusterServiceVersion = schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "ClusterServiceVersion"}

// installOLM applies OLM's Helm chart and waits until its package server responds.
func (u *upRun) installOLM(ctx context.Context, report reporter) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 15*time.Minute)
	defer cancel()
	module, err := goModule(ctx, olmModule)
	if err != nil {
		return "", err
	}
	objects, err := olmObjects(module)
	if err != nil {
		return "", err
	}
	report("the apply of its manifests")
	changed, err := u.applyIfChanged(ctx, "olm", objects)
	if err != nil {
		return "", err
	}
	if err := u.waitOLM(ctx, report); err != nil {
		return "", fmt.Errorf("OLM is not ready (see kubectl -n %s get pods,csv): %w", olmNamespace, err)
	}
	if changed {
		return module.Version + " applied, package server ready", nil
	}
	return module.Version + " unchanged, package server ready", nil
}

// waitOLM waits until the package server responds and its ClusterServiceVersion is Succeeded. The phase alone is not enough:
// it may date from before a reboot.
//
// OLM reconciles a ClusterServiceVersion when it changes. If the package server becomes ready just after a reconcile, the
// next reconcile comes minutes later. So waitOLM changes an annotation while the phase is stale.
func (u *upRun) waitOLM(ctx context.Context, report reporter) error {
	nextRequeue := time.Now().Add(olmRequeueInterval)
	return kube.Poll(ctx, 500*time.Millisecond, func(ctx context.Context) (bool, error) {
		stale, err := u.checkOLM(ctx)
		if err == nil {
			return true, nil
		}
		report("its package server: %s", err)
		if stale && time.Now().After(nextRequeue) {
			nextRequeue = time.Now().Add(olmRequeueInterval)
			err = errors.Join(err, u.client.Annotate(ctx, clusterServiceVersion, olmNamespace, "packageserver",
				"fettle.dev/reconcile-requested-at", time.Now().UTC().Format(time.RFC3339)))
		}
		return false, err
	})
}

// olmRequeueInterval is the minimum time between two changes of the annotation.
const olmRequeueInterval = 3 * time.Second

// checkOLM returns nil if OLM is ready, otherwise the reason why it is not. stale is true if the package server is ready but
// its ClusterServiceVersion does not show it yet.
func (u *upRun) checkOLM(ctx context.Context) (stale bool, err error) {
	csv, err := u.client.Get(ctx, clusterServiceVersion, olmNamespace, "packageserver")
	if err != nil {
		return false, err
	}
	if csv == nil {
		return false, errors.New("the ClusterServiceVersion packageserver does not exist yet")
	}
	if _, err := u.client.Discovery().ServerResourcesForGroupVersion("packages.operators.coreos.com/v1"); err != nil {
		return false, fmt.Errorf("its API is unavailable: %w", err)
	}
	if phase, _, _ := unstructured.NestedString(csv.Object, "status", "phase"); phase != "Succeeded" {
		return true, fmt.Errorf("its ClusterServiceVersion has the phase %q", phase)
	}
	return false, nil
}

// module is a Go module and the directory of its files.
type module struct {
	Version, Dir string
}

// goModule downloads a module at the version that hack/go.mod pins.
func goModule(ctx context.Context, path string) (module, error) {
	var m module
	hack, err := findHackDir()
	if err != nil {
		return m, err
	}
	for _, args := range [][]string{{"mod", "download", path}, {"list", "-m", "-json", path}} {
		cmd := exec.CommandContext(ctx, "go", append([]string{"-C", hack}, args...)...)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.Output()
		if err != nil {
			return m, fmt.Errorf("download the module %s: %w: %s", path, err, stderr.String())
		}
		if args[0] == "list" {
			if err := json.Unmarshal(out, &m); err != nil {
				return m, fmt.Errorf("download the module %s: %w", path, err)
			}
		}
	}
	return m, nil
}

// olmValues returns the values of the chart: upstream's namespaces, and images of the local registry.
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

// olmObjects renders OLM's chart without the catalog of operatorhub.io, which needs internet access.
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
