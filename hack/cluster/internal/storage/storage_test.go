package storage

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

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
