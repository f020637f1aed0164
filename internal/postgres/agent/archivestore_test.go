package agent

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/backup/store"
	"github.com/fettle-dev/fettle/internal/backup/walarchive"
	"github.com/fettle-dev/fettle/internal/testenv/teststores"
)

// TestArchiver_rotatedKeys revokes the keys of a real store while WAL is archived: that is reported, the new keys in the Secret are used
// within a minute without a restart, and no segment is lost.
func TestArchiver_rotatedKeys(t *testing.T) {
	server := teststores.Start(t, backupv1alpha1.StoreS3)[0]
	keys := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: server.Destination.CredentialsSecretRef.Name}, Data: server.Keys.Files}
	ca := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "ca"}, Data: map[string][]byte{"ca.crt": server.Keys.CA}}
	server.Destination.CASecretRef = &fettlev1.SecretKeyReference{Name: ca.Name}
	core := fake.NewClientset(keys, ca).CoreV1()
	agent := &Agent{core: core, log: slog.New(slog.DiscardHandler), options: Options{
		Namespace: "shop", Cluster: "db", Store: []store.Option{store.PermitLoopback()},
	}}
	a := newTestArchiver(t, newTestBucket(t), 2)
	a.open = agent.openStore
	if err := os.Remove(filepath.Join(a.walDir, "archive_status", segmentName(2)+readySuffix)); err != nil { // it comes later
		t.Fatal(err)
	}
	view := primaryView()
	view.destination = &server.Destination
	a.update(view)
	if err := a.Archive(t.Context(), segmentName(1)); err != nil {
		t.Fatal(err)
	}

	server.Rekey(t)
	a.mutex.Lock()
	a.opened = a.opened.Add(-2 * archiveReopen)
	a.mutex.Unlock()
	archived := make(chan error, 1)
	go func() { archived <- a.Archive(t.Context(), segmentName(2)) }()
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		status := a.Status()
		if status.Reason == databasev1alpha1.ReasonArchivingFailed && strings.Contains(status.Message, "correct the Secret") {
			break
		}
		if len(archived) > 0 || time.Since(begun) > time.Minute {
			t.Fatalf("the revoked keys are not reported: %+v", status)
		}
	}
	keys.Data = server.Keys.Files
	if _, err := core.Secrets("shop").Update(t.Context(), keys, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := <-archived; err != nil {
		t.Fatal("the new keys are not used within a minute:", err)
	}
	if status := a.Status(); status.Reason != databasev1alpha1.ReasonArchiving {
		t.Errorf("with the new keys: %+v", status)
	}
	for i := 1; i <= 2; i++ {
		if has, err := walarchive.New(server.Open(t, "shop/db"), testSystem).Has(t.Context(), segmentName(i)); err != nil || !has {
			t.Errorf("segment %d was lost: %v", i, err)
		}
	}
}
