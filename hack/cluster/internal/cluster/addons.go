package cluster

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io/fs"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/fettle-dev/fettle/hack/cluster/internal/kube"
	"github.com/fettle-dev/fettle/hack/cluster/internal/network"
	"github.com/fettle-dev/fettle/hack/cluster/internal/process"
)

// storageUser is the provisioner's user name in the API server.
const storageUser = "fettle-storage"

//go:embed manifests/*.yaml
var manifestFiles embed.FS

// digestConfigMap is a ConfigMap in kube-system. It holds the digest of the last applied manifests of each add-on.
const digestConfigMap = "fettle-cluster"

// readManifests concatenates the embedded manifests of an add-on.
func readManifests(pattern string) ([]byte, error) {
	files, err := fs.Glob(manifestFiles, "manifests/"+pattern)
	if err != nil || len(files) == 0 {
		return nil, fmt.Errorf("no manifests match %q", pattern)
	}
	var all [][]byte
	for _, f := range files {
		data, err := manifestFiles.ReadFile(f)
		if err != nil {
			return nil, err
		}
		all = append(all, data)
	}
	return bytes.Join(all, []byte("\n---\n")), nil
}

// applyIfChanged applies the objects of an add-on if they changed since the last apply. It reports whether it applied them.
func (u *upRun) applyIfChanged(ctx context.Context, addOn string, objects []*unstructured.Unstructured) (bool, error) {
	h := sha256.New()
	for _, o := range objects {
		data, err := o.MarshalJSON()
		if err != nil {
			return false, fmt.Errorf("encode %s: %w", o.GetName(), err)
		}
		h.Write(data)
	}
	digest := hex.EncodeToString(h.Sum(nil))
	maps := u.client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	digests, err := maps.Get(ctx, digestConfigMap, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		digests, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: digestConfigMap}}, metav1.CreateOptions{})
	}
	if err != nil {
		return false, fmt.Errorf("read the digests of the applied manifests: %w", err)
	}
	if digests.Data[addOn] == digest {
		return false, nil
	}
	if err := u.client.Apply(ctx, objects); err != nil {
		return false, err
	}
	if digests.Data == nil {
		digests.Data = map[string]string{}
	}
	digests.Data[addOn] = digest
	if _, err := maps.Update(ctx, digests, metav1.UpdateOptions{}); err != nil {
		return true, fmt.Errorf("record the digest of the applied manifests: %w", err)
	}
	return true, nil
}

func (u *upRun) applyEmbedded(ctx context.Context, addOn, pattern string) (string, error) {
	data, err := readManifests(pattern)
	if err != nil {
		return "", err
	}
	objects, err := kube.Parse(data)
	if err != nil {
		return "", err
	}
	changed, err := u.applyIfChanged(ctx, addOn, objects)
	if changed {
		return "applied", err
	}
	return "unchanged", err
}

// startStorage installs the default StorageClass and starts its provisioner on the host, where the volumes are stored.
func (u *upRun) startStorage(ctx context.Context, report reporter) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	result, err := u.applyEmbedded(ctx, "storage", "storage*.yaml")
	if err != nil {
		return "", err
	}
	program, digest, err := u.installSelf()
	if err != nil {
		return "", err
	}
	report("the provisioner")
	started, err := u.super.Ensure(ctx, process.Spec{Name: "storage", Path: program, Version: digest, Args: []string{
		"storage", "--kubeconfig", u.Path("conf", "storage.kubeconfig"), "--dir", u.Path("volumes"),
	}})
	return fmt.Sprintf("StorageClass %s, provisioner %s", result, startState(started)), err
}

// startDNS installs CoreDNS and waits until it answers a query.
func (u *upRun) startDNS(ctx context.Context, report reporter) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	result, err := u.applyEmbedded(ctx, "coredns", "coredns*.yaml")
	if err != nil {
		return "", err
	}
	report("an answer from %s", network.DNSService)
	if network.IsDisconnected(u.nodes[0]) {
		return result + ", not checked: " + u.nodes[0].Name + " is disconnected", nil
	}
	if err := waitDNS(ctx); err != nil {
		return "", fmt.Errorf("cluster DNS does not respond (see kubectl -n kube-system get pods): %w", err)
	}
	return result + ", responding", nil
}
