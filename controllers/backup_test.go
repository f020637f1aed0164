package controllers_test

import (
	"context"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
)

var _ = Describe("A Backup", func() {
	It("without a schedule runs once, and its Job survives a new version of the operator", func(ctx context.Context) {
		namespace := newBackupNamespace(ctx)
		requests := countRequests(ctx, namespace)
		b := newBackup(namespace, "shop")
		Expect(user.Create(ctx, b)).To(Succeed())
		run := firstRun(ctx, b)
		Expect(metav1.IsControlledBy(reread(ctx, run), b)).To(BeTrue())
		job := jobNamed(namespace, run.Name)
		Eventually(func() error { return read(ctx, job) }).Should(Succeed())
		Expect(job.Spec.Template.Spec.InitContainers[0].Image).To(Equal(agentImage))
		role := &rbacv1.Role{ObjectMeta: job.ObjectMeta}
		Expect(read(ctx, role)).To(Succeed())
		Expect(role.Rules).To(HaveExactElements(rbacv1.PolicyRule{
			APIGroups: []string{"backup.fettle.dev"}, Resources: []string{"backupruns/status"}, ResourceNames: []string{run.Name}, Verbs: []string{"patch"},
		}))
		Expect(readyOf(ctx, b)).To(Equal("Unknown NoRunYet"))
		Expect(b.Status.Phase).To(Equal(backupv1alpha1.PhaseRunning))

		By("upgrading the operator, whose new image would be in a new Job")
		runningOperator.stop()
		runningOperator.image = agentImage + "-new"
		runningOperator.start()
		DeferCleanup(func() { runningOperator.image = "" })
		settle(ctx)
		version := job.ResourceVersion
		Expect(read(ctx, job)).To(Succeed())
		Expect(job.ResourceVersion).To(Equal(version))
		jobs := &batchv1.JobList{}
		Expect(user.List(ctx, jobs, client.InNamespace(namespace))).To(Succeed())
		Expect(jobs.Items).To(HaveLen(1))

		succeed(ctx, run)
		Eventually(readyOf).WithContext(ctx).WithArguments(b).Should(Equal("True Ready"))
		Expect(b.Status.Phase).To(Equal(backupv1alpha1.PhaseCompleted))
		Expect(b.Status.LastSuccessfulRun).To(Equal(run.Name))
		Expect(b.Status.LastSizeBytes).To(BeEquivalentTo(7))
		Expect(b.Status.LastLocation).To(Equal("s3://backups/x"))
		Expect(b.Status.ActiveRun).To(BeEmpty())
		Expect(run.Status.Progress.Bytes).To(BeEquivalentTo(10), "the pod's report stays")
		created := requests.summary(ctx)
		// The run, its ServiceAccount, Role, RoleBinding and Job, and two statuses of each of both.
		Expect(created.Writes()-rejectedWrites(created)).To(Equal(5+2+2), created.String())
	})

	// Attack 49: many runs at once. One runs at a time, the oldest first, and what a person deletes or what fails stops none of the others.
	It("runs one BackupRun at a time, and none is lost after a failure", func(ctx context.Context) {
		namespace := newBackupNamespace(ctx)
		b := newBackup(namespace, "shop", suspended)
		Expect(user.Create(ctx, b)).To(Succeed())
		Eventually(readyOf).WithContext(ctx).WithArguments(b).Should(Equal("Unknown NoRunYet"))
		var runs []*backupv1alpha1.BackupRun
		for i := range 5 {
			run := newRun(b, fmt.Sprintf("by-hand-%d", i))
			Expect(user.Create(ctx, run)).To(Succeed())
			runs = append(runs, run)
		}
		running := func(ctx context.Context) (names []string, err error) {
			jobs := &batchv1.JobList{}
			err = user.List(ctx, jobs, client.InNamespace(namespace))
			for _, j := range jobs.Items {
				if len(j.Status.Conditions) == 0 {
					names = append(names, j.Name)
				}
			}
			return names, err
		}
		for i, end := range []struct {
			how  func(run *backupv1alpha1.BackupRun)
			want string
		}{
			{func(run *backupv1alpha1.BackupRun) {
				Expect(user.Delete(ctx, jobNamed(namespace, run.Name), client.PropagationPolicy(metav1.DeletePropagationBackground))).To(Succeed())
			}, "False PodLost"},
			{func(run *backupv1alpha1.BackupRun) {
				reportRun(ctx, run, backupv1alpha1.ReasonStoreForbidden)
				endJob(ctx, jobNamed(namespace, run.Name), "PodFailurePolicy")
			}, "False StoreForbidden"},
			{func(run *backupv1alpha1.BackupRun) { endJob(ctx, jobNamed(namespace, run.Name), "DeadlineExceeded") }, "False DeadlineExceeded"},
			{func(run *backupv1alpha1.BackupRun) { endJob(ctx, jobNamed(namespace, run.Name), "") }, "False RunFailed"},
			{func(run *backupv1alpha1.BackupRun) { succeed(ctx, run) }, "True Succeeded"},
		} {
			run := runs[i]
			Eventually(readyOf).WithContext(ctx).WithArguments(run).Should(Equal("False Running"))
			Eventually(running).WithContext(ctx).Should(Equal([]string{run.Name}))
			for _, waits := range runs[i+1:] {
				Expect(reread(ctx, waits).Status.StartTime).To(BeNil())
			}
			end.how(run)
			Eventually(readyOf).WithContext(ctx).WithArguments(run).Should(Equal(end.want))
			if i == 3 {
				Eventually(field(b, func(b *backupv1alpha1.Backup) int32 { return b.Status.ConsecutiveFailures })).WithContext(ctx).Should(BeEquivalentTo(4))
				Expect(readyOf(ctx, b)).To(Equal("False RunFailed"))
			}
		}
		Eventually(readyOf).WithContext(ctx).WithArguments(b).Should(Equal("True Suspended"))
		Expect(b.Status.ConsecutiveFailures).To(BeZero())
		Expect(read(ctx, jobNamed(namespace, runs[0].Name))).To(Satisfy(apierrors.IsNotFound), "a deleted Job is not created again")
		Expect(reread(ctx, runs[0]).OwnerReferences).To(HaveExactElements(HaveField("UID", b.UID)), "runs are deleted with their Backup")
	})

	It("whose spec changes during a run lets it finish as it began, and the next run uses the new spec", func(ctx context.Context) {
		namespace := newBackupNamespace(ctx)
		b := newBackup(namespace, "shop", suspended)
		Expect(user.Create(ctx, b)).To(Succeed())
		first, second, third := newRun(b, "first"), newRun(b, "second"), newRun(b, "third")
		Expect(user.Create(ctx, first)).To(Succeed())
		Eventually(readyOf).WithContext(ctx).WithArguments(first).Should(Equal("False Running"))
		configOf := func(run *backupv1alpha1.BackupRun) string {
			return reread(ctx, jobNamed(namespace, run.Name)).Spec.Template.Spec.Containers[0].Env[0].Value
		}
		before := reread(ctx, jobNamed(namespace, first.Name)).DeepCopy()

		By("changing the database and the bucket")
		patch(ctx, b, `{"spec":{"source":{"connection":{"database":"orders"}},"destination":{"uri":"s3://elsewhere"},"timeoutSeconds":7777}}`)
		Expect(user.Create(ctx, second)).To(Succeed())
		Eventually(readyOf).WithContext(ctx).WithArguments(second).Should(Equal("False Waiting"))
		settle(ctx)
		job := reread(ctx, jobNamed(namespace, first.Name))
		Expect(job.UID).To(Equal(before.UID))
		Expect(job.Spec).To(Equal(before.Spec))
		Expect(readyOf(ctx, first)).To(Equal("False Running"))
		Expect(readyOf(ctx, b)).To(Equal("Unknown NoRunYet"), "nothing has the new spec yet")
		Expect(b.Status.LastSuccessfulRun).To(BeEmpty())
		succeed(ctx, first)
		Expect(configOf(first)).To(And(ContainSubstring("s3://backups/shop"), ContainSubstring(`"shop"`), Not(ContainSubstring("elsewhere"))))

		By("running the next one, which fails")
		Eventually(readyOf).WithContext(ctx).WithArguments(second).Should(Equal("False Running"))
		Expect(configOf(second)).To(And(ContainSubstring("s3://elsewhere"), ContainSubstring("orders"), Not(ContainSubstring("s3://backups/shop"))))
		Expect(reread(ctx, jobNamed(namespace, second.Name)).Spec.ActiveDeadlineSeconds).To(HaveValue(BeEquivalentTo(7777)))
		reportRun(ctx, second, backupv1alpha1.ReasonStoreForbidden)
		endJob(ctx, jobNamed(namespace, second.Name), "PodFailurePolicy")
		Eventually(readyOf).WithContext(ctx).WithArguments(b).Should(Equal("False StoreForbidden"), "the success of the previous spec does not hide it")
		Expect(b.Status.LastSuccessfulRun).To(Equal(first.Name))

		By("changing to a spec that cannot run, during a run")
		Expect(user.Create(ctx, third)).To(Succeed())
		Eventually(readyOf).WithContext(ctx).WithArguments(third).Should(Equal("False Running"))
		patch(ctx, b, `{"spec":{"schedule":"* * * * *"}}`)
		Eventually(readyOf).WithContext(ctx).WithArguments(b).Should(Equal("False ScheduleInvalid"))
		succeed(ctx, third)
		Eventually(field(b, func(b *backupv1alpha1.Backup) string { return b.Status.LastSuccessfulRun })).WithContext(ctx).Should(Equal(third.Name))
		Expect(readyOf(ctx, b)).To(Equal("False ScheduleInvalid"))
	})

	It("waits for the Secrets and the PostgreSQL that it names, whose clients may be restricted", func(ctx context.Context) {
		namespace, _ := newDatabases(ctx)
		DeferCleanup(func(ctx context.Context) {
			Expect(user.DeleteAllOf(ctx, &backupv1alpha1.Backup{}, client.InNamespace(namespace))).To(Succeed())
		})
		b := newBackup(namespace, "db", func(s *backupv1alpha1.BackupSpec) {
			s.Source, s.PostgresRef, s.Destination.CredentialsSecretRef = nil, "db", credentials("keys")
		})
		Expect(user.Create(ctx, b)).To(Succeed())
		Eventually(readyOf).WithContext(ctx).WithArguments(b).Should(Equal("False PostgreSQLMissing"))
		Expect(b.Status.Phase).To(Equal(backupv1alpha1.PhasePending))
		early := newRun(b, "early")
		Expect(user.Create(ctx, early)).To(Succeed())
		Eventually(readyOf).WithContext(ctx).WithArguments(early).Should(Equal("False BackupRejected"))

		createDatabase(ctx, newPostgreSQL(namespace, "db"))
		Eventually(readyOf).WithContext(ctx).WithArguments(b).Should(Equal("False SecretMissing"))
		Expect(user.Create(ctx, &corev1.Secret{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "keys"}, StringData: map[string]string{"secret-access-key": "never-shown-by-a-backup"},
		})).To(Succeed())
		succeed(ctx, early)
		template := &reread(ctx, jobNamed(namespace, "early")).Spec.Template
		Expect(template.Labels).To(HaveKeyWithValue(backupv1alpha1.LabelPostgreSQL, "db"))
		Expect(template.Spec.Containers[0].Image).To(Equal("docker.io/library/postgres:16"))
		succeed(ctx, firstRun(ctx, b))
		Eventually(readyOf).WithContext(ctx).WithArguments(b).Should(Equal("True Ready"))
	})

	It("says why it cannot run at all", func(ctx context.Context) {
		namespace := newBackupNamespace(ctx)
		physical := newBackup(namespace, "physical", func(s *backupv1alpha1.BackupSpec) {
			s.Source, s.PostgresRef, s.Method = nil, "db", backupv1alpha1.MethodPhysical
		})
		often := newBackup(namespace, "often", func(s *backupv1alpha1.BackupSpec) { s.Schedule = "* * * * *" })
		paused := newBackup(namespace, "paused", func(s *backupv1alpha1.BackupSpec) { s.Paused = true })
		for b, want := range map[*backupv1alpha1.Backup]string{
			physical: "False NotManaged", often: "False ScheduleInvalid", paused: "Unknown Paused",
		} {
			Expect(user.Create(ctx, b)).To(Succeed())
			Eventually(readyOf).WithContext(ctx).WithArguments(b).Should(Equal(want))
		}
		Expect(physical.Status.Phase).To(Equal(backupv1alpha1.PhaseFailed))
		scheduled := newBackup(namespace, "scheduled", func(s *backupv1alpha1.BackupSpec) { s.Schedule = "0 0 1 1 *" })
		Expect(user.Create(ctx, scheduled)).To(Succeed())
		Eventually(readyOf).WithContext(ctx).WithArguments(scheduled).Should(Equal("True Ready"))
		Expect(scheduled.Status.NextRunTime.Time).To(BeTemporally(">", time.Now()))
		runs := &backupv1alpha1.BackupRunList{}
		Expect(user.List(ctx, runs, client.InNamespace(namespace))).To(Succeed())
		Expect(runs.Items).To(BeEmpty())
	})
})

