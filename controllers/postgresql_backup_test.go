package controllers_test

import (
	"context"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
	"github.com/fettle-dev/fettle/internal/postgres/agentapi"
)

var _ = Describe("A PostgreSQL with spec.backup", func() {
	It("gets a Backup once its primary archives WAL, reports the archiving, and restarts nothing", func(ctx context.Context) {
		namespace, fake := newDatabases(ctx)
		archive := func(state *agentapi.Archive) {
			fake.Update(func(d *databases) {
				d.ChangeStatus["safe-0"] = func(s *agentapi.Status) { s.Archive = state }
			})
		}
		pg := newPostgreSQL(namespace, "safe")
		createDatabase(ctx, pg)
		set := setOf(pg)
		Expect(read(ctx, set)).To(Succeed())
		generation := set.Generation

		By("enabling it")
		changeDatabase(ctx, pg, func(pg *databasev1alpha1.PostgreSQL) {
			pg.Spec.Backup = &databasev1alpha1.PostgreSQLBackup{Enabled: true, Destination: &backupv1alpha1.Destination{
				URI: "s3://backups", CredentialsSecretRef: &fettlev1.LocalReference{Name: "store"},
			}}
		})
		role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "safe"}}
		Eventually(func(g Gomega) {
			g.Expect(read(ctx, role)).To(Succeed())
			g.Expect(role.Rules).To(ContainElement(rbacv1.PolicyRule{
				APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{"store"}, Verbs: []string{"get"},
			}))
		}).Should(Succeed())
		backup := &backupv1alpha1.Backup{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "safe"}}
		Expect(client.IgnoreNotFound(read(ctx, backup))).To(Succeed())
		Expect(backup.UID).To(BeEmpty())

		written := metav1.NewTime(time.Now().Truncate(time.Second))
		archive(&agentapi.Archive{Reason: databasev1alpha1.ReasonArchiving, LastWritten: written.Time})
		Eventually(pgCondition, "60s").WithContext(ctx).WithArguments(pg, databasev1alpha1.PostgreSQLArchiving).Should(Equal("True Archiving"))
		Expect(pg.Status.LastArchivedTime.Equal(&written)).To(BeTrue())
		Eventually(read).WithContext(ctx).WithArguments(backup).Should(Succeed())
		Expect(metav1.IsControlledBy(backup, pg)).To(BeTrue())
		Expect(backup.Spec.Method).To(Equal(backupv1alpha1.MethodPhysical))
		Expect(backup.Spec.Schedule).To(Equal("0 2 * * *"))
		Eventually(readyOf).WithContext(ctx).WithArguments(backup).Should(Equal("False SecretMissing"))
		Expect(user.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "store"}})).To(Succeed())
		first := firstRun(ctx, backup)
		Expect(first.Name).To(HaveSuffix(backup.CreationTimestamp.UTC().Format("-200601021504")), "the first base backup did not start at once")

		By("taking the store away")
		archive(&agentapi.Archive{Reason: databasev1alpha1.ReasonArchivingFailed, Message: "the store does not answer", FailingSince: time.Now()})
		Eventually(pgReady, "60s").WithContext(ctx).WithArguments(pg).Should(Equal("True ArchivingFailed"))

		By("disabling it")
		archive(nil)
		changeDatabase(ctx, pg, func(pg *databasev1alpha1.PostgreSQL) { pg.Spec.Backup.Enabled = false })
		Eventually(pgCondition).WithContext(ctx).WithArguments(pg, databasev1alpha1.PostgreSQLArchiving).Should(Equal("none"))
		Eventually(func() bool { return client.IgnoreNotFound(read(ctx, backup)) == nil && read(ctx, backup) != nil }).Should(BeTrue())
		Expect(read(ctx, set)).To(Succeed())
		Expect(set.Generation).To(Equal(generation))
	})
})
