// Package storage provisions the local cluster's PersistentVolumes as directories on the host. Node affinity binds a volume
// to the node of its first pod. PVCs can be expanded; the size is not enforced.
package storage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

// provisionerName is the provisioner of the StorageClass.
const provisionerName = "fettle.dev/local-volumes"

// provisioner creates and deletes the directories.
type provisioner struct {
	dir string
}

// Run provisions, expands and deletes volumes in dir until ctx is done.
func Run(ctx context.Context, kubeconfig, dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("create the directory of volumes: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return fmt.Errorf("read %s: %w", kubeconfig, err)
	}
	config.QPS, config.Burst = 50, 100
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("create a client: %w", err)
	}
	provisioning := controller.NewProvisionController(ctx, client, provisionerName, provisioner{dir},
		controller.LeaderElection(false), // only one provisioner runs
		controller.FailedProvisionThreshold(0),
		controller.FailedDeleteThreshold(0),
		controller.RetryIntervalMax(maxRetry),
	)
	resizing := newResizer(client)
	go resizing.run(ctx)
	provisioning.Run(ctx)
	return nil
}

// Provision creates the directory of a volume. The kubelet sets its group to the pod's fsGroup, as for a disk.
func (p provisioner) Provision(_ context.Context, options controller.ProvisionOptions) (*corev1.PersistentVolume, controller.ProvisioningState, error) {
	if mode := options.PVC.Spec.VolumeMode; mode != nil && *mode == corev1.PersistentVolumeBlock {
		return nil, controller.ProvisioningFinished, errors.New("block volumes are not supported: set volumeMode to Filesystem")
	}
	node := options.SelectedNodeName
	if node == "" {
		return nil, controller.ProvisioningFinished, errors.New("no node selected: the StorageClass must have volumeBindingMode WaitForFirstConsumer")
	}
	path := p.path(options.PVName)
	if err := os.MkdirAll(path, 0o755); err != nil {
		return nil, controller.ProvisioningFinished, fmt.Errorf("create the volume's directory: %w", err)
	}
	if err := os.Chmod(path, 0o755); err != nil { // independent of the umask
		return nil, controller.ProvisioningFinished, fmt.Errorf("set the mode of the volume's directory: %w", err)
	}
	policy := corev1.PersistentVolumeReclaimDelete
	if options.StorageClass.ReclaimPolicy != nil {
		policy = *options.StorageClass.ReclaimPolicy
	}
	mode := corev1.PersistentVolumeFilesystem
	return &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: options.PVName},
		Spec: corev1.PersistentVolumeSpec{
			PersistentVolumeReclaimPolicy: policy,
			AccessModes:                   options.PVC.Spec.AccessModes,
			VolumeMode:                    &mode,
			Capacity:                      corev1.ResourceList{corev1.ResourceStorage: options.PVC.Spec.Resources.Requests[corev1.ResourceStorage]},
			PersistentVolumeSource:        corev1.PersistentVolumeSource{Local: &corev1.LocalVolumeSource{Path: path}},
			NodeAffinity:                  onNode(node),
		},
	}, controller.ProvisioningFinished, nil
}

// Delete deletes the directory of a volume with its content.
func (p provisioner) Delete(_ context.Context, volume *corev1.PersistentVolume) error {
	path := p.path(volume.Name)
	if volume.Spec.Local == nil || volume.Spec.Local.Path != path {
		return &controller.IgnoredError{Reason: "its directory is not in " + p.dir}
	}
	if err := os.RemoveAll(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("delete the volume's directory: %w", err)
	}
	return nil
}

func (p provisioner) path(volume string) string { return filepath.Join(p.dir, filepath.Base(volume)) }

func onNode(node string) *corev1.VolumeNodeAffinity {
	return &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
		MatchExpressions: []corev1.NodeSelectorRequirement{{
			Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: []string{node},
		}},
	}}}}
}
