package cmd

import (
	"errors"
	"fmt"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	"github.com/fettle-dev/fettle/internal/backup/job"
)

// TestStatusReporter reports with the rights of a pod: it can patch the status of its own BackupRun only.
func TestStatusReporter(t *testing.T) {
	c, namespace := newAdmin(t), env.Namespace(t)
	for _, name := range []string{"own", "other"} {
		createAll(t, c, &backupv1alpha1.BackupRun{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Spec: backupv1alpha1.BackupRunSpec{Backup: "nightly"},
		})
	}
	pod, err := env.Identity(t.Context(), "pod-"+namespace, []rbacv1.PolicyRule{
		{APIGroups: []string{backupv1alpha1.GroupVersion.Group}, Resources: []string{"backupruns/status"}, Verbs: []string{"patch"}, ResourceNames: []string{"own"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := newStatusReporter(pod, &job.Config{Namespace: namespace, Object: "own", Backup: &job.Backup{}})
	if err != nil {
		t.Fatal(err)
	}
	want := backupv1alpha1.RunResult{Reason: backupv1alpha1.ReasonSucceeded, StoredBytes: 7, Location: "s3://b/p"}
	progress := backupv1alpha1.Progress{Bytes: 5, TotalBytes: 10, Percent: new(int32(50))}
	if err := errors.Join(
		r.Result(t.Context(), backupv1alpha1.RunResult{Reason: backupv1alpha1.ReasonDumpFailed, Message: "of the first attempt"}),
		r.Progress(t.Context(), progress), r.Result(t.Context(), want),
	); err != nil {
		t.Fatal(err)
	}
	got := &backupv1alpha1.BackupRun{}
	if err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "own"}, got); err != nil {
		t.Fatal(err)
	}
	if got.Status.Result == nil || *got.Status.Result != want {
		t.Errorf("result %+v, want %+v", got.Status.Result, want)
	}
	if p := got.Status.Progress; p == nil || p.Bytes != progress.Bytes || *p.Percent != *progress.Percent {
		t.Errorf("progress %+v, want %+v", p, progress)
	}
	if got.Status.Phase != backupv1alpha1.RunPending || len(got.Status.Conditions) != 1 {
		t.Errorf("the report changed what the operator writes: %+v", got.Status)
	}
	checkForbidden(t, pod, namespace)
}

// checkForbidden tries to report to other objects.
func checkForbidden(t *testing.T, pod *rest.Config, namespace string) {
	t.Helper()
	for _, config := range []*job.Config{{Object: "other", Backup: &job.Backup{}}, {Object: "own", Restore: &job.Restore{}}} {
		config.Namespace = namespace
		r, err := newStatusReporter(pod, config)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Result(t.Context(), backupv1alpha1.RunResult{Reason: backupv1alpha1.ReasonSucceeded}); !apierrors.IsForbidden(err) {
			t.Errorf("report of %s of %s: %v, want forbidden", config.Object, r.resource, err)
		}
	}
}

func TestExitCode(t *testing.T) {
	refused := fmt.Errorf("run: %w", &exitError{job.ExitRefused, errors.New("wrong password")})
	if got := ExitCode(refused); got != job.ExitRefused {
		t.Errorf("exit code %d, want %d", got, job.ExitRefused)
	}
	if got := ExitCode(errors.New("store is away")); got != 1 {
		t.Errorf("exit code %d of a failure to retry, want 1", got)
	}
}
