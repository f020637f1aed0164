package storage

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/sig-storage-lib-external-provisioner/v13/controller"
)

func newPVC(requested, has string) *corev1.PersistentVolumeClaim {
	pvc := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Name: "data", Namespace: "default"},
		Spec: corev1.PersistentVolumeClaimSpec{
			VolumeName:  "pv",
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources:   corev1.VolumeResourceRequirements{Requests: storageSize(requested)},
		},
		Status: corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound},
	}
	if has != "" {
		pvc.Status.Capacity = storageSize(has)
	}
	return pvc
}

func storageSize(size string) corev1.ResourceList {
	return corev1.ResourceList{corev1.ResourceStorage: resource.MustParse(size)}
}

func TestProvisionAndDelete(t *testing.T) {
	p := provisioner{t.TempDir()}
	volume, state, err := p.Provision(t.Context(), controller.ProvisionOptions{
		StorageClass: &storagev1.StorageClass{}, PVName: "pvc-1", PVC: newPVC("1Gi", ""), SelectedNodeName: "n2",
	})
	if err != nil || state != controller.ProvisioningFinished {
		t.Fatal(state, err)
	}
	term := volume.Spec.NodeAffinity.Required.NodeSelectorTerms[0].MatchExpressions[0]
	if term.Key != corev1.LabelHostname || term.Values[0] != "n2" {
		t.Errorf("the volume's node affinity is %v, not its node", term)
	}
	data := filepath.Join(volume.Spec.Local.Path, "dir", "file")
	if err := os.MkdirAll(filepath.Dir(data), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := p.Delete(t.Context(), volume); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(volume.Spec.Local.Path); !os.IsNotExist(err) {
		t.Errorf("the directory still exists: %v", err)
	}
}

func TestProvision_rejectsUnsupported(t *testing.T) {
	p := provisioner{t.TempDir()}
	block := newPVC("1Gi", "")
	block.Spec.VolumeMode = new(corev1.PersistentVolumeBlock)
	for name, options := range map[string]controller.ProvisionOptions{
		"a block volume": {StorageClass: &storagev1.StorageClass{}, PVName: "pv", PVC: block, SelectedNodeName: "n1"},
		"no node":        {StorageClass: &storagev1.StorageClass{}, PVName: "pv", PVC: newPVC("1Gi", "")},
	} {
		if volume, _, err := p.Provision(t.Context(), options); err == nil {
			t.Errorf("%s: got %v", name, volume)
		}
	}
}

func TestDelete_ignoresForeignDirectory(t *testing.T) {
	other := filepath.Join(t.TempDir(), "pv")
	if err := os.Mkdir(other, 0o755); err != nil {
		t.Fatal(err)
	}
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv"}}
	volume.Spec.Local = &corev1.LocalVolumeSource{Path: other}
	if err := (provisioner{t.TempDir()}).Delete(t.Context(), volume); err == nil {
		t.Error("Delete of a volume in another directory returned no error")
	}
	if _, err := os.Stat(other); err != nil {
		t.Error(err)
	}
}

func TestRequestedSize(t *testing.T) {
	pending := newPVC("2Gi", "1Gi")
	pending.Status.Phase = corev1.ClaimPending
	for name, test := range map[string]struct {
		pvc  *corev1.PersistentVolumeClaim
		want bool
	}{
		"more":        {newPVC("2Gi", "1Gi"), true},
		"the same":    {newPVC("1Gi", "1024Mi"), false},
		"less":        {newPVC("1Gi", "2Gi"), false},
		"not bound":   {pending, false},
		"no size yet": {newPVC("1Gi", ""), true},
	} {
		if got := requestedSize(test.pvc); (got != nil) != test.want {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestWithCapacity_withoutCapacity(t *testing.T) {
	pvc := withCapacity(newPVC("1Gi", ""), resource.MustParse("1Gi"))
	if pvc.Status.Capacity.Storage().String() != "1Gi" {
		t.Errorf("got %v", pvc.Status.Capacity)
	}
}

func TestResize(t *testing.T) {
	for name, test := range map[string]struct {
		provisioner, want string
	}{
		"own":               {ProvisionerName, "2Gi"},
		"other provisioner": {"example.org/disks", "1Gi"},
	} {
		t.Run(name, func(t *testing.T) {
			volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{
				Name: "pv", Annotations: map[string]string{"pv.kubernetes.io/provisioned-by": test.provisioner},
			}}
			volume.Spec.Capacity = storageSize("1Gi")
			pvc := newPVC("2Gi", "1Gi")
			pvc.Status.Conditions = []corev1.PersistentVolumeClaimCondition{{Type: corev1.PersistentVolumeClaimResizing}}
			client := fake.NewClientset(volume, pvc)
			if err := newResizer(client).resize(t.Context(), cache.MetaObjectToName(pvc)); err != nil {
				t.Fatal(err)
			}
			pvc, err := client.CoreV1().PersistentVolumeClaims("default").Get(t.Context(), "data", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			volume, err = client.CoreV1().PersistentVolumes().Get(t.Context(), "pv", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			of := func(list corev1.ResourceList) string { return list.Storage().String() }
			if of(pvc.Status.Capacity) != test.want || of(volume.Spec.Capacity) != test.want {
				t.Errorf("PVC has %s, volume has %s, want %s", of(pvc.Status.Capacity), of(volume.Spec.Capacity), test.want)
			}
			if done := len(pvc.Status.Conditions) == 0; done != (test.want == "2Gi") {
				t.Errorf("conditions %v", pvc.Status.Conditions)
			}
		})
	}
}