var _ = Describe("A Restore", func() {
	It("restores a BackupRun that has succeeded, once, beside a PostgreSQL of the same name", func(ctx context.Context) {
		namespace := newBackupNamespace(ctx)
		b := newBackup(namespace, "shop")
		Expect(user.Create(ctx, b)).To(Succeed())
		run := firstRun(ctx, b)
		restore := newRestore(namespace, "shop", backupv1alpha1.RestoreSource{Run: run.Name})
		Expect(user.Create(ctx, restore)).To(Succeed())
		Eventually(readyOf, "15s").WithContext(ctx).WithArguments(restore).Should(Equal("False Waiting"))
		succeed(ctx, run)
		Eventually(readyOf).WithContext(ctx).WithArguments(restore).Should(Equal("False Running"))
		job := reread(ctx, jobNamed(namespace, "restore-shop"))
		Expect(job.Spec.Template.Spec.Containers[0].Env[0].Value).To(ContainSubstring(`"run":%q`, run.Name))
		reportRun(ctx, restore, backupv1alpha1.ReasonTargetNotEmpty)
		endJob(ctx, job, "PodFailurePolicy")
		Eventually(readyOf).WithContext(ctx).WithArguments(restore).Should(Equal("False TargetNotEmpty"))
		Expect(restore.Status.Phase).To(Equal(backupv1alpha1.RunFailed))
	})

	It("verifies a Backup in a server without the token and the keys, and the Backup reports that", func(ctx context.Context) {
		namespace := newBackupNamespace(ctx)
		b := newBackup(namespace, "shop", func(s *backupv1alpha1.BackupSpec) {
			s.Verify = &backupv1alpha1.BackupVerification{Schedule: "0 0 1 1 *"}
			s.Pod.Image = "mysql:8"
		})
		Expect(user.Create(ctx, b)).To(Succeed())
		run := firstRun(ctx, b)
		succeed(ctx, run)
		Eventually(readyOf).WithContext(ctx).WithArguments(b).Should(Equal("True Ready"))
		verified := func(b *backupv1alpha1.Backup) string {
			return conditionOf(b.Status.Conditions, backupv1alpha1.BackupVerified)
		}
		Expect(verified(b)).To(Equal("Unknown NotVerified"))

		// The schedule creates such an object.
		check := newRestore(namespace, "verify-shop-202611230600", backupv1alpha1.RestoreSource{Run: run.Name})
		check.Spec.To = backupv1alpha1.RestoreTarget{Temporary: &backupv1alpha1.TemporaryServer{Query: "select 1"}}
		check.Labels = map[string]string{backupv1alpha1.LabelBackup: b.Name}
		Expect(controllerutil.SetControllerReference(b, check, user.Scheme())).To(Succeed())
		Expect(user.Create(ctx, check)).To(Succeed())
		Eventually(readyOf).WithContext(ctx).WithArguments(check).Should(Equal("False Running"))
		job := reread(ctx, jobNamed(namespace, "restore-"+check.Name))
		template := job.Spec.Template.Spec
		Expect(template.AutomountServiceAccountToken).To(HaveValue(BeFalse()))
		Expect(template.InitContainers).To(HaveLen(2))
		Expect(template.InitContainers[1].Image).To(Equal("mysql:8"))
		for _, m := range template.InitContainers[1].VolumeMounts {
			Expect(m.Name).To(BeElementOf("bin", "verify", "data", "database-tmp", "shm"))
		}
		reportRun(ctx, check, backupv1alpha1.ReasonSucceeded)
		endJob(ctx, job, "")
		Eventually(field(b, verified)).WithContext(ctx).Should(Equal("True Verified"))
		Expect(b.Status.LastVerifiedRun).To(Equal(run.Name))
		Expect(b.Status.LastVerifiedTime).NotTo(BeNil())

		next := newRun(b, "next")
		Expect(user.Create(ctx, next)).To(Succeed())
		Eventually(readyOf).WithContext(ctx).WithArguments(next).Should(Equal("False Running"))
		Expect(reread(ctx, jobNamed(namespace, "next")).Spec.Template.Spec.Containers[0].Env[0].Value).To(ContainSubstring(`"keep":[%q]`, run.Name))

		By("keeping the last three verifications")
		endJob(ctx, jobNamed(namespace, next.Name), "DeadlineExceeded")
		for i := range 3 {
			failed := newRestore(namespace, fmt.Sprintf("verify-shop-20261124060%d", i), backupv1alpha1.RestoreSource{Run: next.Name})
			failed.Spec.To, failed.Labels = check.Spec.To, check.Labels
			Expect(controllerutil.SetControllerReference(b, failed, user.Scheme())).To(Succeed())
			Expect(user.Create(ctx, failed)).To(Succeed())
		}
		Eventually(func() error { return read(ctx, check) }).Should(Satisfy(apierrors.IsNotFound))
		Eventually(field(b, verified)).WithContext(ctx).Should(Equal("False NoBackup"))
		Expect(b.Status.LastVerifiedRun).To(Equal(run.Name))
	})

	// Attack 45: a Restore names a Backup of another namespace. It finds none there, and a location reads the store with Secrets of its own
	// namespace only, which it waits for.
	It("does not reach into another namespace", func(ctx context.Context) {
		theirs, namespace := newBackupNamespace(ctx), newBackupNamespace(ctx)
		Expect(user.Create(ctx, newBackup(theirs, "victim", suspended))).To(Succeed())
		Expect(user.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: theirs, Name: "keys"}})).To(Succeed())
		byName := newRestore(namespace, "by-name", backupv1alpha1.RestoreSource{Backup: "victim"})
		byPlace := newRestore(namespace, "by-place", backupv1alpha1.RestoreSource{Location: &backupv1alpha1.BackupLocation{
			Namespace: theirs, Backup: "victim", Destination: backupv1alpha1.Destination{URI: "s3://backups/shop", CredentialsSecretRef: credentials("keys")},
		}})
		for restore, want := range map[*backupv1alpha1.Restore]string{byName: "False BackupMissing", byPlace: "False SecretMissing"} {
			Expect(user.Create(ctx, restore)).To(Succeed())
			Eventually(readyOf).WithContext(ctx).WithArguments(restore).Should(Equal(want))
			Expect(restore.Status.Phase).To(Equal(backupv1alpha1.RunPending))
		}
		jobs := &batchv1.JobList{}
		Expect(user.List(ctx, jobs, client.InNamespace(namespace))).To(Succeed())
		Expect(jobs.Items).To(BeEmpty())
	})
})
