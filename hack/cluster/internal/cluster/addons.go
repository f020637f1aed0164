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

// storageUser is whom the provisioner of volumes is to the API server.
const storageUser = "fettle-storage"

//go:embed manifests/*.yaml
var manifestFiles embed.FS

// applied is the ConfigMap in kube-system that holds the digest of what was applied last, by the name of the add-on.
const applied = "fettle-cluster"

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

// applyOnce applies the objects of an add-on unless the same were applied before, and says whether it did.
func (u *upRun) applyOnce(ctx context.Context, addOn string, objects []*unstructured.Unstructured) (bool, error) {
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
	journal, err := maps.Get(ctx, applied, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		journal, err = maps.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: applied}}, metav1.CreateOptions{})
	}
	if err != nil {
		return false, fmt.Errorf("read what was applied: %w", err)
	}
	if journal.Data[addOn] == digest {
		return false, nil
	}
	if err := u.client.Apply(ctx, objects); err != nil {
		return false, err
	}
	if journal.Data == nil {
		journal.Data = map[string]string{}
	}
	journal.Data[addOn] = digest
	if _, err := maps.Update(ctx, journal, metav1.UpdateOptions{}); err != nil {
		return true, fmt.Errorf("write down what was applied: %w", err)
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
	did, err := u.applyOnce(ctx, addOn, objects)
	if did {
		return "applied", err
	}
	return "there", err
}

// startStorage provisions volumes for the default StorageClass. The provisioner runs on the host, where the volumes are.
func (u *upRun) startStorage(ctx context.Context, say note) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 4*time.Minute)
	defer cancel()
	did, err := u.applyEmbedded(ctx, "storage", "storage*.yaml")
	if err != nil {
		return "", err
	}
	program, digest, err := u.installSelf()
	if err != nil {
		return "", err
	}
	say("the provisioner")
	started, err := u.super.Ensure(ctx, process.Spec{Name: "storage", Path: program, Version: digest, Args: []string{
		"storage", "--kubeconfig", u.Path("conf", "storage.kubeconfig"), "--dir", u.Path("volumes"),
	}})
	return fmt.Sprintf("StorageClass %s, provisioner %s", did, verb(started)), err
}

// startDNS runs CoreDNS and waits for an answer.
func (u *upRun) startDNS(ctx context.Context, say note) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Minute)
	defer cancel()
	did, err := u.applyEmbedded(ctx, "coredns", "coredns*.yaml")
	if err != nil {
		return "", err
	}
	say("an answer of %s", network.DNSService)
	if network.IsCut(u.nodes[0]) {
		return did + ", not asked: " + u.nodes[0].Name + " is cut off", nil
	}
	if err := waitDNS(ctx); err != nil {
		return "", fmt.Errorf("cluster DNS does not answer (see kubectl -n kube-system get pods): %w", err)
	}
	return did + ", answers", nil
}
