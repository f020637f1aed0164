package controllers_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/conditions"
)

func newBackupNamespace(ctx context.Context) string {
	GinkgoHelper()
	name, err := env.NewNamespace(ctx, "backup")
	Expect(err).NotTo(HaveOccurred())
	DeferCleanup(func(ctx context.Context) {
		for _, kind := range []client.Object{&backupv1alpha1.Backup{}, &backupv1alpha1.BackupRun{}, &backupv1alpha1.Restore{}} {
			Expect(user.DeleteAllOf(ctx, kind, client.InNamespace(name))).To(Succeed())
		}
	})
	return name
}

// newBackup backs up a server that Fettle does not run, to a store without keys.
func newBackup(namespace, name string, change ...func(*backupv1alpha1.BackupSpec)) *backupv1alpha1.Backup {
	b := &backupv1alpha1.Backup{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: backupv1alpha1.BackupSpec{
			Source: mysql(), Destination: backupv1alpha1.Destination{URI: "s3://backups/shop"},
		},
	}
	for _, f := range change {
		f(&b.Spec)
	}
	return b
}

func mysql() *backupv1alpha1.DatabaseServer {
	return &backupv1alpha1.DatabaseServer{
		Type: backupv1alpha1.ServerMySQL, Connection: backupv1alpha1.Connection{Host: "db.example.com", Database: "shop", Username: "backup"},
	}
}

func suspended(s *backupv1alpha1.BackupSpec) { s.Suspend = true }

func newRun(b *backupv1alpha1.Backup, name string) *backupv1alpha1.BackupRun {
	return &backupv1alpha1.BackupRun{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.Namespace, Name: name}, Spec: backupv1alpha1.BackupRunSpec{Backup: b.Name},
	}
}

// newRestore restores to a server that Fettle does not run.
func newRestore(namespace, name string, from backupv1alpha1.RestoreSource) *backupv1alpha1.Restore {
	return &backupv1alpha1.Restore{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       backupv1alpha1.RestoreSpec{From: from, To: backupv1alpha1.RestoreTarget{Server: mysql()}},
	}
}

// readyOf reads obj again and says the status and reason of Ready, "old" while it speaks of an older generation.
func readyOf(ctx context.Context, obj conditions.Object) string {
	if err := read(ctx, obj); err != nil {
		return err.Error()
	}
	c := conditions.ReadyOf(obj)
	if c.ObservedGeneration < obj.GetGeneration() {
		return "old"
	}
	return string(c.Status) + " " + c.Reason
}

func jobNamed(namespace, name string) *batchv1.Job {
	return &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
}

// reportRun is the pod's own report on the status of its object.
func reportRun(ctx context.Context, obj client.Object, reason string) {
	GinkgoHelper()
	body := fmt.Sprintf(`{"status":{"progress":{"bytes":10,"percent":100},"result":{"reason":%q,"message":"from the pod","storedBytes":7,"location":"s3://backups/x"}}}`, reason)
	Expect(user.Status().Patch(ctx, obj, client.RawPatch("application/merge-patch+json", []byte(body)))).To(Succeed())
}

// endJob is the controller of Jobs, which ends one: with success, or with a failure of this reason.
func endJob(ctx context.Context, job *batchv1.Job, failure string) {
	GinkgoHelper()
	Eventually(func() error { return read(ctx, job) }).Should(Succeed())
	now := metav1.NewTime(time.Now())
	before := job.DeepCopy()
	add := func(conditionType batchv1.JobConditionType, reason string) {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: conditionType, Status: corev1.ConditionTrue, Reason: reason, LastProbeTime: now, LastTransitionTime: now,
		})
	}
	job.Status.StartTime, job.Status.UncountedTerminatedPods = &now, &batchv1.UncountedTerminatedPods{}
	if failure == "" {
		job.Status.Succeeded, job.Status.CompletionTime = 1, &now
		add(batchv1.JobSuccessCriteriaMet, batchv1.JobReasonCompletionsReached)
		add(batchv1.JobComplete, batchv1.JobReasonCompletionsReached)
	} else {
		job.Status.Failed = 1
		add(batchv1.JobFailureTarget, failure)
		add(batchv1.JobFailed, failure)
	}
	Expect(user.Status().Patch(ctx, job, client.MergeFrom(before))).To(Succeed())
}

// succeed ends a BackupRun well.
func succeed(ctx context.Context, run *backupv1alpha1.BackupRun) {
	GinkgoHelper()
	Eventually(readyOf).WithContext(ctx).WithArguments(run).Should(Equal("False Running"))
	reportRun(ctx, run, backupv1alpha1.ReasonSucceeded)
	endJob(ctx, jobNamed(run.Namespace, run.Name), "")
	Eventually(readyOf).WithContext(ctx).WithArguments(run).Should(Equal("True Succeeded"))
}

// firstRun is the run that a Backup without a schedule starts.
func firstRun(ctx context.Context, b *backupv1alpha1.Backup) *backupv1alpha1.BackupRun {
	GinkgoHelper()
	Eventually(field(b, func(b *backupv1alpha1.Backup) string { return b.Status.ActiveRun })).WithContext(ctx).Should(HavePrefix(b.Name + "-"))
	return newRun(b, b.Status.ActiveRun)
}

func credentials(name string) *fettlev1.LocalReference { return &fettlev1.LocalReference{Name: name} }

// reread reads obj again and returns it.
func reread[O client.Object](ctx context.Context, obj O) O {
	GinkgoHelper()
	Eventually(func() error { return read(ctx, obj) }).Should(Succeed())
	return obj
}

// conditionOf says the status and reason of a condition; "none" if there is none.
func conditionOf(all []metav1.Condition, conditionType string) string {
	c := meta.FindStatusCondition(all, conditionType)
	if c == nil {
		return "none"
	}
	return string(c.Status) + " " + c.Reason
}
