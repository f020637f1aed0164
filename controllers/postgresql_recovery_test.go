package controllers_test

import (
	"context"
	"fmt"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	backupv1alpha1 "github.com/fettle-dev/fettle/api/backup/v1alpha1"
	databasev1alpha1 "github.com/fettle-dev/fettle/api/database/v1alpha1"
	fettlev1 "github.com/fettle-dev/fettle/api/meta/v1"
)

var _ = Describe("A PostgreSQL that restores a backup", func() {
	It("lets its agents read the Backup, and the Secrets of its destination once it exists", func(ctx context.Context) {
		namespace, _ := newDatabases(ctx)
		pg := newPostgreSQL(namespace, "restored", func(s *databasev1alpha1.PostgreSQLSpec) {
			s.Bootstrap.Recovery = &databasev1alpha1.PostgreSQLRecovery{Backup: "shop", RecoveryTarget: backupv1alpha1.RecoveryTarget{TargetTime: "2026-03-01T12:00:00Z"}}
		})
		createDatabase(ctx, pg)
		rights := func() string {
			role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: pg.Name}}
			if err := read(ctx, role); err != nil {
				return err.Error()
			}
			out := ""
			for _, rule := range role.Rules {
				if resource := rule.Resources[0]; resource == "secrets" || resource == "backups" {
					out += fmt.Sprintf("%s %v %v, ", resource, rule.ResourceNames, rule.Verbs)
				}
			}
			return out
		}
		Expect(rights()).To(Equal("backups [shop] [get], "))
		backup := &backupv1alpha1.Backup{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "shop"},
			Spec: backupv1alpha1.BackupSpec{
				PostgresRef: "shop", Method: backupv1alpha1.MethodPhysical,
				Destination: backupv1alpha1.Destination{URI: "s3://backups/shop", CredentialsSecretRef: &fettlev1.LocalReference{Name: "store"}},
			},
		}
		Expect(user.Create(ctx, backup)).To(Succeed())
		Eventually(rights).WithContext(ctx).Should(Equal("backups [shop] [get], secrets [store] [get], "))
	})
})
